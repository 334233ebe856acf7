# This half runs the handlers of modules, and speaks for both. It speaks in lines of JSON: it reads them from descriptor 3 and writes them
# to descriptor 4, so that whatever a module prints gets in nobody's way. Handlers that are coroutines run on one event loop;
# others in threads of their own.
import asyncio
import concurrent.futures
import contextvars
import importlib
import importlib.util
import inspect
import io
import json
import os
import platform
import sys
import threading
import traceback

MAX_RESULT = 16 * 1024 * 1024
MAX_LOG = 10_000
MOST_THREADS = 64

_writing = threading.Lock()
_current = contextvars.ContextVar("gdn_call", default=None)
_calls = {}
_asked = {}
_modules = {}
_loading = threading.Lock()
LOOP = []
_counter = iter(range(1, 1 << 62))


def utf8(text):
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Two halves make a character, and one makes none.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def write(line):
    data = memoryview(line + b"\n")
    with _writing:
        while data:
            data = data[os.write(4, data):]


# Modules may put something else in their place.
_dumps, _loads = json.dumps, json.loads


def encode(value):
    return _dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def tell(message):
    write(utf8(encode(message)))


def short(text, most=MAX_LOG):
    return text[:most] + "…" if len(text) > most else text


def plain(fields):
    try:
        found = _loads(encode(fields or {}))
        return found if isinstance(found, dict) else {}
    except (TypeError, ValueError, RecursionError):
        return {}


class ToolError(Exception):
    """An error with a code and a suggestion."""

    def __init__(self, message, code=None, suggestion=None, help_url=None):
        super().__init__(message)
        self.message, self.code, self.suggestion, self.help_url = message, code, suggestion, help_url


class Fault(Exception):
    """An error in the module or in the result of the handler."""

    def __init__(self, fault, message, suggestion=None):
        super().__init__(message)
        self.fault, self.suggestion = fault, suggestion


# What is mostly raised by the language, not by a module that knows what it says: where it happened tells more than the words.
SLIPS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RecursionError, TypeError)

# The folder of the project, which all modules of a host belong to.
_home = ""


def _slip(error):
    place = _mistake(error, _home) if isinstance(error, SLIPS) and _home else None
    return "Look at %s, where %s was raised." % (place, type(error).__name__) if place else None


def thrown(error):
    def text(*names):
        for name in names:
            value = getattr(error, name, None)
            if isinstance(value, str):
                return short(value)
        return None

    try:
        message = short(str(error)) or type(error).__name__
        if isinstance(error, SystemExit):
            message = "the handler called `sys.exit`"
        elif isinstance(error, KeyError):
            # Its words are the key and nothing else.
            message = "KeyError: " + message
        return {
            "name": None if isinstance(error, Fault) else type(error).__name__,
            "message": message,
            "code": text("code"),
            "suggestion": text("suggestion") or _slip(error),
            "helpUrl": text("help_url", "helpUrl"),
        }
    except Exception:
        return {"message": "the handler raised an error that cannot be displayed"}


def log(id, level, message, fields=None):
    tell({"kind": "log", "id": id, "level": level, "message": short(str(message)), "fields": plain(fields)})


class Logger:
    """Writes log lines of one call."""

    def __init__(self, id):
        self._id = id

    def debug(self, message, *args, **fields):
        self._log("debug", message, args, fields)

    def info(self, message, *args, **fields):
        self._log("info", message, args, fields)

    def warning(self, message, *args, **fields):
        self._log("warn", message, args, fields)

    def error(self, message, *args, **fields):
        self._log("error", message, args, fields)

    log = info
    warn = warning

    def _log(self, level, message, args, fields):
        log(self._id, level, str(message) % args if args else message, fields)


class Printed(io.TextIOBase):
    """Turns printed output of a module into log lines of the current call."""

    def __init__(self, level):
        self._level, self._pending = level, {}

    def writable(self):
        return True

    def write(self, text):
        call = _current.get()
        whole = self._pending.pop(call, "") + text
        *lines, rest = whole.split("\n")
        for line in lines:
            if line.strip():
                log(call, self._level, line)
        if rest:
            self._pending[call] = rest[-MAX_LOG:]
        return len(text)

    def flush(self):
        pass

    def finish(self, call):
        rest = self._pending.pop(call, "")
        if rest.strip():
            log(call, self._level, rest)


class Output:
    """A result, with a title, metadata and attachments for users."""

    def __init__(self, output, title=None, metadata=None, attachments=None):
        self.output, self.title, self.metadata, self.attachments = output, title, metadata, attachments


