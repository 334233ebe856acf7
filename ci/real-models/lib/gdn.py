"""Runs `gdn` in a project and a state root of its own."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import services

ANSWER_SECONDS = 180
GDN = os.path.abspath(os.environ["GDN"])


class Failure(Exception):
    """The reason why a check failed."""


def require(condition, reason):
    if not condition:
        raise Failure(reason)


class Project:
    """A project with one model and one agent, with a home and a state root of its own."""

    def __init__(self, model, agent, policy):
        self.runs = []
        self.base = tempfile.mkdtemp(prefix="gdn-real-")
        self.path = os.path.join(self.base, "project")
        for name in ("project", "home", "state"):
            os.mkdir(os.path.join(self.base, name))
        self.env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        self.env.update(HOME=os.path.join(self.base, "home"), GOONDAN_STATE_ROOT=os.path.join(self.base, "state"), NO_COLOR="1")
        # JSON is YAML, so the project file needs no library.
        documents = [
            resource("Model", "m", model),
            resource("Agent", "a", agent),
            resource("Swarm", "default", {"entryAgent": "Agent/a", "agents": [{"ref": "Agent/a"}], "policy": policy}),
        ]
        with open(os.path.join(self.path, "goondan.yaml"), "w") as file:
            file.write("\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n")

    def start(self, *inputs):
        self.runs.append(Run(self, inputs))
        return self.runs[-1]

    def ask(self, *inputs, seconds=ANSWER_SECONDS):
        """Sends the inputs one after another and returns the finished run."""
        return self.start(*inputs).finish(seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for run in self.runs:
            run.process.kill()
            run.process.wait()
        shutil.rmtree(self.base, ignore_errors=True)


def resource(kind, name, spec):
    return {"apiVersion": "goondan.ai/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


class Run:
    """One `gdn run` with `stream-json` on both sides."""

    def __init__(self, project, inputs):
        command = [GDN, "run", project.path, "--trust", "--yes", "--input-format", "stream-json", "--output-format", "stream-json"]
        self.events, self.changed, self.is_over = [], threading.Condition(), False
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, env=project.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, preexec_fn=services.end_with_parent
        )
        threading.Thread(target=self.read, daemon=True).start()
        self.process.stdin.write("".join(json.dumps({"input": text}) + "\n" for text in inputs).encode())
        self.process.stdin.close()

    def read(self):
        for line in self.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                event = {"type": "error", "error": {"code": "UNREADABLE", "message": line.decode(errors="replace")}}
            with self.changed:
                self.events.append(event)
                self.changed.notify_all()
        with self.changed:
            self.is_over = True
            self.changed.notify_all()

    def of(self, kind):
        return [event for event in self.events if event.get("type") == kind]

    def wait_for(self, kind, count):
        """Waits until so many events of a type have come."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.of(kind)) >= count or self.is_over, ANSWER_SECONDS)
            require(len(self.of(kind)) >= count, f"{len(self.of(kind))} of {count} {kind} came; {self.why()}")

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def finish(self, seconds=ANSWER_SECONDS):
        """Waits for the end of the process and kills it when the time is over."""
        begin = time.monotonic()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f"gdn did not end within {seconds} s; {self.why()}") from None
        with self.changed:
            self.changed.wait_for(lambda: self.is_over, max(1, seconds - (time.monotonic() - begin)))
        self.stderr.seek(0)
        self.errors = self.stderr.read().decode(errors="replace")
        require("panicked" not in self.errors, f"gdn panicked: {self.errors[-300:]}")
        return self

    @property
    def results(self):
        return self.of("result")

    def answers(self):
        """Returns the results. Fails if there is none or one of them is an error."""
        require(self.results, f"gdn gave no result and ended with {self.process.returncode}: {getattr(self, 'errors', '')[-300:]}")
        for result in self.results:
            require(not result.get("error"), self.why())
        return self.results

    def text(self):
        """Returns the streamed text of the last step that has any."""
        text = ""
        for event in self.events:
            if event.get("type") in ("text.reset", "step.started", "turn.started"):
                text = ""
            elif event.get("type") == "text.delta":
                text += event["delta"]
        return text

    def why(self):
        for event in reversed(self.events):
            error = event.get("error")
            if error and event.get("type") in ("result", "error"):
                return f"{error.get('code')}: {error.get('message')}"
            if event.get("errorMessage"):
                return f"{event.get('errorCode')}: {event['errorMessage']}"
        return f"last event: {self.events[-1].get('type') if self.events else 'none'}"
