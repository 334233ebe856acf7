# Runs connectors: a connector is a function that runs as long as its connection.
import io
import sys


class ConnectorContext:
    """The data and methods for a connector."""

    def __init__(self, message, is_async, loop):
        self._id, self._loop, self._replies = message["id"], loop, False
        self.connection, self.connector = message["connection"], message["connector"]
        self.config, self.secrets = message["config"], message["secrets"]
        self.logger = Logger(message["id"])
        self._runtime = Runtime(message["id"], is_async)

    def emit(self, event):
        """Returns when gdn has accepted the event. Await it in a coroutine."""
        return self._runtime._request("connector.emit", event)

    def on_reply(self, send):
        """Sends answers with `send`, one after another. If `send` raises, the error is the reason for the failure. Usable as a decorator."""
        if not callable(send):
            raise TypeError("`on_reply` needs a function that sends an answer")
        if self._replies:
            raise RuntimeError("`on_reply` was already called")
        self._replies = True
        call_variables = contextvars.copy_context()
        threading.Thread(target=call_variables.run, args=(self._send_replies, send), daemon=True).start()
        return send

    def _send_replies(self, send):
        runtime = Runtime(self._id, False)
        while True:
            reply = runtime._request("connector.reply", {}).get("reply")
            if not reply:
                return
            number, error = reply.pop("number"), None
            try:
                sent = send(reply)
                if inspect.isawaitable(sent):
                    asyncio.run_coroutine_threadsafe(await_value(sent), self._loop).result()
            except BaseException as raised:
                error = truncated(str(raised) or type(raised).__name__, 300)
            runtime._request("connector.replied", {"number": number, "error": error})


async def await_value(work):
    return await work


class TerminalInput(io.TextIOBase):
    """The lines typed in the terminal of gdn. Each read requests one line."""

    def __init__(self, id):
        self._runtime = Runtime(id, False)

    def readable(self):
        return True

    def readline(self, size=-1):
        line = self._runtime._request("connector.line", {}).get("line")
        return "" if line is None else line + "\n"


async def connect(message, pool):
    id = message["id"]
    _current_call_id.set(id)
    loop = asyncio.get_running_loop()
    try:
        call_variables = contextvars.copy_context()
        sys.stdin = TerminalInput(id)
        run = await loop.run_in_executor(pool, call_variables.run, load_connector, message)
        context = ConnectorContext(message, inspect.iscoroutinefunction(run), loop)
        if inspect.iscoroutinefunction(run):
            await run(context)
        else:
            await loop.run_in_executor(pool, call_variables.run, run, context)
        send_result(id, None)
    except BaseException as error:
        log(id, "debug", traceback.format_exc())
        send_failure(id, error_fields(error), error.fault if isinstance(error, Fault) else None)
    finally:
        STDOUT.finish(id)


def load_connector(message):
    module = load_module(message)
    run = getattr(module, "run", None)
    if callable(run):
        return run
    raise Fault("module", "its module has no function `run`", "Define `def run(ctx):` or `async def run(ctx):`.")
