"""The answers of the deterministic backend, as objects and as events of a stream."""

import itertools
import json
import re
import time

MODEL = "deterministic"


def instance(schema, root=None, depth=0):
    """Returns a value that fits a schema of the usual keywords."""
    root = root or schema
    if depth > 12 or not isinstance(schema, dict):
        return None
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return instance(target, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return instance(schema[word][0], root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: instance(properties.get(name, {}), root, depth + 1) for name in schema.get("required", [])}
    if kind == "array":
        return [instance(schema.get("items", {}), root, depth + 1) for _ in range(schema.get("minItems", 0))]
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 0), 0)
    return {"boolean": True, "null": None}.get(kind, "some words here")


class Conversation:
    """The facts that an answer depends on."""

    def __init__(self, tools, choice, schema):
        self.tools, self.choice, self.schema = tools, choice, schema
        self.asked, self.results = "", []

    def user(self, text):
        self.asked, self.results = text, []

    def answer(self):
        """Returns `("text", [pieces])` or `("calls", [(name, arguments)])`."""
        count = re.search(r"count (\d+)\s*$", self.asked)
        use = re.search(r"use ([\w -]+)$", self.asked)
        if self.tools and self.choice != "none" and not self.results:
            forced = self.choice.get("name") or self.choice.get("function", {}).get("name") if isinstance(self.choice, dict) else None
            endings = use[1].split() if use else []
            wanted = [name for ending in endings for name in self.tools if name.endswith(ending)]
            if forced or (self.choice == "required" and not wanted):
                wanted = [forced or next(iter(self.tools))]
            if wanted:
                return ("calls", [(name, json.dumps(instance(self.tools[name]))) for name in wanted])
        if self.schema:
            return ("text", re.findall(r".{1,5}", json.dumps(instance(self.schema))))
        if count:
            return ("text", [f"word{n} " for n in range(int(count[1]))])
        text = f"The tool returned: {' | '.join(self.results)}" if self.results else f"You wrote: {self.asked}"
        return ("text", re.findall(r"\S+\s*", text) or ["."])


NUMBERS = itertools.count(1)


def chat_events(body, answer):
    head = {"id": f"chatcmpl-{next(NUMBERS)}", "object": "chat.completion.chunk", "created": int(time.time()), "model": MODEL}

    def chunk(delta, finish=None):
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": "" if answer[0] == "text" else None})
    if answer[0] == "text":
        for piece in answer[1]:
            yield chunk({"content": piece})
        yield chunk({}, "stop")
    else:
        for index, (name, arguments) in enumerate(answer[1]):
            call = {"index": index, "id": f"call_{next(NUMBERS)}", "type": "function", "function": {"name": name, "arguments": ""}}
            yield chunk({"tool_calls": [call]})
            for piece in re.findall(r".{1,6}", arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}


def chat_whole(answer):
    message, finish = {"role": "assistant", "content": None}, "stop"
    if answer[0] == "text":
        message["content"] = "".join(answer[1])
    else:
        finish = "tool_calls"
        message["tool_calls"] = [
            {"id": f"call_{next(NUMBERS)}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in answer[1]
        ]
    return {
        "id": f"chatcmpl-{next(NUMBERS)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def response_object(body, output, status):
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": f"resp_{next(NUMBERS)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "model": MODEL,
        "output": output,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "text": body.get("text") or {"format": {"type": "text"}},
        "truncation": "disabled",
        "usage": usage if status == "completed" else None,
    }


def response_items(answer):
    if answer[0] == "text":
        return [
            {
                "id": f"msg_{next(NUMBERS)}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "".join(answer[1]), "annotations": []}],
            }
        ]
    return [
        {
            "id": f"fc_{next(NUMBERS)}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{next(NUMBERS)}",
            "name": name,
            "arguments": arguments,
        }
        for name, arguments in answer[1]
    ]


def response_events(body, answer):
    items = response_items(answer)
    begun = response_object(body, [], "in_progress")
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(items):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress", "content": []}}
            yield from text_events(at, item["content"][0], answer[1])
        else:
            yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress", "arguments": ""}}
            for piece in re.findall(r".{1,6}", item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
            yield {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": {**response_object(body, items, "completed"), "id": begun["id"]}}


def text_events(at, part, pieces):
    at = {**at, "content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for piece in pieces:
        yield {"type": "response.output_text.delta", **at, "delta": piece}
    yield {"type": "response.output_text.done", **at, "text": part["text"]}
    yield {"type": "response.content_part.done", **at, "part": part}
