# Runs extensions: they register for an instance, and their layers run around turns, steps and tool calls.
import asyncio
import concurrent.futures
import contextvars
import copy
import inspect
import itertools
import threading
import time
import traceback
from datetime import datetime, timezone

KINDS = ("turn", "step", "toolCall")

_sessions = {}
_buses = {}
_emitted_ids = itertools.count()


class Session:
    """The registration of an extension for an instance."""

    def __init__(self, message):
        self.key = (message["agentName"], message["instanceKey"])
        self.bus = _buses.setdefault(self.key, EventBus())
        self.bus.session_count += 1
        self.extension = message["extension"]
        self.layers, self.tools, self.unsubscribers = [], {}, []
        self.subscriptions, self.subscriptions_changed = [], False
        self.state, self.state_changed, self.is_open = message.get("state"), False, True
        self.conversation = ConversationCopy()
        self.lock = threading.Lock()

    def subscribe(self, name, handler):
        if not callable(handler):
            raise TypeError("`events.on` needs a function")
        entry = (str(name), handler)
        remove_from_bus = self.bus.on(entry)
        with self.lock:
            self.subscriptions, self.subscriptions_changed = self.subscriptions + [entry], True
        self.unsubscribers.append(remove_from_bus)

        def unsubscribe():
            remove_from_bus()
            with self.lock:
                self.subscriptions = [known for known in self.subscriptions if known is not entry]
                self.subscriptions_changed = True

        return unsubscribe

    def unreported_changes(self):
        """State and event subscriptions that changed since the last report to gdn."""
        unreported = {}
        with self.lock:
            if self.state_changed:
                unreported["state"] = {"value": self.state}
            if self.subscriptions_changed:
                unreported["listens"] = sorted({name for name, _ in self.subscriptions})
            self.state_changed = self.subscriptions_changed = False
        return unreported

    def apply_update(self, update):
        """Applies changes of the conversation and the state that gdn sent."""
        self.conversation.apply_update(update)
        if "state" in update:
            with self.lock:
                self.state, self.state_changed = update["state"]["value"], False


class Pipeline:
    def __init__(self, session):
        self._session = session

    def register(self, kind, run=None, priority=0):
        """Registers a layer; without a function it is a decorator."""
        if run is None:
            return lambda run: self.register(kind, run, priority) or run
        if not self._session.is_open:
            raise RuntimeError("call `pipeline.register` only inside `register`")
        if kind == "tool_call":
            kind = "toolCall"
        if kind not in KINDS:
            raise TypeError("unknown layer kind %r; use turn, step or toolCall" % (kind,))
        if not callable(run):
            raise TypeError("`pipeline.register` needs a function")
        self._session.layers.append((kind, run, float(priority)))


class Tools:
    def __init__(self, session):
        self._session = session

    def register(self, item, handler):
        if not self._session.is_open:
            raise RuntimeError("call `tools.register` only inside `register`")
        if not isinstance(item.get("name"), str) or not callable(handler):
            raise TypeError("`tools.register` needs `{name, description, parameters}` and a function")
        parameters = item.get("parameters", {"type": "object", "properties": {}})
        shape = {"name": item["name"], "description": str(item.get("description", "")), "parameters": parameters}
        self._session.tools[item["name"]] = (_loads(encode(shape)), handler)


class State:
    def __init__(self, session):
        self._session = session

    def get(self):
        with self._session.lock:
            return copy.deepcopy(self._session.state)

    def set(self, value):
        value = _loads(encode(value))
        with self._session.lock:
            self._session.state, self._session.state_changed = value, True


class Events:
    def __init__(self, session):
        self._session = session

    def on(self, name, handler):
        return self._session.subscribe(name, handler)

    def emit(self, name, *args):
        self._session.bus.emit(name, *args)


class CurrentLogger:
    """Writes log lines of the call in which it is used."""

    def __getattr__(self, name):
        return getattr(Logger(_current_call_id.get()), name)


class ExtensionApi:
    def __init__(self, session, message):
        self.agent_name, self.instance_key = message["agentName"], message["instanceKey"]
        self.workdir, self.project_dir = message["workdir"], message["projectDir"]
        self.config = message["config"]
        self.logger = CurrentLogger()
        self.pipeline, self.tools = Pipeline(session), Tools(session)
        self.state, self.events = State(session), Events(session)


def _load_register(message):
    module = load_module(message)
    function = getattr(module, "register", None)
    if not callable(function):
        raise Fault("load", "its module has no function `register`", "Write `def register(api): …`.")
    return function


def _accepts(function, count):
    """Returns true if a function accepts `count` arguments."""
    try:
        inspect.signature(function).bind(*range(count))
        return True
    except TypeError:
        return False


