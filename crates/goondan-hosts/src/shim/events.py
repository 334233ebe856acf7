# Events, as extensions in Python hear them. This is one part of a file; what is not defined here is in the others.
import asyncio
import inspect
import queue
import threading
import traceback


class Bus:
    """Names of events with their handlers; the extensions of an instance share one."""

    def __init__(self):
        self._handlers, self.users = {}, 0

    def on(self, entry):
        name = entry[0]
        self._handlers.setdefault(name, []).append(entry)

        def off():
            known = self._handlers.get(name, [])
            self._handlers[name] = [other for other in known if other is not entry]

        return off

    def emit(self, name, *args):
        _tell_all(list(self._handlers.get(name, ())), args)


def _tell_all(entries, args):
    for name, handler in entries:
        try:
            result = handler(*args)
            if inspect.isawaitable(result):
                asyncio.run_coroutine_threadsafe(_heard(result, name), LOOP[0])
        # Whatever it was: the thread that tells others goes on.
        except BaseException:
            _told(name)


# Events of the runtime wait here for the thread that tells them: a handler that takes long delays other handlers alone.
_happened = queue.Queue(1024)
_telling = []


def _tell_happened():
    while True:
        session, event = _happened.get()
        entries = [entry for entry in list(session.subscriptions) if entry[0] == event["type"]]
        _tell_all(entries, (event,))


def happened(message):
    session = _sessions.get(message["session"])
    if session is None:
        return
    if not _telling:
        _telling.append(threading.Thread(target=_tell_happened, daemon=True))
        _telling[0].start()
    try:
        _happened.put_nowait((session, message["event"]))
    except queue.Full:
        log(None, "debug", "dropped an event: too many events are already queued")


async def _heard(result, name):
    try:
        await result
    except Exception:
        _told(name)


def _told(name):
    log(_current.get(), "error", "a handler of the event %s failed: %s" % (name, traceback.format_exc()))


