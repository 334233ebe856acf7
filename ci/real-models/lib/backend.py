"""A small OpenAI-compatible server with deterministic answers: chat completions and responses, streamed or not.

The server refuses what hosted servers refuse, with their status and their error object: a tool result without its call, a call without
its result, arguments that are not a JSON text, an incomplete schema, an unknown field. So an accepted conversation is a valid one.

The last user message selects the answer:
  `count N`        N numbered words, one every 20 ms
  `use NAME ...`   calls of the tools whose names end with NAME, with arguments that fit their schemas; then the results, repeated as text
  anything else    the message, repeated as text
A request with a JSON schema gets an object that fits the schema, and nothing else.

Usage: backend.py PORT [--log FILE] [--loading SECONDS]
Each request is appended to FILE as one line of JSON: {"path", "body", "status", "complete"}. While loading, the server answers 503, as
llama-server does.
"""

import argparse
import itertools
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODEL = "deterministic"
PIECE_INTERVAL = 0.02
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CHAT_FIELDS = {
    "model", "messages", "stream", "stream_options", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed", "n",
    "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "user", "metadata", "store",
    "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias", "safety_identifier", "prompt_cache_key",
}
RESPONSES_FIELDS = {
    "model", "input", "instructions", "stream", "stream_options", "temperature", "top_p", "max_output_tokens", "max_tool_calls", "tools",
    "tool_choice", "parallel_tool_calls", "text", "reasoning", "include", "store", "previous_response_id", "truncation", "user",
    "metadata", "background", "service_tier", "safety_identifier", "prompt_cache_key",
}


class Refusal(Exception):
    def __init__(self, message, status=400, kind="invalid_request_error", code=None, param=None):
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


def need(condition, message, **more):
    if not condition:
        raise Refusal(message, **more)


# Schemas


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


def check_schema(name, schema, strict):
    need(isinstance(name, str) and TOOL_NAME.fullmatch(name), f"Invalid name of a schema: {name!r}.")
    need(isinstance(schema, dict) and schema.get("type") == "object", f"Invalid schema for {name!r}: schema must be a JSON Schema of 'type: \"object\"'.",
         code="invalid_function_parameters")
    for word in ("oneOf", "anyOf", "allOf", "enum", "not"):
        need(word not in schema, f"Invalid schema for {name!r}: schema must not have '{word}' at the top level.", code="invalid_function_parameters")
    if strict:
        check_strict(name, schema)


