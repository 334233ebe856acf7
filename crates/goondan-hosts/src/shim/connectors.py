# This part runs connectors: a function that runs as long as its connection does.
import io
import sys


class ConnectorContext:
    """What a connector knows, and how it emits events."""

    def __init__(self, message, is_async):
        self.connection, self.connector = message["connection"], message["connector"]
        self.config, self.secrets = message["config"], message["secrets"]
        self.logger = Logger(message["id"])
        self._asked = Runtime(message["id"], is_async)

    def emit(self, event):
        """Returns once the event is accepted; in a coroutine it is awaited."""
        return self._asked._ask("emit", event)


class Typed(io.TextIOBase):
    """What is typed where gdn runs, a line at a time. It is asked for when somebody reads."""

    def __init__(self, id):
        self._asked = Runtime(id, False)

    def readable(self):
        return True

    def readline(self, size=-1):
        line = self._asked._ask("line", {}).get("line")
        return "" if line is None else line + "\n"


async def connect(message, pool):
    id = message["id"]
    _current.set(id)
    loop = asyncio.get_running_loop()
    try:
        inside = contextvars.copy_context()
        sys.stdin = Typed(id)
        run = await loop.run_in_executor(pool, inside.run, connector_of, message)
        context = ConnectorContext(message, inspect.iscoroutinefunction(run))
        if inspect.iscoroutinefunction(run):
            await run(context)
        else:
            await loop.run_in_executor(pool, inside.run, run, context)
        done(id, None)
    except BaseException as error:
        log(id, "debug", traceback.format_exc())
        fail(id, thrown(error), error.fault if isinstance(error, Fault) else None)
    finally:
        PRINTED.finish(id)


def connector_of(message):
    try:
        module = load(message["module"], message["package"])
    except BaseException as error:
        log(message["id"], "debug", traceback.format_exc())
        raise Fault("module", "its module can't be loaded: %s: %s" % (type(error).__name__, short(str(error), 2000))) from None
    run = getattr(module, "run", None)
    if callable(run):
        return run
    raise Fault("module", "its module has no function `run`", "Define `def run(ctx):` or `async def run(ctx):`.")
