"""Modules that are written with these types. mypy checks them strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goondan_types import (
        ExtensionApi,
        Handler,
        JsonObject,
        StepLayerContext,
        ToolCallLayerContext,
        ToolContext,
        TurnLayerContext,
    )


def register(api: ExtensionApi, config: JsonObject) -> None:
    @api.pipeline.register("turn")
    async def turn(ctx: TurnLayerContext) -> Any:
        turns = (api.state.get() or {"turns": 0})["turns"] + 1
        api.state.set({"turns": turns})
        ctx.emit_message_event({"type": "append", "message": {"data": {"role": "system", "content": str(turns)}}})
        answer = await ctx.agents.request("other", ctx.input_event["input"], timeout_ms=1000)
        api.logger.info("heard %s", answer["response"], new=len(ctx.conversation_state.next_messages))
        return await ctx.next()

    def step(ctx: StepLayerContext) -> Any:
        ctx.tool_catalog = [item for item in ctx.tool_catalog if item["name"] != "bash__exec"]
        return ctx.next()

    @api.pipeline.register("tool_call", priority=-1)
    def call(ctx: ToolCallLayerContext) -> Any:
        ctx.agents  # type: ignore[attr-defined]  # layers around tool calls ask nobody
        if any(word in str(ctx.args) for word in config["words"]):
            return {"status": "error", "error": {"code": "NOT_SAID", "message": "this is not said here"}}
        return ctx.next()

    api.pipeline.register("step", step, priority=2)
    api.pipeline.register("week", step)  # type: ignore[call-overload]  # there is no such kind
    api.tools.register({"name": "notes__add"}, add)
    off = api.events.on("noted", lambda note: api.logger.debug(note))
    api.events.emit("noted", "a")
    off()


def add(ctx: ToolContext, input: JsonObject) -> Any:
    ctx.progress("noting", words=len(input["note"]))
    return ctx.output(input["note"], title="noted")


async def ask(ctx: ToolContext, input: JsonObject) -> Any:
    answer = await ctx.runtime.request(ctx.config["target"], {"input": input["text"]}, timeout_ms=1000)
    return None if ctx.cancelled.is_set() else answer["response"]


handlers: dict[str, Handler] = {"add": add, "ask": ask}
