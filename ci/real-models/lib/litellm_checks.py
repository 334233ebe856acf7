"""Checks gdn against a LiteLLM gateway with the deterministic backend of this directory.

Usage: litellm_checks.py FOLDER
Run it with the Python of LiteLLM's environment.
"""

import json
import os
import sys
import time

import checks
import gateway
from gdn import Failure
from services import Service, skip

HERE = os.path.dirname(os.path.abspath(__file__))
LONG_WORDS = 500
# Two minutes: a loaded machine must not finish the answer before the request is cancelled.
ENDLESS_WORDS = 6000
LOADING_SECONDS = "3"


def answer(asked):
    """Returns a part of the backend's answer."""
    if asked.startswith("count "):
        return f"word{LONG_WORDS - 1}"
    return "SOME WORDS HERE" if asked.startswith("use ") else f"You wrote: {asked}"


ASKS = checks.Asks("good morning", f"count {LONG_WORDS}", "use case", "use submit", "use case replace", answer, f"count {ENDLESS_WORDS}")


class Log:
    """The requests that the backend received."""

    def __init__(self, path):
        self.path = path

    def entries(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path) as file:
            return [json.loads(line) for line in file]

    def cut(self):
        """Returns a wait for the end of the next request, which fails unless the request is cut off."""
        count = len(self.entries())

        def wait():
            end = time.monotonic() + checks.CANCEL_SECONDS
            while len(self.entries()) == count and time.monotonic() < end:
                time.sleep(0.1)
            entries = self.entries()[count:]
            if not entries or entries[0]["complete"]:
                raise Failure("the gateway let the cancelled request run to its end")

        return wait


def main():
    (folder,) = sys.argv[1:]
    log = Log(os.path.join(folder, "requests.jsonl"))
    command = [sys.executable, os.path.join(HERE, "backend.py"), "{port}", "--log", log.path]
    backend = Service("The backend", command, "/health", os.path.join(folder, "backend.log"), "unused").start()
    server = gateway.gateway(sys.prefix, folder, backend, "deterministic")
    try:
        server.start()
    except RuntimeError as error:
        skip(str(error))
    report = checks.Report()
    targets = gateway.targets(server, "litellm", ASKS)
    checks.all_of(report, targets, log.cut)
    gateway.restarts(report, targets, server, backend, "--loading", LOADING_SECONDS)
    sys.exit(report.end())


if __name__ == "__main__":
    main()
