"""Reads requests to the deterministic backend, and refuses those that hosted servers refuse."""

import json
import re

from backend_answers import MODEL, Conversation

INPUT_KINDS = ("input_text", "input_image", "input_file")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CHAT_FIELDS = frozenset(
    """
    model messages stream stream_options temperature top_p max_tokens max_completion_tokens stop seed n tools tool_choice
    parallel_tool_calls response_format reasoning_effort user metadata store presence_penalty frequency_penalty logprobs
    top_logprobs logit_bias safety_identifier prompt_cache_key
    """.split()
)
RESPONSES_FIELDS = frozenset(
    """
    model input instructions stream stream_options temperature top_p max_output_tokens max_tool_calls tools tool_choice
    parallel_tool_calls text reasoning include store previous_response_id truncation user metadata background service_tier
    safety_identifier prompt_cache_key
    """.split()
)


class Refusal(Exception):
    def __init__(self, message, status=400, kind="invalid_request_error", code=None, param=None):
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


def need(condition, message, **more):
    if not condition:
        raise Refusal(message, **more)


def check_schema(name, schema, strict):
    need(isinstance(name, str) and TOOL_NAME.fullmatch(name), f"Invalid name of a schema: {name!r}.")
    need(
        isinstance(schema, dict) and schema.get("type") == "object",
        f"Invalid schema for {name!r}: schema must be a JSON Schema of 'type: \"object\"'.",
        code="invalid_function_parameters",
    )
    for word in ("oneOf", "anyOf", "allOf", "enum", "not"):
        need(
            word not in schema,
            f"Invalid schema for {name!r}: schema must not have '{word}' at the top level.",
            code="invalid_function_parameters",
        )
    if strict:
        check_strict(name, schema)


def check_strict(name, schema):
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        need(
            schema.get("additionalProperties") is False,
            f"Invalid schema for {name!r}: 'additionalProperties' is required to be supplied and to be false.",
        )
        need(
            set(schema.get("required", [])) == set(schema.get("properties", {})),
            f"Invalid schema for {name!r}: 'required' is required to be supplied and to be an array including every key in properties.",
        )
    for inner in [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", [])]:
        check_strict(name, inner)


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
    need(
        names or body.get("parallel_tool_calls") is None,
        "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.",
    )
    if isinstance(choice, dict):
        name = choice.get("name") or choice.get("function", {}).get("name")
        need(name in names, f"Tool choice 'function' not found in 'tools' parameter: {name!r}.")


def check_content(content, kinds):
    if isinstance(content, str):
        return content
    need(isinstance(content, list) and content, "Invalid type for 'content': expected a string or an array of objects.")
    for part in content:
        need(
            isinstance(part, dict) and part.get("type") in kinds,
            f"Invalid value: {part.get('type') if isinstance(part, dict) else part!r}. Supported values are: {', '.join(kinds)}.",
        )
    return "".join(part.get("text", "") for part in content)


def check_arguments(text):
    need(isinstance(text, str), "Invalid type for 'arguments': expected a string.")
    try:
        json.loads(text)
    except ValueError:
        raise Refusal("Invalid 'arguments': the text is not JSON.") from None


def read_chat(body):
    """Returns the conversation of a request for a chat completion."""
    check_fields(body, CHAT_FIELDS)
    need(body.get("tools") != [], "Invalid 'tools': empty array. Expected an array with minimum length 1.")
    tools = {}
    for tool in body.get("tools") or []:
        need(tool.get("type") == "function" and isinstance(tool.get("function"), dict), "Invalid value for 'tools'.")
        add_tool(tools, tool["function"])
    check_choice(body, tools)
    wanted = body.get("response_format") or {"type": "text"}
    need(wanted.get("type") in ("text", "json_object", "json_schema"), "Invalid value for 'response_format.type'.")
    schema = read_schema(wanted.get("json_schema", {})) if wanted["type"] == "json_schema" else None
    talk = Conversation(tools, body.get("tool_choice"), schema)
    messages = body.get("messages")
    need(isinstance(messages, list) and messages, "Invalid 'messages': empty array.")
    need(messages[-1].get("role") != "assistant", "The last message must not be one of the assistant.")
    open_calls = []
    for at, message in enumerate(messages):
        add_message(talk, open_calls, message, f"messages.[{at}]")
    check_answered(open_calls, "messages")
    return talk


def add_tool(tools, function):
    parameters = function.get("parameters", {"type": "object", "properties": {}})
    check_schema(function.get("name"), parameters, function.get("strict"))
    tools[function["name"]] = parameters


def read_schema(wanted):
    check_schema(wanted.get("name"), wanted.get("schema"), wanted.get("strict"))
    return wanted["schema"]


def add_message(talk, open_calls, message, param):
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        need(
            message.get("tool_call_id") in open_calls,
            "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
            param=param,
        )
        open_calls.remove(message["tool_call_id"])
        talk.results.append(check_content(content, ("text",)))
        return
    check_answered(open_calls, param)
    if role in ("system", "developer"):
        check_content(content, ("text",))
    elif role == "user":
        talk.user(check_content(content, ("text", "image_url", "input_audio", "file")))
    else:
        need(role == "assistant", f"Invalid value: '{role}'.", param=param)
        calls = message.get("tool_calls")
        need(calls or content is not None, "Invalid value for 'content': expected a string, got null.", param=param)
        need(calls != [], "Invalid 'tool_calls': empty array.", param=param)
        if content is not None:
            check_content(content, ("text", "refusal"))
        open_calls.extend(check_call(call) for call in calls or [])


def check_call(call):
    """Returns the id of a call."""
    need(call.get("type") == "function" and call.get("id"), "Invalid 'tool_calls': an id and the type 'function' are needed.")
    function = call.get("function", {})
    need(TOOL_NAME.fullmatch(function.get("name") or ""), "Invalid 'tool_calls[].function.name'.")
    check_arguments(function.get("arguments"))
    return call["id"]


def check_answered(open_calls, param):
    need(
        not open_calls,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(open_calls)}",
        param=param,
    )


