import sys


# Runs as long as the connection does. Each line that somebody types is an event; ask your platform for its messages instead. The
# page docs/connections.md of gdn lists what `ctx` has.
def run(ctx):
    # An answer that can't be sent has failed: raise an error that says why.
    @ctx.on_reply
    def send(reply):
        ctx.logger.info(reply["text"], room=reply["origin"]["room"])

    room = ctx.config["room"]
    for line in sys.stdin:
        # It returns once the event is on disk. Where the platform has an id of the message, pass it as `id`: the same id starts
        # one turn, however often it comes.
        ctx.emit({"name": "line", "message": line.strip(), "instanceKey": room, "origin": {"room": room}})
