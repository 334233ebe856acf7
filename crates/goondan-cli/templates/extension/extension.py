# Registers layers around turns, steps (`step`) and tool calls (`toolCall`), once per conversation. Code before `ctx.next()` runs
# before the wrapped turn, step or call; the rest runs after it. See docs/extensions.md for `api` and `ctx`.
def register(api, config):
    @api.pipeline.register("turn")
    async def count(ctx):
        # The state belongs to the conversation and survives a restart.
        turns = (api.state.get() or {"turns": 0})["turns"] + 1
        api.state.set({"turns": turns})
        content = "This is %s %d of the conversation." % (config["what"], turns)
        ctx.emit_message_event({"type": "append", "message": {"data": {"role": "system", "content": content}}})
        result = await ctx.next()
        api.logger.debug("the turn is over", reason=result["finishReason"])
        return result
