# Registers layers around turns, steps (`step`) and tool calls (`toolCall`), once for each conversation. What a layer does before
# `ctx.next()` happens before what it wraps, the rest after it. The page docs/extensions.md of gdn lists what `api` and `ctx` have.
def register(api, config):
    @api.pipeline.register("turn")
    async def count(ctx):
        # What is kept belongs to the conversation, and is there again after a restart.
        turns = (api.state.get() or {"turns": 0})["turns"] + 1
        api.state.set({"turns": turns})
        content = "This is %s %d of the conversation." % (config["what"], turns)
        ctx.emit_message_event({"type": "append", "message": {"data": {"role": "system", "content": content}}})
        result = await ctx.next()
        api.logger.debug("the turn is over", reason=result["finishReason"])
        return result
