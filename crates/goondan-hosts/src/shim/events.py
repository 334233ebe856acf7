# Delivers events to the handlers of extensions. All Python files of this directory are concatenated to one program, so they share names.
import asyncio
import inspect
import queue
import threading
import traceback


class EventBus:
    """Event handlers by event name. All extensions of an instance share one bus."""

    def __init__(self):
        self._handlers, self.session_count = {}, 0

    def on(self, entry):
        name = entry[0]
        self._handlers.setdefault(name, []).append(entry)

        def remove():
            known = self._handlers.get(name, [])
            self._handlers[name] = [other for other in known if other is not entry]

        return remove

    def emit(self, name, *args):
        _call_handlers(list(self._handlers.get(name, ())), args)


def _call_handlers(entries, args):
    for name, handler in entries:
        try:
            result = handler(*args)
            if inspect.isawaitable(result):
                asyncio.run_coroutine_threadsafe(_await_handler(result, name), EVENT_LOOP[0])
        # The thread must continue to call other handlers.
        except BaseException:
            _log_handler_failure(name)


# Runtime events for the delivery thread. A slow handler delays only other handlers.
_event_queue = queue.Queue(1024)
_delivery_threads = []


def _deliver_events():
    while True:
        session, event = _event_queue.get()
        entries = [entry for entry in list(session.subscriptions) if entry[0] == event["type"]]
        _call_handlers(entries, (event,))


def queue_event(message):
    session = _sessions.get(message["session"])
    if session is None:
        return
    if not _delivery_threads:
        _delivery_threads.append(threading.Thread(target=_deliver_events, daemon=True))
        _delivery_threads[0].start()
    try:
        _event_queue.put_nowait((session, message["event"]))
    except queue.Full:
        log(None, "debug", "dropped an event: too many events are already queued")


async def _await_handler(result, name):
    try:
        await result
    except Exception:
        _log_handler_failure(name)


def _log_handler_failure(name):
    log(_current_call_id.get(), "error", "a handler of the event %s failed: %s" % (name, traceback.format_exc()))


