# Each function implements the export of the same name in the Tool resource. It receives a context (caller, working directory,
# logger, other agents) and the arguments, already validated against `parameters`. It returns a JSON value.
def reverse(ctx, input):
    ctx.logger.debug("turning around", length=len(input["text"]))
    return {"result": input["text"][::-1]}


handlers = {"reverse": reverse}