class Runtime:
    """Access to other agents. Await each method in a coroutine; in other handlers, the call blocks."""

    def __init__(self, call, is_async):
        self._call, self._is_async = call, is_async

    def request(self, target, event, timeout_ms=None, wait=True):
        return self._ask("runtime.request", {**_event(target, event), "timeoutMs": timeout_ms, "async": not wait})

    def send(self, target, event):
        return self._ask("runtime.send", _event(target, event))

    def spawn(self, target, instance_key=None, cwd=None):
        return self._ask("runtime.spawn", {"target": target, "instanceKey": instance_key, "cwd": cwd})

    def list(self, include_all=False):
        return self._ask("runtime.list", {"includeAll": include_all})

    def catalog(self):
        return self._ask("runtime.catalog", {})

    def _ask(self, name, payload):
        number, answer = next(_counter), concurrent.futures.Future()
        _asked[number] = answer
        payload = {key: value for key, value in payload.items() if value is not None}
        tell({"kind": "ask", "id": self._call, "ask": number, "name": name, "payload": payload})
        return asyncio.wrap_future(answer) if self._is_async else answer.result()


def _event(target, event):
    event = {"input": event} if isinstance(event, str) else dict(event or {})
    text = event.get("input", "")
    return {
        "target": target,
        "input": text if isinstance(text, str) else encode(text),
        "eventType": event.get("type"),
        "instanceKey": event.get("instanceKey", event.get("instance_key")),
        "metadata": event.get("metadata"),
    }


class Context:
    """The data and methods for a call."""

    def __init__(self, call, is_async):
        context = call["context"]
        self.agent_name = context["agentName"]
        self.instance_key = context["instanceKey"]
        self.turn_id = context["turnId"]
        self.trace_id = context["traceId"]
        self.tool_call_id = context["toolCallId"]
        self.message = context["message"]
        self.workdir = context["workdir"]
        self.project_dir = context["projectDir"]
        self.permissions = context["permissions"]
        self.timeout_ms = context["timeoutMs"]
        self.config = call["config"]
        self.logger = Logger(call["id"])
        self.runtime = Runtime(call["id"], is_async)
        self.cancelled = threading.Event()
        self._id = call["id"]

    def progress(self, title, **metadata):
        if isinstance(title, dict):
            title = dict(title)
            metadata = {**plain(title.pop("metadata", None)), **metadata}
            text = title.pop("title", "")
            title, metadata = text, {**title, **metadata}
        tell({"kind": "progress", "id": self._id, "title": short(str(title), 1000), "metadata": plain(metadata)})

    @staticmethod
    def output(output, title=None, metadata=None, attachments=None):
        return Output(output, title, metadata, attachments)


def load(path, package):
    with _loading:
        if path not in _modules:
            _modules[path] = _import(path, package)
        return _modules[path]


