# `module.mjs` does the same.
import json
import os
import signal


def read(file):
    try:
        with open(file) as content:
            return content.read()
    except FileNotFoundError:
        return ""


def append(file, text):
    with open(file, "a") as content:
        content.write(text)


def operation(name):
    append("operations", name + "\n")
    plan = json.loads(read("plan"))
    if read("operations").count("\n") != plan["number"] or read("killed"):
        return
    append("killed", name)
    if plan["who"] == "host":
        os.kill(os.getpid(), signal.SIGKILL)
    while not read("pid"):
        pass
    os.kill(int(read("pid")), signal.SIGKILL)
    while True:
        pass


async def act(ctx, input):
    operation("handler begins")
    append("ledger", ctx.tool_call_id + "\n")
    operation("handler has acted")
    await ctx.runtime.request("other", "from the tool")
    operation("handler has asked")
    return "acted"


handlers = {"act": act}


def text(content):
    return {"type": "append", "message": {"data": {"role": "user", "content": content}}}


def register(api):
    @api.pipeline.register("turn")
    async def turn(ctx):
        if ctx.input_event["input"] != "go":
            return await ctx.next()
        operation("turn begins")
        api.state.set({"turns": (api.state.get() or {}).get("turns", 0) + 1})
        ctx.emit_message_event(text("begun"))
        operation("turn has a state and a message")
        await ctx.agents.request("other", "from the turn")
        operation("turn has asked")
        await ctx.agents.send("other", "told by the turn")
        operation("turn has told")
        result = await ctx.next()
        operation("turn is over")
        ctx.emit_message_event(text("ended"))
        operation("turn ends")
        return result

    @api.pipeline.register("step")
    async def step(ctx):
        if ctx.turn["inputEvent"]["input"] != "go":
            return await ctx.next()
        operation("step begins")
        result = await ctx.next()
        operation("step ends")
        return result

    @api.pipeline.register("toolCall")
    async def call(ctx):
        operation("call begins")
        result = await ctx.next()
        operation("call ends")
        state = api.state.get()
        api.state.set({**state, "calls": state.get("calls", 0) + 1})
        operation("call is counted")
        return result
