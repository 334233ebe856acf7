"""Starts, kills and restarts the servers of the checks. All of them end with the script."""

import atexit
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

RUNNING = []
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
START_SECONDS = 90


def end_with_parent():
    """Makes the kernel kill a new child when this script ends in any way."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, key, seconds=2):
    """Returns the status and the body of a page, or `(0, b"")` when there is no answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {key}"})
    try:
        with opener.open(request, timeout=seconds) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


class Service:
    """A server on its own port. `{port}` in `command` stands for that port."""

    def __init__(self, name, command, health, log, key, env=None):
        self.name, self.command, self.health, self.log, self.key, self.env = name, command, health, log, key, env
        self.port, self.process = free_port(), None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def launch(self, *more):
        """Starts the process without waiting for it."""
        command = [part.replace("{port}", str(self.port)) for part in [*self.command, *more]]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent
            )
        RUNNING.append(self)

    def start(self, *more):
        """Starts the process and waits until it is ready."""
        self.launch(*more)
        self.wait()
        return self

    def wait(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if get(self.url + self.health, self.key)[0] == 200:
                return
            time.sleep(0.1)
        with open(self.log, "rb") as log:
            tail = log.read()[-600:].decode(errors="replace")
        self.kill()
        raise RuntimeError(f"{self.name} did not start (exit code {self.process.returncode}): {' '.join(tail.split())}")

    def kill(self):
        """Ends the process at once, as a crash does."""
        if self in RUNNING:
            RUNNING.remove(self)
            self.process.kill()
            self.process.wait()


def kill_all():
    for service in list(RUNNING):
        service.kill()


def end(*_):
    kill_all()
    os._exit(130)


atexit.register(kill_all)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)


def skip(reason):
    print(f"skipped: {reason}", flush=True)
    sys.exit(0)
