"""What a receiver of OpenTelemetry has got of two turns, held against the published conventions for generative AI.

Usage: telemetry.py URL, with Phoenix behind URL, which has got a turn of examples/newsroom and one of the project of ci/telemetry.
Prints a line for each check; fails at the first that does not hold.
"""

import inspect
import json
import sys
import time
import urllib.request

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as conventions
from opentelemetry.semconv.attributes import error_attributes

URL = sys.argv[1]
OURS = "goondan."
# Phoenix makes these of ours, for its own pages.
ITS_OWN = ("llm.", "openinference.", "session.", "tool.", "input.", "output.", "metadata", "agent.")
INTERNAL, CLIENT = 1, 3


def check(what, holds, seen=None):
    if not holds:
        sys.exit(f"FAILED: {what}: {seen!r}")
    print(f"ok: {what}")


def get(path):
    with urllib.request.urlopen(URL + path) as response:
        return json.load(response)


def known():
    """The names that the conventions lay down, without those that they have withdrawn."""
    source = inspect.getsource(conventions)
    names = {}
    for name, value in vars(conventions).items():
        if name.startswith("GEN_AI_") and isinstance(value, str):
            said = source.split(f'{name}: Final = "{value}"')[1].lstrip()
            # That they have a repository of their own now is no withdrawal.
            names[value] = not said.startswith('"""\nDeprecated') or "repository](https://github.com/open-telemetry/semantic" in said[:200]
    return names


def simple(attributes):
    """Attributes by name, with the type that they were sent in."""
    return {
        attribute["key"]: next((kind, value) for kind, value in attribute["value"].items() if value is not None)
        for attribute in attributes
    }


def spans(count):
    """All spans, once there are that many of turns: a receiver may take a moment to store them."""
    for _ in range(100):
        found = get("/v1/projects/default/spans/otlpv1?limit=1000")["data"]
        if sum(span["name"].startswith("invoke_agent ") for span in found) >= count:
            return found
        time.sleep(0.1)
    sys.exit(f"FAILED: {count} turns arrive: {[span['name'] for span in found]}")


TYPES = {
    "gen_ai.request.stream": "bool_value",
    "gen_ai.response.time_to_first_chunk": "double_value",
    "gen_ai.usage.input_tokens": "int_value",
    "gen_ai.usage.output_tokens": "int_value",
    "gen_ai.usage.cache_read.input_tokens": "int_value",
    "gen_ai.usage.cache_creation.input_tokens": "int_value",
    "gen_ai.response.finish_reasons": "array_value",
}
OPERATIONS = {operation.value for operation in conventions.GenAiOperationNameValues}
PROVIDERS = {provider.value for provider in conventions.GenAiProviderNameValues} | {"scripted"}
# What the conventions want of each operation, and the attribute that stands in the name of its span.
WANTED = {
    "invoke_agent": ("gen_ai.agent.name", {"gen_ai.provider.name", "gen_ai.agent.name", "gen_ai.conversation.id", "gen_ai.request.model"}),
    "chat": ("gen_ai.request.model", {"gen_ai.provider.name", "gen_ai.request.model", "gen_ai.conversation.id", "gen_ai.request.stream"}),
    "execute_tool": ("gen_ai.tool.name", {"gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type"}),
}

names = known()
found = spans(5)
turns = [span for span in found if span["name"].startswith("invoke_agent ")]
newsroom = {span["trace_id"] for span in turns if span["name"] == "invoke_agent coordinator"}
check("the newsroom has one turn of its coordinator", len(newsroom) == 1, turns)
tree = [span for span in found if span["trace_id"] in newsroom]
agents = {span["name"] for span in tree if span["name"].startswith("invoke_agent ")}
check("three agents are in its trace", agents == {"invoke_agent " + name for name in ("coordinator", "researcher", "writer")}, agents)