def read_responses(body):
    """Returns the conversation of a request for a response."""
    check_fields(body, RESPONSES_FIELDS)
    need(not body.get("previous_response_id"), "Previous response not found.", code="previous_response_not_found")
    tools = {}
    for tool in body.get("tools") or []:
        need(tool.get("type") == "function", f"Unsupported tool: {tool.get('type')}.")
        add_tool(tools, tool)
    check_choice(body, tools)
    wanted = (body.get("text") or {}).get("format") or {}
    schema = read_schema(wanted) if wanted.get("type") == "json_schema" else None
    talk = Conversation(tools, body.get("tool_choice"), schema)
    items = body.get("input")
    if isinstance(items, str):
        talk.user(items)
        return talk
    need(isinstance(items, list) and items, "Invalid 'input': empty array.")
    calls, answered = [], []
    for item in items:
        add_item(talk, calls, answered, item)
    missing = sorted(set(calls) - set(answered))
    need(not missing, f"No tool output found for function call {', '.join(missing)}.")
    return talk


def add_item(talk, calls, answered, item):
    kind = item.get("type") or "message"
    if kind == "message":
        role = item.get("role")
        need(role in ("system", "developer", "user", "assistant"), f"Invalid value: '{role}'.")
        text = check_content(item.get("content"), ("output_text", "refusal") if role == "assistant" else INPUT_KINDS)
        if role == "user":
            talk.user(text)
    elif kind == "function_call":
        need(item.get("call_id") and TOOL_NAME.fullmatch(item.get("name") or ""), "Missing required parameter of a function call.")
        need((item.get("id") or "fc").startswith("fc"), f"Invalid 'id': '{item.get('id')}'. Expected an ID that begins with 'fc'.")
        check_arguments(item.get("arguments"))
        calls.append(item["call_id"])
    elif kind == "function_call_output":
        need(item.get("call_id") in calls, f"No tool call found for function call output with call_id {item.get('call_id')}.")
        answered.append(item["call_id"])
        talk.results.append(check_content(item.get("output"), INPUT_KINDS))
    else:
        need(kind in ("reasoning", "item_reference"), f"Invalid value: '{kind}'.")
