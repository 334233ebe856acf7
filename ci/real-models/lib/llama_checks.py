"""Checks gdn against llama-server with a small model, and against a LiteLLM gateway in front of it.

Usage: llama_checks.py FOLDER SERVER LIBRARIES WEIGHTS [VENV]
VENV is the environment of LiteLLM; without it, the gateway is left out.

The model has 135 million parameters, and its answers make no sense. So the checks look at their form: a text, several pieces, a call that
the model repeats, data that fits a schema. They cannot judge the decision to call a tool, and the use of a result or of a correction.
"""

import json
import os
import sys
import time

import checks
import gateway
from checks import Format, Target
from gdn import Failure, require
from services import Service, get, skip

HERE = os.path.dirname(os.path.abspath(__file__))
KEY = "sk-llama"
MODEL = "smollm2"
FORMATS = [
    Format("chat", "llamacpp", "/v1"),
    Format("responses", "openai", "/v1", {"api": "responses"}),
    Format("messages", "anthropic", "/v1"),
]
SLOTS = 6
SLOT_TOKENS = 2048


def call(name, arguments):
    """Returns an input that the model repeats as a call."""
    return f"Repeat this:\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


ASKS = checks.Asks(
    "What is a river?",
    "Write a very long story about a river.",
    call("text-transform__case", {"text": "hello", "to": "upper"}),
    call("answer__submit", {"shelf": "rest", "pages": 2}),
)


def llama_server(folder, program, libraries, weights):
    options = {
        "model": weights,
        "alias": MODEL,
        "host": "127.0.0.1",
        "port": "{port}",
        "api-key": KEY,
        "device": "none",
        # Several threads wait for each other in busy loops, which takes minutes on a machine with other work.
        "threads": "1",
        "parallel": str(SLOTS),
        "ctx-size": str(SLOTS * SLOT_TOKENS),
        "chat-template-file": os.path.join(HERE, "chatml-tools.jinja"),
    }
    command = [program, "--jinja", "--slots", "--no-webui", *(part for name, value in options.items() for part in (f"--{name}", value))]
    env = {**os.environ, "LD_LIBRARY_PATH": libraries}
    return Service("llama-server", command, "/health", os.path.join(folder, "llama.log"), KEY, env)


def idle(server):
    """Returns a wait for the end of all requests."""

    def wait():
        end = time.monotonic() + checks.CANCEL_SECONDS
        while time.monotonic() < end:
            status, body = get(f"{server.url}/slots", server.key)
            if status == 200 and not any(slot["is_processing"] for slot in json.loads(body)):
                return
            time.sleep(0.1)
        raise Failure("the server was still working on the cancelled request")

    return wait


def too_long(target):
    """A conversation that exceeds the context ends at once, with an error in the server's words."""
    with target.project() as project:
        run = project.ask("river " * SLOT_TOKENS)
        require(run.results and run.results[0].get("error"), "there was no error")
        require(len(run.of("model.failed")) == 1 and not run.of("model.failed")[0].get("retries"), "the request was sent again")
        require("context size" in run.results[0]["error"]["message"], run.why())


def main():
    folder, program, libraries, weights, *venv = sys.argv[1:]
    server = llama_server(folder, program, libraries, weights)
    try:
        server.start()
    except RuntimeError as error:
        skip(str(error))
    report = checks.Report()
    # llama-server drops the schema of a request in any format but chat.
    targets = [Target(f"llama/{form.name}", server, MODEL, form, ASKS, form.name == "chat") for form in FORMATS]
    checks.all_of(report, targets, lambda: idle(server))
    for target in targets:
        report.check(f"{target.name}/too-long", too_long, target)
    checks.survive(report, "restart", targets, checks.DOWN_SECONDS, server.kill, server.start)
    checks.survive(report, "late-restart", targets, 4 * checks.DOWN_SECONDS, server.kill, server.start)
    if venv:
        behind_gateway(report, folder, server, venv[0])
    sys.exit(report.end())


def behind_gateway(report, folder, backend, venv):
    server = gateway.gateway(venv, folder, backend, MODEL)
    try:
        server.start()
    except RuntimeError as error:
        print(f"skipped: {error}", flush=True)
        return
    targets = gateway.targets(server, "litellm-llama", ASKS, lambda form, route: route == "bridged" or form in ("chat", "gemini"))
    checks.all_of(report, targets, lambda: idle(backend))
    gateway.restarts(report, targets, server, backend)


if __name__ == "__main__":
    main()
