"""The checks of one wire format of one server, and the report of their results."""

import time

from gdn import Failure, Project, require

TOOLS = {"tools": [{"ref": "Tool/text-transform", "exports": ["case", "replace"]}]}
SCHEMA = {
    "type": "object",
    "properties": {"shelf": {"enum": ["bills", "rest"]}, "pages": {"type": "integer", "minimum": 0}},
    "required": ["shelf", "pages"],
    "additionalProperties": False,
}
OUTPUT = {"output": {"schema": SCHEMA}}
ANSWER_TOKENS = 200
LONG_TOKENS = 1500
PIECES_BEFORE_BREAK = 5
CANCEL_SECONDS = 30
DOWN_SECONDS = 5


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, function, *arguments):
        """Runs one check and prints one line about it."""
        try:
            function(*arguments)
        except Failure as failure:
            self.add(name, str(failure))
        except Exception as error:
            self.add(name, f"{type(error).__name__}: {error}")
        else:
            self.add(name, None)

    def add(self, name, failure):
        if failure is None:
            self.passed += 1
            print(f"ok {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAIL {name}  # {' '.join(failure.split())[:400]}", flush=True)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed else 0


class Asks:
    """The inputs that one kind of model understands.

    `short` gets a short answer, `long` one of several seconds, and `endless` one that lasts until it is cancelled. `call` makes the
    model call a tool of `text-transform`, `submit` makes it call `answer__submit`, and `calls` makes it call two tools at once. For a
    model with known answers, `answers` returns a part of each.
    """

    def __init__(self, short, long, call, submit, calls=None, answers=None, endless=None):
        self.short, self.long, self.call, self.submit, self.calls, self.answers = short, long, call, submit, calls, answers
        self.endless = endless or long


class Format:
    """A wire format as gdn speaks it to one server: the provider, the path of the endpoint, and the options of the Model."""

    def __init__(self, name, provider, path, options=None):
        self.name, self.provider, self.path, self.options = name, provider, path, options or {}

    def model(self, target, capabilities=None):
        spec = {
            "provider": self.provider,
            "model": target.model,
            "endpoint": target.server.url + self.path,
            "apiKey": {"value": target.server.key},
            "options": self.options,
        }
        return {**spec, "capabilities": capabilities} if capabilities else spec


class Target:
    """One format at one model of one server, and what is known of that model."""

    def __init__(self, name, server, model, form, asks, is_schema_obeyed=True):
        self.name, self.server, self.model, self.form, self.asks = name, server, model, form, asks
        self.is_schema_obeyed = is_schema_obeyed

    def project(self, agent=None, policy=None, capabilities=None, max_tokens=ANSWER_TOKENS):
        params = {"temperature": 0, "maxTokens": max_tokens}
        agent = {"modelConfig": {"modelRef": "Model/m", "params": params}, "prompt": {"system": "Be brief."}, **(agent or {})}
        return Project(self.form.model(self, capabilities), agent, policy or {})

    def require_answer(self, asked, result):
        text = result["response"] or ""
        require(text.strip(), "the response is empty")
        if self.asks.answers:
            wanted = self.asks.answers(asked)
            require(wanted in text, f"the response is {text[-200:]!r}, without {wanted!r}")


def plain(target):
    """A question gets a text, and the tokens are counted."""
    with target.project() as project:
        (result,) = project.ask(target.asks.short).answers()
        target.require_answer(target.asks.short, result)
        require(result["finishReason"] not in ("max_steps", "cancelled"), f"finishReason is {result['finishReason']}")
        usage = result["usage"]
        require(usage["promptTokens"] > 0 and usage["completionTokens"] > 0, f"usage is {usage}")


def streamed(target):
    """The text comes in pieces, which together are the response."""
    with target.project() as project:
        run = project.ask(target.asks.short)
        (result,) = run.answers()
        require(len(run.of("text.delta")) > 1, f"{len(run.of('text.delta'))} pieces came")
        require(run.text() == result["response"], f"the pieces are {run.text()!r}, the response is {result['response']!r}")


def tool(target):
    """A call is run. The server accepts its result, a further input, and the whole conversation after a restart of gdn."""
    with target.project(TOOLS, {"maxStepsPerTurn": 3}) as project:
        run = project.ask(target.asks.call, target.asks.short)
        results = run.answers()
        done = run.of("tool.completed")
        require(done, f"no tool was called; the response is {results[0].get('response')!r}")
        require(done[0]["toolName"].startswith("text-transform__") and done[0]["status"] == "ok", f"the tool gave {done[0].get('error')}")
        require(results[0]["steps"] > 1, "the result was not sent back")
        require(len(results) == 2, f"{len(results)} of 2 inputs were answered")
        if target.asks.answers:
            target.require_answer(target.asks.call, results[0])
        project.ask(target.asks.short).answers()


