# This part runs connectors: a function that runs as long as its connection does.
import io
import sys


class ConnectorContext:
    """The data of a connector, and its methods."""

    def __init__(self, message, is_async, loop):
        self._id, self._loop, self._replies = message["id"], loop, False
        self.connection, self.connector = message["connection"], message["connector"]
        self.config, self.secrets = message["config"], message["secrets"]
        self.logger = Logger(message["id"])
        self._asked = Runtime(message["id"], is_async)

    def emit(self, event):
        """Returns once the event is accepted; in a coroutine it is awaited."""
        return self._asked._ask("connector.emit", event)


    def on_reply(self, send):
        """Sends answers with `send`, one after another. If `send` raises, the error is the reason for the failure. Usable as a decorator."""
        if not callable(send):
            raise TypeError("`on_reply` needs a function that sends an answer")
        if self._replies:
            raise RuntimeError("`on_reply` was already called")
        self._replies = True
        inside = contextvars.copy_context()
        threading.Thread(target=inside.run, args=(self._send_replies, send), daemon=True).start()
        return send

    def _send_replies(self, send):
        asked = Runtime(self._id, False)
        while True:
            reply = asked._ask("connector.reply", {}).get("reply")
            if not reply:
                return
            number, error = reply.pop("number"), None
            try:
                sent = send(reply)
                if inspect.isawaitable(sent):
                    asyncio.run_coroutine_threadsafe(awaited(sent), self._loop).result()
            except BaseException as raised:
                error = short(str(raised) or type(raised).__name__, 300)
            asked._ask("connector.replied", {"number": number, "error": error})


async def awaited(work):
    return await work


class Typed(io.TextIOBase):
    """The lines typed in the terminal of gdn. Each read requests one line."""

    def __init__(self, id):
        self._asked = Runtime(id, False)

    def readable(self):
        return True

    def readline(self, size=-1):
        line = self._asked._ask("connector.line", {}).get("line")
        return "" if line is None else line + "\n"


async def connect(message, pool):
    id = message["id"]
    _current.set(id)
    loop = asyncio.get_running_loop()
    try:
        inside = contextvars.copy_context()
        sys.stdin = Typed(id)
        run = await loop.run_in_executor(pool, inside.run, connector_of, message)
        context = ConnectorContext(message, inspect.iscoroutinefunction(run), loop)
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
    module = loaded(message)
    run = getattr(module, "run", None)
    if callable(run):
        return run
    raise Fault("module", "its module has no function `run`", "Define `def run(ctx):` or `async def run(ctx):`.")