async def _call_function(function, arguments, pool):
    """Calls a function: a coroutine on the event loop, any other function in a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):
        return await function(*arguments)
    call_variables = contextvars.copy_context()
    result = await asyncio.get_running_loop().run_in_executor(pool, call_variables.run, function, *arguments)
    return await result if inspect.isawaitable(result) else result


async def register(message, pool):
    id, number = message["id"], message["session"]
    _current_call_id.set(id)
    session = _sessions[number] = Session(message)
    try:
        call_variables = contextvars.copy_context()
        function = await asyncio.get_running_loop().run_in_executor(pool, call_variables.run, _load_register, message)
        api = ExtensionApi(session, message)
        arguments = (api, message["config"]) if _accepts(function, 2) else (api,)
        try:
            await _call_function(function, arguments, pool)
        except BaseException as error:
            log(id, "debug", traceback.format_exc())
            reason = "`register` failed: %s: %s" % (type(error).__name__, truncated(str(error)))
            raise Fault("init", reason, error_fields(error).get("suggestion")) from None
        session.is_open = False
        layers = [{"kind": kind, "priority": priority} for kind, _, priority in session.layers]
        registered = {"layers": layers, "tools": [shape for shape, _ in session.tools.values()], "keeps": True}
        send_result(id, registered, session.unreported_changes())
    except BaseException as error:
        remove_session(number)
        send_failure(id, error_fields(error), error.fault if isinstance(error, Fault) else "init")
    finally:
        STDOUT.finish(id)


def remove_session(number):
    session = _sessions.pop(number, None)
    if session is None:
        return
    for unsubscribe in session.unsubscribers:
        unsubscribe()
    session.bus.session_count -= 1
    if session.bus.session_count == 0:
        _buses.pop(session.key, None)


def _apply_events(base, events):
    messages = list(base)
    for event in events:
        kind, target = event["type"], event.get("targetId")
        at = next((at for at, message in enumerate(messages) if target is not None and message["id"] == target), None)
        if kind == "append":
            messages.append(event["message"])
        elif kind == "truncate":
            messages.clear()
        elif at is not None and kind == "replace":
            messages[at] = event["message"]
        elif at is not None and kind == "remove":
            del messages[at]
    return messages


class ConversationCopy:
    """A copy of the conversation in gdn, kept between turns. Messages are kept as JSON, which handlers cannot modify, and
    parsed at most once per turn."""

    def __init__(self):
        self._texts, self._changes, self._base, self.events = [], [], None, []

    def apply_update(self, update):
        """Applies the whole conversation, or its changes since the last update."""
        splice, events = update.get("splice"), update.get("events", [])
        if "base" in update:
            self._reset([_text(message) for message in update["base"]])
        if splice:
            known = _apply_events(self._texts, self._changes)
            if len(known) != splice["of"]:
                raise RuntimeError("the conversation in the runtime process differs from the one in gdn")
            parts = (known[slice(*part)] if isinstance(part, list) else [_text(part)] for part in splice["parts"])
            self._reset([message for part in parts for message in part])
        for event in events:
            self._changes.append({**event, "message": _text(event["message"])} if "message" in event else event)
        self.events = self.events + events

    def _reset(self, texts):
        self._texts, self._changes, self._base, self.events = texts, [], None, []

    @property
    def base(self):
        if self._base is None:
            self._base = [_loads(known["text"]) for known in self._texts]
        return self._base


def _text(message):
    return {"id": message["id"], "text": encode(message)}


class ConversationState:
    def __init__(self, session, emitted):
        self._session, self._emitted = session, emitted

    @property
    def base_messages(self):
        return list(self._session.conversation.base)

    @property
    def events(self):
        return self._session.conversation.events + self._emitted

    @property
    def next_messages(self):
        return _apply_events(self._session.conversation.base, self.events)

    def to_llm_messages(self):
        return [message["data"] for message in self.next_messages]


class Agents:
    """Access to other agents. Await each method in a coroutine; in other layers, the call blocks."""

    def __init__(self, run):
        self._run = run

    def request(self, target, input="", instance_key=None, timeout_ms=None, metadata=None, wait=True):
        payload = _agent_request(target, input, instance_key, metadata)
        if timeout_ms is not None:
            payload["timeoutMs"] = timeout_ms
        return self._run.request("layer.request", {**payload, "async": not wait})

    def send(self, target, input="", instance_key=None, metadata=None):
        return self._run.request("layer.send", _agent_request(target, input, instance_key, metadata))


def _agent_request(target, input, instance_key, metadata):
    payload = {"target": target, "input": input if isinstance(input, str) else encode(input), "metadata": metadata or {}}
    if instance_key is not None:
        payload["instanceKey"] = instance_key
    return payload


class LayerContext:
    """The data and methods for a layer."""

    def __init__(self, run, context):
        self._run = run
        self.agent_name, self.instance_key = context["agentName"], context["instanceKey"]
        self.turn_id, self.trace_id = context["turnId"], context["traceId"]
        self.metadata = context.get("metadata") or {}
        self.logger = Logger(run.id)
        self.cancelled = run.cancelled
        for field, name in (
            ("runtime", "runtime"),
            ("inputEvent", "input_event"),
            ("turn", "turn"),
            ("stepIndex", "step_index"),
            ("stepId", "step_id"),
            ("toolCatalog", "tool_catalog"),
            ("toolName", "tool_name"),
            ("toolCallId", "tool_call_id"),
            ("args", "args"),
        ):
            if field in context:
                setattr(self, name, context[field])
        if "toolName" not in context:
            self.conversation_state = ConversationState(run.session, run.emitted)
            self.agents = Agents(run)

    def emit_message_event(self, event):
        if "toolName" in self._run.context:
            raise RuntimeError("a layer around a tool call cannot change the conversation")
        self._run.emit(event)

    def next(self):
        """Runs the wrapped operation once and returns its result. Await it in a coroutine."""
        return self._run.next()


def _now():
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


class LayerRun:
    """A call of a layer, with the changes that its code makes."""

    def __init__(self, message, session, is_async):
        self.id, self.context, self.session = message["id"], message["context"], session
        self.emitted, self.has_next, self.is_over, self.broken = [], False, False, None
        self.cancelled, self._is_async = threading.Event(), is_async
        self.ctx = LayerContext(self, copy.deepcopy(self.context))
        self._known = {"metadata": self.ctx.metadata, "args": self.context.get("args")}
        self._known = copy.deepcopy(self._known)
        self._names = self._catalog()

    def _catalog(self):
        items = getattr(self.ctx, "tool_catalog", None)
        return None if items is None else [{"name": item["name"]} for item in items]

    def emit(self, event):
        if self.is_over:
            raise RuntimeError("the layer is over: it can no longer emit events")
        if not isinstance(event, dict) or event.get("type") not in ("append", "replace", "remove", "truncate"):
            raise TypeError("the type of a message event must be append, replace, remove or truncate")
        event = _loads(encode(event))
        if event["type"] in ("append", "replace"):
            message = event.get("message") or {}
            data = message.get("data") or {}
            if "role" not in data or "content" not in data:
                raise TypeError("a message needs `data: {role, content}`")
            if isinstance(data["content"], str):
                data["content"] = [{"type": "text", "text": data["content"]}]
            if not message.get("id"):
                parts = (self.session.extension, self.context["turnId"], time.time_ns(), next(_emitted_ids))
                message["id"] = event.get("targetId") or "%s-%s-%d-%d" % parts
            message.setdefault("createdAt", _now())
            message.setdefault("metadata", {})
        self.emitted.append(event)

    def changes(self):
        """Changes since the last report to gdn."""
        fields = {}
        for field, known in self._known.items():
            value = getattr(self.ctx, field, None)
            if value != known:
                fields[field] = _loads(encode(value))
                self._known[field] = copy.deepcopy(value)
        names = self._catalog()
        if names != self._names:
            fields["toolCatalog"], self._names = names, names
        events = self.emitted[:]
        del self.emitted[:]
        return {"changes": {"fields": fields, "events": events}, **self.session.unreported_changes()}

    def _start_request(self, name, payload):
        if self.is_over:
            raise RuntimeError("the layer is over: it can no longer send requests")
        number, answer = next(_counter), concurrent.futures.Future()
        _pending_requests[number] = answer
        send_message({"kind": "ask", "id": self.id, "ask": number, "name": name, "payload": payload})
        return answer

    def request(self, name, payload):
        answer = self._start_request(name, payload)
        return asyncio.wrap_future(answer) if self._is_async else answer.result()

    def next(self):
        if self.has_next:
            self.broken = Fault("next", "`next` was called a second time", "Call `next` once, and keep its result.")
            raise ToolError(str(self.broken), code="E_EXT_NEXT")
        self.has_next = True
        answer = self._start_request("layer.next", self.changes())
        if not self._is_async:
            return self._apply_next_result(answer.result())

        async def wait():
            return self._apply_next_result(await asyncio.wrap_future(answer))

        return asyncio.ensure_future(wait())

    def _apply_next_result(self, answer):
        self.session.apply_update(answer["news"])
        self.ctx.metadata.clear()
        self.ctx.metadata.update(answer["metadata"])
        self._known["metadata"] = copy.deepcopy(answer["metadata"])
        return answer["result"]


async def layer(message, pool):
    id, session, run = message["id"], _sessions[message["session"]], None
    _current_call_id.set(id)
    try:
        session.apply_update(message["news"])
        function = session.layers[message["layer"]][1]
        is_async = inspect.iscoroutinefunction(function)
        run = LayerRun(message, session, is_async)
        _calls[id] = (run, asyncio.current_task() if is_async else None)
        result = await _call_function(function, (run.ctx, run.ctx.next) if _accepts(function, 2) else (run.ctx,), pool)
        if run.broken:
            raise run.broken
        run.is_over = True
        send_result(id, result, run.changes())
    except asyncio.CancelledError:
        send_failure(id, {"message": "the layer was cancelled", "code": "E_TURN_CANCELLED"}, None, session.unreported_changes())
    except BaseException as error:
        log(id, "debug", traceback.format_exc())
        error = (run and run.broken) or error
        send_failure(id, error_fields(error), error.fault if isinstance(error, Fault) else None, session.unreported_changes())
    finally:
        if run:
            run.is_over = True
        _calls.pop(id, None)
        STDOUT.finish(id)


