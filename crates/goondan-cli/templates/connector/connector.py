import sys


# Runs as long as the connection. Each typed line is an event; fetch your platform's messages instead.
# See docs/connections.md for `ctx`.
def run(ctx):
    # If the answer can't be sent, raise an error with the reason.
    @ctx.on_reply
    def send(reply):
        ctx.logger.info(reply["text"], room=reply["origin"]["room"])

    room = ctx.config["room"]
    for line in sys.stdin:
        # Returns once the event is on disk. If the platform has a message id, pass it as `id`: events with the
        # same id start only one turn.
        ctx.emit({"name": "line", "message": line.strip(), "instanceKey": room, "origin": {"room": room}})