def _import(path, package):
    for place in (package, os.path.dirname(path)):
        add_place(place)
    name = os.path.relpath(path, package)[: -len(".py")].replace(os.sep, ".")
    if _found(name) == os.path.realpath(path):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location("gdn_module_%d" % len(_modules), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _found(name):
    """The file that this name imports, if any."""
    try:
        spec = importlib.util.find_spec(name) if all(map(str.isidentifier, name.split("."))) else None
    except (ImportError, ValueError):
        return None
    return os.path.realpath(spec.origin) if spec and spec.origin else None


def loaded(message):
    """The module of a message."""
    try:
        return load(message["module"], message["package"])
    except BaseException as error:
        log(message["id"], "debug", traceback.format_exc())
        place = _mistake(error, _home) or _inside(message["module"], _home) or os.path.basename(message["module"])
        # Of a mistake in the syntax, the rest is a place.
        told = error.msg if isinstance(error, SyntaxError) else str(error)
        told = told.replace(os.path.join(_home, ""), "")
        raise Fault("module", "%s can't be loaded: %s: %s" % (place, type(error).__name__, short(told, 2000))) from None


def _mistake(error, project):
    """The last file and line of the project in a traceback. Files outside of the project are not reported."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    for file, line in reversed(places):
        named = _inside(file, project)
        if named and os.path.realpath(file) != os.path.realpath(__file__):
            return "%s:%s" % (named, line)
    return None


def _inside(file, project):
    """The path of a file relative to the project directory."""
    for one, root in ((file, project), (os.path.realpath(file), os.path.realpath(project))):
        if one.startswith(os.path.join(root, "")):
            return os.path.relpath(one, root)
    return None


def handler_of(call):
    if call.get("session") is not None:
        tool = _sessions[call["session"]].tools.get(call["export"])
        if tool is None:
            raise Fault("module", "the extension has no tool `%s`" % call["export"])
        return tool[1]
    module = loaded(call)
    handlers = getattr(module, "handlers", None)
    name = call["export"]
    handler = handlers.get(name) if isinstance(handlers, dict) else None
    if callable(handler):
        return handler
    known = ", ".join(map(str, handlers)) or "none" if isinstance(handlers, dict) else None
    suggestion = "Its handlers are: %s." % known if known else "Define `handlers`, a dict from export names to functions."
    raise Fault("module", "its module has no handler `%s`" % name, suggestion)


def done(id, result, more=None):
    whole = result if isinstance(result, Output) else Output(result)
    try:
        output = utf8(encode(whole.output))
        more = {**(more or {}), "title": whole.title, "metadata": whole.metadata, "attachments": whole.attachments}
        more = utf8(encode({key: value for key, value in more.items() if value is not None}))
    except (TypeError, ValueError, RecursionError) as error:
        raise Fault("result", "the result is not JSON: %s" % error) from None
    if len(output) + len(more) > MAX_RESULT:
        message = "the result has %d bytes, which is more than 16 MiB" % (len(output) + len(more))
        raise Fault("result", message, "Return less, or write the result to a file and return the file name.")
    write(b'{"kind":"done","id":%d,"output":%s,"more":%s}' % (id, output, more))


def fail(id, error, fault=None, news=None):
    error = {key: value for key, value in error.items() if value is not None}
    # What was allocated may be free again only later.
    spent = error.get("name") == "MemoryError"
    tell({"kind": "fail", "id": id, "error": error, "fault": fault, **(news or {}), "spent": spent})


def news_of(call):
    """Changed state and event subscriptions of the extension that registered the tool."""
    session = _sessions.get(call.get("session"))
    return session.news() if session else None


def attempt(handler, context, call):
    """Runs a handler that is no coroutine, and answers; what it returns is to be awaited."""
    result = handler(context, call["arguments"])
    if inspect.isawaitable(result):
        return result
    return done(call["id"], result, news_of(call))


async def run(call, pool):
    id = call["id"]
    _current.set(id)
    loop = asyncio.get_running_loop()
    context = None
    try:
        inside = contextvars.copy_context()
        is_loaded = call["module"] in _modules or call.get("session") is not None
        handler = handler_of(call) if is_loaded else await loop.run_in_executor(pool, inside.run, handler_of, call)
        is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))
        context = Context(call, is_async)
        _calls[id] = (context, asyncio.current_task() if is_async else None)
        if is_async:
            left = handler(context, call["arguments"])
        else:
            left = await loop.run_in_executor(pool, inside.run, attempt, handler, context, call)
        if left is not None:
            result = await left
            # To write a large result takes a while, and others wait for the loop.
            await loop.run_in_executor(pool, done, id, result, news_of(call))
    except asyncio.CancelledError:
        fail(id, {"message": "the call was cancelled", "code": "E_TOOL_CANCELLED"})
    except BaseException as error:
        # A handler that calls `sys.exit` ends its call and nothing else.
        log(id, "debug", traceback.format_exc())
        fail(id, thrown(error), error.fault if isinstance(error, Fault) else None)
    finally:
        _calls.pop(id, None)
        PRINTED.finish(id)


def hear(message, loop, pool, tasks):
    global _home
    kind = message["kind"]
    _home = _home or message.get("projectDir") or (message.get("context") or {}).get("projectDir") or ""
    work = {"call": run, "layer": layer, "register": register, "connect": connect}.get(kind)
    if work:
        task = loop.create_task(work(message, pool))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    elif kind == "cancel":
        context, task = _calls.get(message["id"], (None, None))
        if context:
            context.cancelled.set()
        if task:
            task.cancel()
    elif kind == "event":
        happened(message)
    elif kind == "forget":
        forget(message["session"])
    elif kind == "ping":
        tell({"kind": "pong"})


def answer(message):
    waiting = _asked.pop(message["ask"], None)
    if waiting is None or waiting.cancelled():
        return
    error = message.get("error")
    if error is None:
        waiting.set_result(message.get("value"))
    else:
        waiting.set_exception(
            ToolError(error.get("message"), error.get("code"), error.get("suggestion"), error.get("helpUrl"))
        )


def read(loop, pool, tasks):
    with open(3, "rb", buffering=1 << 16) as lines:
        for line in lines:
            message = _loads(line)
            if message["kind"] == "answer":
                answer(message)
            else:
                loop.call_soon_threadsafe(hear, message, loop, pool, tasks)
    os._exit(0)


async def main():
    loop, tasks = asyncio.get_running_loop(), set()
    LOOP.append(loop)
    pool = concurrent.futures.ThreadPoolExecutor(MOST_THREADS)
    tell({"kind": "hello", "runtime": "python", "version": platform.python_version()})
    threading.Thread(target=read, args=(loop, pool, tasks), daemon=True).start()
    await asyncio.Event().wait()


for descriptor in (3, 4):
    os.set_inheritable(descriptor, False)
PRINTED = Printed("info")
sys.stdout, sys.stderr = PRINTED, Printed("warn")
gdn = type(sys)("gdn")
gdn.ToolError, gdn.Output = ToolError, Output
sys.modules.setdefault("gdn", gdn)
asyncio.run(main())