def check_strict(name, schema):
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        need(schema.get("additionalProperties") is False, f"Invalid schema for {name!r}: 'additionalProperties' is required to be supplied and to be false.")
        need(set(schema.get("required", [])) == set(schema.get("properties", {})),
             f"Invalid schema for {name!r}: 'required' is required to be supplied and to be an array including every key in properties.")
    for inner in [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", [])]:
        check_strict(name, inner)


# Requests


def check_fields(body, known):
    need(isinstance(body, dict), "The body is not a JSON object.")
    unknown = sorted(set(body) - known)
    need(not unknown, f"Unrecognized request argument supplied: {', '.join(unknown)}", code="unknown_parameter")
    need(isinstance(body.get("model"), str) and body["model"], "you must provide a model parameter")
    need(body["model"] == MODEL, f"The model `{body['model']}` does not exist", status=404, code="model_not_found")
    need(body.get("stream") or not body.get("stream_options"), "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1)):
        value = body.get(name)
        need(value is None or low <= value <= high, f"Invalid '{name}': {value}.")
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        need(body.get(name) is None or body[name] >= 1, f"Invalid '{name}': integer below minimum value.")


def check_choice(body, names):
    choice = body.get("tool_choice")
    need(names or not choice, "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
    need(names or body.get("parallel_tool_calls") is None, "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.")
    if isinstance(choice, dict):
        name = choice.get("name") or choice.get("function", {}).get("name")
        need(name in names, f"Tool choice 'function' not found in 'tools' parameter: {name!r}.")


def check_content(content, kinds):
    if isinstance(content, str):
        return content
    need(isinstance(content, list) and content, "Invalid type for 'content': expected a string or an array of objects.")
    for part in content:
        need(isinstance(part, dict) and part.get("type") in kinds, f"Invalid value: {part.get('type') if isinstance(part, dict) else part!r}. Supported values are: {', '.join(kinds)}.")
    return "".join(part.get("text", "") for part in content)


def check_arguments(text):
    need(isinstance(text, str), "Invalid type for 'arguments': expected a string.")
    try:
        json.loads(text)
    except ValueError:
        raise Refusal("Invalid 'arguments': the text is not JSON.") from None


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


def read_chat(body):
    check_fields(body, CHAT_FIELDS)
    tools = {}
    for tool in body.get("tools") or []:
        need(tool.get("type") == "function" and isinstance(tool.get("function"), dict), "Invalid value for 'tools': type 'function' is needed.")
        function = tool["function"]
        parameters = function.get("parameters", {"type": "object", "properties": {}})
        check_schema(function.get("name"), parameters, function.get("strict"))
        tools[function["name"]] = parameters
    need(body.get("tools") != [], "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.")
    check_choice(body, tools)
    schema = None
    wanted = body.get("response_format")
    if wanted:
        need(wanted.get("type") in ("text", "json_object", "json_schema"), "Invalid value for 'response_format.type'.")
        if wanted["type"] == "json_schema":
            inner = wanted.get("json_schema", {})
            check_schema(inner.get("name"), inner.get("schema"), inner.get("strict"))
            schema = inner["schema"]
    talk = Conversation(tools, body.get("tool_choice"), schema)
    messages = body.get("messages")
    need(isinstance(messages, list) and messages, "Invalid 'messages': empty array.")
    need(messages[-1].get("role") != "assistant", "The last message must not be one of the assistant.")
    open_calls = []
    for at, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            need(message.get("tool_call_id") in open_calls,
                 "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.", param=f"messages.[{at}].role")
            open_calls.remove(message["tool_call_id"])
            talk.results.append(check_content(message.get("content"), ("text",)))
            continue
        need(not open_calls, "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
             f"The following tool_call_ids did not have response messages: {', '.join(open_calls)}", param=f"messages.[{at}].role")
        if role in ("system", "developer"):
            check_content(message.get("content"), ("text",))
        elif role == "user":
            talk.user(check_content(message.get("content"), ("text", "image_url", "input_audio", "file")))
        elif role == "assistant":
            calls = message.get("tool_calls")
            need(calls or message.get("content") is not None, "Invalid value for 'content': expected a string, got null.", param=f"messages.[{at}].content")
            need(calls != [], "Invalid 'tool_calls': empty array.")
            if message.get("content") is not None:
                check_content(message["content"], ("text", "refusal"))
            for call in calls or []:
                need(call.get("type") == "function" and call.get("id"), "Invalid 'tool_calls': each one needs an id and the type 'function'.")
                need(TOOL_NAME.fullmatch(call.get("function", {}).get("name") or ""), "Invalid 'tool_calls[].function.name'.")
                check_arguments(call["function"].get("arguments"))
                open_calls.append(call["id"])
        else:
            raise Refusal(f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'.")
    need(not open_calls, f"The following tool_call_ids did not have response messages: {', '.join(open_calls)}")
    return talk


def read_responses(body):
    check_fields(body, RESPONSES_FIELDS)
    need(not body.get("previous_response_id"), "Previous response not found.", code="previous_response_not_found")
    tools = {}
    for tool in body.get("tools") or []:
        need(tool.get("type") == "function", f"Unsupported tool: {tool.get('type')}.")
        check_schema(tool.get("name"), tool.get("parameters"), tool.get("strict"))
        tools[tool["name"]] = tool["parameters"]
    check_choice(body, tools)
    schema = None
    wanted = (body.get("text") or {}).get("format") or {}
    if wanted.get("type") == "json_schema":
        check_schema(wanted.get("name"), wanted.get("schema"), wanted.get("strict"))
        schema = wanted["schema"]
    talk = Conversation(tools, body.get("tool_choice"), schema)
    items = body.get("input")
    if isinstance(items, str):
        talk.user(items)
        return talk
    need(isinstance(items, list) and items, "Invalid 'input': empty array.")
    calls, answered = [], []
    for item in items:
        kind = item.get("type") or "message"
        if kind == "message":
            role = item.get("role")
            need(role in ("system", "developer", "user", "assistant"), f"Invalid value: '{role}'.")
            kinds = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
            text = check_content(item.get("content"), kinds)
            if role == "user":
                talk.user(text)
        elif kind == "function_call":
            need(item.get("call_id") and TOOL_NAME.fullmatch(item.get("name") or ""), "Missing required parameter of a function call.")
            need(not item.get("id") or item["id"].startswith("fc"), f"Invalid 'id': '{item.get('id')}'. Expected an ID that begins with 'fc'.")
            check_arguments(item.get("arguments"))
            calls.append(item["call_id"])
        elif kind == "function_call_output":
            need(item.get("call_id") in calls, f"No tool call found for function call output with call_id {item.get('call_id')}.")
            answered.append(item["call_id"])
            talk.results.append(check_content(item.get("output"), ("input_text", "input_image", "input_file")))
        else:
            need(kind in ("reasoning", "item_reference"), f"Invalid value: '{kind}'.")
    missing = sorted(set(calls) - set(answered))
    need(not missing, f"No tool output found for function call {', '.join(missing)}.")
    return talk


# Answers

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
        message["tool_calls"] = [{"id": f"call_{next(NUMBERS)}", "type": "function", "function": {"name": name, "arguments": arguments}}
                                 for name, arguments in answer[1]]
    return {"id": f"chatcmpl-{next(NUMBERS)}", "object": "chat.completion", "created": int(time.time()), "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}


def response_object(body, output, status):
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_tokens_details": {"cached_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}
    return {"id": f"resp_{next(NUMBERS)}", "object": "response", "created_at": int(time.time()), "status": status, "model": MODEL,
            "output": output, "error": None, "incomplete_details": None, "instructions": body.get("instructions"), "metadata": {},
            "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tool_choice": body.get("tool_choice") or "auto",
            "tools": body.get("tools") or [], "text": body.get("text") or {"format": {"type": "text"}}, "truncation": "disabled",
            "usage": usage if status == "completed" else None}


def response_items(answer):
    if answer[0] == "text":
        return [{"id": f"msg_{next(NUMBERS)}", "type": "message", "role": "assistant", "status": "completed",
                 "content": [{"type": "output_text", "text": "".join(answer[1]), "annotations": []}]}]
    return [{"id": f"fc_{next(NUMBERS)}", "type": "function_call", "status": "completed", "call_id": f"call_{next(NUMBERS)}", "name": name,
             "arguments": arguments} for name, arguments in answer[1]]


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


# The server


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.endswith("/models"):
            self.send_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "ci"}]})
        else:
            self.send_json(200, {"status": "ok"})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        entry = {"path": self.path, "body": None, "status": 200, "complete": False}
        try:
            try:
                entry["body"] = json.loads(raw)
            except ValueError:
                raise Refusal("We could not parse the JSON body of your request.") from None
            need(time.monotonic() >= self.server.ready_at, "Loading model", status=503, kind="unavailable_error", code=503)
            need((self.headers.get("authorization") or "").startswith("Bearer "), "You didn't provide an API key.", status=401)
            self.serve(entry["body"])
            entry["complete"] = True
        except Refusal as refusal:
            entry["status"], entry["refusal"] = refusal.status, str(refusal)
            self.send_json(refusal.status, refusal.body)
        except OSError:
            self.close_connection = True
        finally:
            self.server.record(entry)

    def serve(self, body):
        if self.path.endswith("/chat/completions"):
            answer = read_chat(body).answer()
            whole, events, named = chat_whole, chat_events, False
        elif self.path.endswith("/responses"):
            answer = read_responses(body).answer()
            whole, events, named = lambda a: response_object(body, response_items(a), "completed"), response_events, True
        else:
            raise Refusal(f"Invalid URL (POST {self.path})", status=404)
        if not body.get("stream"):
            return self.send_json(200, whole(answer))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events(body, answer)):
            if named:
                event = {**event, "sequence_number": number}
            self.send_event(event, event["type"] if named else None)
            time.sleep(PIECE_INTERVAL)
        if not named:
            self.send_piece(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def send_event(self, event, name):
        self.send_piece(((f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n").encode())

    def send_piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def send_json(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port, log, loading):
        super().__init__(("127.0.0.1", port), Handler)
        self.log, self.lock, self.ready_at = log, threading.Lock(), time.monotonic() + loading

    def record(self, entry):
        if self.log:
            with self.lock, open(self.log, "a") as file:
                file.write(json.dumps(entry) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--log")
    parser.add_argument("--loading", type=float, default=0)
    options = parser.parse_args()
    Server(options.port, options.log, options.loading).serve_forever()


if __name__ == "__main__":
    main()
