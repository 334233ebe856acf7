# Runs the handlers of modules, and exchanges messages with gdn. Messages are lines of JSON on descriptors 3 (in) and 4 (out), so that
# printed output of a module does not mix with them. Coroutine handlers run on one event loop. Other handlers run in threads.
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
MAX_THREADS = 64

_writing = threading.Lock()
_current_call_id = contextvars.ContextVar("gdn_call", default=None)
_calls = {}
_pending_requests = {}
_modules = {}
_loading = threading.Lock()
EVENT_LOOP = []
_counter = iter(range(1, 1 << 62))


def utf8(text):
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Surrogate pairs become characters, and lone surrogates become U+FFFD.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def write(line):
    data = memoryview(line + b"\n")
    with _writing:
        while data:
            data = data[os.write(4, data):]


# Saved, because modules may replace the functions in `json`.
_dumps, _loads = json.dumps, json.loads


def encode(value):
    return _dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def send_message(message):
    write(utf8(encode(message)))


def truncated(text, max_length=MAX_LOG):
    return text[:max_length] + "…" if len(text) > max_length else text


def json_object(fields):
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


# Errors that Python itself usually raises. Their location helps more than their message.
BUILTIN_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RecursionError, TypeError)

# The project directory, which contains all modules of this process.
_project_dir = ""


def _location_hint(error):
    """Returns a suggestion with the location of a built-in error in the project."""
    place = _error_location(error, _project_dir) if isinstance(error, BUILTIN_ERRORS) and _project_dir else None
    return "Look at %s, where %s was raised." % (place, type(error).__name__) if place else None


def error_fields(error):
    """Returns the error fields of a message to gdn. Handlers may raise objects that cannot be displayed."""

    def text(*names):
        for name in names:
            value = getattr(error, name, None)
            if isinstance(value, str):
                return truncated(value)
        return None

    try:
        message = truncated(str(error)) or type(error).__name__
        if isinstance(error, SystemExit):
            message = "the handler called `sys.exit`"
        elif isinstance(error, KeyError):
            # The message of a KeyError is only the key.
            message = "KeyError: " + message
        return {
            "name": None if isinstance(error, Fault) else type(error).__name__,
            "message": message,
            "code": text("code"),
            "suggestion": text("suggestion") or _location_hint(error),
            "helpUrl": text("help_url", "helpUrl"),
        }
    except Exception:
        return {"message": "the handler raised an error that cannot be displayed"}


def log(id, level, message, fields=None):
    send_message({"kind": "log", "id": id, "level": level, "message": truncated(str(message)), "fields": json_object(fields)})


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


class PrintedOutput(io.TextIOBase):
    """Turns printed output of a module into log lines of the current call."""

    def __init__(self, level):
        self._level, self._pending = level, {}

    def writable(self):
        return True

    def write(self, text):
        call = _current_call_id.get()
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
        return self._request("runtime.request", {**_event(target, event), "timeoutMs": timeout_ms, "async": not wait})

    def send(self, target, event):
        return self._request("runtime.send", _event(target, event))

    def spawn(self, target, instance_key=None, cwd=None):
        return self._request("runtime.spawn", {"target": target, "instanceKey": instance_key, "cwd": cwd})

    def list(self, include_all=False):
        return self._request("runtime.list", {"includeAll": include_all})

    def catalog(self):
        return self._request("runtime.catalog", {})

    def _request(self, name, payload):
        number, answer = next(_counter), concurrent.futures.Future()
        _pending_requests[number] = answer
        payload = {key: value for key, value in payload.items() if value is not None}
        send_message({"kind": "ask", "id": self._call, "ask": number, "name": name, "payload": payload})
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
            metadata = {**json_object(title.pop("metadata", None)), **metadata}
            text = title.pop("title", "")
            title, metadata = text, {**title, **metadata}
        send_message({"kind": "progress", "id": self._id, "title": truncated(str(title), 1000), "metadata": json_object(metadata)})

    @staticmethod
    def output(output, title=None, metadata=None, attachments=None):
        return Output(output, title, metadata, attachments)


def load(path, package):
    with _loading:
        if path not in _modules:
            _modules[path] = _import(path, package)
        return _modules[path]