def two_tools(target):
    """Two calls of one answer are run, and the server accepts both results."""
    with target.project(TOOLS) as project:
        run = project.ask(target.asks.calls)
        (result,) = run.answers()
        done = [(event["toolName"], event["status"]) for event in run.of("tool.completed")]
        require(sorted(done) == [("text-transform__case", "ok"), ("text-transform__replace", "ok")], f"the tools were {done}")
        target.require_answer(target.asks.calls, result)


def native_output(target):
    """With the schema in the request, the answer fits at the first attempt.

    If a server drops the schema, gdn corrects the model, and the turn ends with a fitting answer or with `E_MODEL_OUTPUT`.
    """
    with target.project(OUTPUT, capabilities={"structuredOutput": True}) as project:
        run = project.ask("Answer with the shelf and the pages.")
        error = run.results[0].get("error") if run.results else None
        if error and not target.is_schema_obeyed:
            require(error["code"] == "E_MODEL_OUTPUT", run.why())
            require(len(run.of("step.started")) > 1, "the model was not asked again")
            return
        require_output(run, target.is_schema_obeyed)


def tool_output(target):
    """With the schema as a tool, the arguments of the call fit at the first attempt."""
    with target.project(OUTPUT, capabilities={"structuredOutput": False}) as project:
        require_output(project.ask(target.asks.submit), True)


def require_output(run, is_first_attempt):
    (result,) = run.answers()
    data = result.get("output")
    require(isinstance(data, dict) and set(data) == {"shelf", "pages"}, f"the output is {data}")
    require(data["shelf"] in ("bills", "rest") and isinstance(data["pages"], int) and data["pages"] >= 0, f"the output is {data}")
    require(result["steps"] == 1 or not is_first_attempt, f"the model needed {result['steps']} attempts")


def cancel(target, wait_until_idle):
    """An interrupt in the middle of an answer ends gdn and the request at once. Then the server answers as before."""
    with target.project(policy={"shutdown": {"gracePeriodSeconds": 0}}, max_tokens=LONG_TOKENS) as project:
        run = project.start(target.asks.endless)
        run.wait_for("text.delta", PIECES_BEFORE_BREAK)
        run.interrupt()
        run.finish(CANCEL_SECONDS)
        require(run.process.returncode == 130, f"gdn ended with {run.process.returncode}: {run.errors[-200:]}")
        for result in run.results:
            require(result["finishReason"] == "cancelled", f"finishReason is {result['finishReason']}; {run.why()}")
    wait_until_idle()
    plain(target)


def all_of(report, targets, idle=lambda: lambda: None):
    """Runs the checks that leave the server alone. `idle` is called before a cancelled request, and returns the wait for its end."""
    for target in targets:
        for name, function in CHECKS.items():
            if function is not two_tools or target.asks.calls:
                report.check(f"{target.name}/{name}", function, target)
        report.check(f"{target.name}/cancel", cancel, target, idle())


def survive(report, name, targets, seconds, interrupt, resume):
    """Kills a server in the middle of one answer of each target and restarts it. All turns must end with whole answers."""
    projects = [target.project() for target in targets]
    try:
        runs = [project.start(target.asks.long) for project, target in zip(projects, targets, strict=True)]
        failures = [begin(run) for run in runs]
        failures = [failure or is_over(run) for run, failure in zip(runs, failures, strict=True)]
        interrupt()
        time.sleep(seconds)
        try:
            resume()
        except RuntimeError as error:
            failures = [str(error)] * len(runs)
        for target, run, failure in zip(targets, runs, failures, strict=True):
            report.check(f"{target.name}/{name}", survived, target, run, failure)
    finally:
        for project in projects:
            project.remove()


def begin(run):
    """Waits for the first pieces and returns the reason if they do not come."""
    try:
        run.wait_for("text.delta", PIECES_BEFORE_BREAK)
    except Failure as failure:
        return f"The answer did not begin: {failure}"
    return None


def is_over(run):
    return "The answer was over before the break" if run.results else None


def survived(target, run, failure):
    require(failure is None, failure)
    run.finish()
    (result,) = run.answers()
    target.require_answer(target.asks.long, result)
    require(run.text() == result["response"], "the pieces are not the response")


CHECKS = {
    "plain": plain,
    "streamed": streamed,
    "tool": tool,
    "two-tools": two_tools,
    "output-native": native_output,
    "output-tool": tool_output,
}