for trace in {span["trace_id"] for span in found}:
    whole = {span["span_id"]: span for span in found if span["trace_id"] == trace}
    roots = [span["name"] for span in whole.values() if not span["parent_span_id"]]
    check("a trace has one root, and it is a turn", len(roots) == 1 and roots[0].startswith("invoke_agent "), roots)
    for span in whole.values():
        parent = whole.get(span["parent_span_id"])
        check(f"{span['name']} hangs in the tree", parent or span["name"] in roots, span)
        if parent:
            times = [int(one[edge]) for edge in ("start_time_unix_nano", "end_time_unix_nano") for one in (parent, span)]
            check(f"{span['name']} begins after {parent['name']}", times[0] <= times[1], times)
            # Nobody waits for what was sent with agents__send.
            if parent["name"] != "execute_tool agents__send":
                check(f"{span['name']} ends before {parent['name']}", times[3] <= times[2], times)

parents = {span["span_id"]: span["name"] for span in tree}
for agent in ("researcher", "writer"):
    turn = next(span for span in tree if span["name"] == f"invoke_agent {agent}")
    above = parents[turn["parent_span_id"]]
    check(f"{agent} works for a tool call", above.startswith("execute_tool agents__"), above)

kinds = {"invoke_agent": "AGENT", "chat": "LLM", "execute_tool": "TOOL"}
for span in found:
    attributes = simple(span["attributes"])
    name = span["name"]
    for key, (kind, value) in attributes.items():
        if key.startswith("gen_ai."):
            check(f"{name}: {key} is a name of the conventions", names.get(key), key)
            check(f"{name}: {key} has its type", kind == TYPES.get(key, "string_value"), kind)
        else:
            foreign = key.startswith((OURS, *ITS_OWN)) or key == error_attributes.ERROR_TYPE
            check(f"{name}: {key} is a name of ours", foreign, key)
    operation = attributes.get("gen_ai.operation.name", (None, None))[1]
    if operation is None:
        check(f"{name} is a step", name.startswith("step ") and "goondan.step.index" in attributes, attributes)
        continue
    check(f"{name}: {operation} is an operation", operation in OPERATIONS, operation)
    stands, wanted = WANTED[operation]
    check(f"{name} has what is wanted", wanted <= set(attributes), wanted - set(attributes))
    check(f"{name} is named as it should be", name == f"{operation} {attributes[stands][1]}", attributes[stands])
    if "gen_ai.provider.name" in attributes:
        check(f"{name} has a provider", attributes["gen_ai.provider.name"][1] in PROVIDERS, attributes)
    check(f"{name}: Phoenix knows what it is", attributes["openinference.span.kind"][1] == kinds[operation], attributes)
    failed = span.get("status", {}).get("code") in (2, "STATUS_CODE_ERROR")
    check(f"{name}: an error has a type, and nothing else has", failed == ("error.type" in attributes), span)

priced = next(span for span in turns if span["name"] == "invoke_agent assistant")
seen = simple(priced["attributes"])
usage = [int(seen[f"gen_ai.usage.{part}"][1]) for part in ("input_tokens", "output_tokens", "cache_read.input_tokens")]
check("a turn sums up what its questions took", usage == [2200, 110, 400], seen)
cost = (round(float(seen["goondan.cost.amount"][1]), 9), seen["goondan.cost.currency"][1])
check("its cost is that of its prices", cost == (0.0051, "EUR"), cost)
chats = [simple(span["attributes"]) for span in found if span["name"] == "chat priced-model"]
check("each question has its own tokens", sorted(int(c["gen_ai.usage.input_tokens"][1]) for c in chats) == [1000, 1200], chats)
check("and its time to the first piece", all("gen_ai.response.time_to_first_chunk" in c for c in chats), chats)
failed = next(span for span in found if span["name"] == "execute_tool text-transform__trim")
check("a call that failed says why", simple(failed["attributes"])["error.type"][1] == "E_TOOL_INVALID_ARGS", failed)