def _import(path, package):
    for directory in (package, os.path.dirname(path)):
        add_module_directory(directory)
    name = os.path.relpath(path, package)[: -len(".py")].replace(os.sep, ".")
    if _imported_file(name) == os.path.realpath(path):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location("gdn_module_%d" % len(_modules), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _imported_file(name):
    """Returns the file that an import of `name` finds, if any."""
    try:
        spec = importlib.util.find_spec(name) if all(map(str.isidentifier, name.split("."))) else None
    except (ImportError, ValueError):
        return None
    return os.path.realpath(spec.origin) if spec and spec.origin else None


def load_module(message):
    """Imports the module of a message, and returns it."""
    try:
        return load(message["module"], message["package"])
    except BaseException as error:
        log(message["id"], "debug", traceback.format_exc())
        place = _error_location(error, _project_dir) or _relative_path(message["module"], _project_dir) or os.path.basename(message["module"])
        # The string of a SyntaxError repeats the location.
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        reason = reason.replace(os.path.join(_project_dir, ""), "")
        raise Fault("module", "%s can't be loaded: %s: %s" % (place, type(error).__name__, truncated(reason, 2000))) from None


def _error_location(error, project):
    """Returns the last file and line of the project in a traceback. Files outside of the project are not reported."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    for file, line in reversed(places):
        relative = _relative_path(file, project)
        if relative and os.path.realpath(file) != os.path.realpath(__file__):
            return "%s:%s" % (relative, line)
    return None


def _relative_path(file, project):
    """Returns the path of a file relative to the project directory, or `None` if it is outside of it."""
    for path, root in ((file, project), (os.path.realpath(file), os.path.realpath(project))):
        if path.startswith(os.path.join(root, "")):
            return os.path.relpath(path, root)
    return None


def load_handler(call):
    if call.get("session") is not None:
        tool = _sessions[call["session"]].tools.get(call["export"])
        if tool is None:
            raise Fault("module", "the extension has no tool `%s`" % call["export"])
        return tool[1]
    module = load_module(call)
    handlers = getattr(module, "handlers", None)
    name = call["export"]
    handler = handlers.get(name) if isinstance(handlers, dict) else None
    if callable(handler):
        return handler
    known = ", ".join(map(str, handlers)) or "none" if isinstance(handlers, dict) else None
    suggestion = "Its handlers are: %s." % known if known else "Define `handlers`, a dict from export names to functions."
    raise Fault("module", "its module has no handler `%s`" % name, suggestion)


def send_result(id, result, more=None):
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


def send_failure(id, error, fault=None, changes=None):
    error = {key: value for key, value in error.items() if value is not None}
    # gdn restarts the process after this error, because the allocated memory may not be freed soon.
    out_of_memory = error.get("name") == "MemoryError"
    send_message({"kind": "fail", "id": id, "error": error, "fault": fault, **(changes or {}), "spent": out_of_memory})


def unreported_changes_of(call):
    """Changed state and event subscriptions of the extension that registered the tool."""
    session = _sessions.get(call.get("session"))
    return session.unreported_changes() if session else None


def run_in_thread(handler, context, call):
    """Calls a handler in a thread, and sends its result. If the result must be awaited, returns it instead."""
    result = handler(context, call["arguments"])
    if inspect.isawaitable(result):
        return result
    return send_result(call["id"], result, unreported_changes_of(call))


async def run(call, pool):
    id = call["id"]
    _current_call_id.set(id)
    loop = asyncio.get_running_loop()
    context = None
    try:
        call_variables = contextvars.copy_context()
        is_loaded = call["module"] in _modules or call.get("session") is not None
        handler = load_handler(call) if is_loaded else await loop.run_in_executor(pool, call_variables.run, load_handler, call)
        is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))
        context = Context(call, is_async)
        _calls[id] = (context, asyncio.current_task() if is_async else None)
        if is_async:
            pending = handler(context, call["arguments"])
        else:
            pending = await loop.run_in_executor(pool, call_variables.run, run_in_thread, handler, context, call)
        if pending is not None:
            result = await pending
            # Encoding a large result is slow, and would block the event loop.
            await loop.run_in_executor(pool, send_result, id, result, unreported_changes_of(call))
    except asyncio.CancelledError:
        send_failure(id, {"message": "the call was cancelled", "code": "E_TOOL_CANCELLED"})
    except BaseException as error:
        # `sys.exit` in a handler ends only its call.
        log(id, "debug", traceback.format_exc())
        send_failure(id, error_fields(error), error.fault if isinstance(error, Fault) else None)
    finally:
        _calls.pop(id, None)
        STDOUT.finish(id)


def handle_message(message, loop, pool, tasks):
    global _project_dir
    kind = message["kind"]
    _project_dir = _project_dir or message.get("projectDir") or (message.get("context") or {}).get("projectDir") or ""
    handle = {"call": run, "layer": layer, "register": register, "connect": connect}.get(kind)
    if handle:
        task = loop.create_task(handle(message, pool))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    elif kind == "cancel":
        context, task = _calls.get(message["id"], (None, None))
        if context:
            context.cancelled.set()
        if task:
            task.cancel()
    elif kind == "event":
        queue_event(message)
    elif kind == "forget":
        remove_session(message["session"])
    elif kind == "ping":
        send_message({"kind": "pong"})


def resolve_request(message):
    waiting = _pending_requests.pop(message["ask"], None)
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
                resolve_request(message)
            else:
                loop.call_soon_threadsafe(handle_message, message, loop, pool, tasks)
    os._exit(0)


async def main():
    loop, tasks = asyncio.get_running_loop(), set()
    EVENT_LOOP.append(loop)
    pool = concurrent.futures.ThreadPoolExecutor(MAX_THREADS)
    send_message({"kind": "hello", "runtime": "python", "version": platform.python_version()})
    threading.Thread(target=read, args=(loop, pool, tasks), daemon=True).start()
    await asyncio.Event().wait()


for descriptor in (3, 4):
    os.set_inheritable(descriptor, False)
STDOUT = PrintedOutput("info")
sys.stdout, sys.stderr = STDOUT, PrintedOutput("warn")
gdn = type(sys)("gdn")
gdn.ToolError, gdn.Output = ToolError, Output
sys.modules.setdefault("gdn", gdn)
asyncio.run(main())
