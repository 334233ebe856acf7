//! Complete answers in every format: reasoning, text, two calls and usage.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

use super::event_separator;
use crate::formats::EventFraming;

/// An event before it is framed.
#[derive(Debug, Clone)]
pub(super) struct UnframedEvent {
    name: Option<&'static str>,
    pub(super) data: String,
}

/// Returns the body that consists of `events`.
pub(super) fn body(framing: EventFraming, events: &[UnframedEvent]) -> Vec<u8> {
    let mut body = Vec::new();
    for event in events {
        match (framing, event.name) {
            (EventFraming::AmazonEvents, name) => {
                write_amazon_event(name.unwrap_or_default(), &event.data, &mut body)
            }
            (EventFraming::ServerSentEvents, Some(name)) => {
                body.extend_from_slice(format!("event: {name}\ndata: {}", event.data).as_bytes());
            }
            (EventFraming::ServerSentEvents, None) => {
                body.extend_from_slice(format!("data: {}", event.data).as_bytes());
            }
            (EventFraming::JsonLines, _) => body.extend_from_slice(event.data.as_bytes()),
        }
        if framing != EventFraming::AmazonEvents {
            body.extend_from_slice(event_separator(framing).as_bytes());
        }
    }
    body
}

fn write_amazon_event(name: &str, data: &str, body: &mut Vec<u8>) {
    let header = |name: &'static str, value: &str| {
        Header::new(name, HeaderValue::String(value.to_owned().into()))
    };
    let message = Message::new(data.as_bytes().to_vec())
        .add_header(header(":message-type", "event"))
        .add_header(header(":event-type", name))
        .add_header(header(":content-type", "application/json"));
    write_message_to(&message, body).expect("a message");
}

fn unnamed_events(events: impl IntoIterator<Item = Value>) -> Vec<UnframedEvent> {
    let event = |data: Value| UnframedEvent {
        name: None,
        data: data.to_string(),
    };
    events.into_iter().map(event).collect()
}

/// Returns events whose name is also the type of their data.
fn typed_events(events: impl IntoIterator<Item = (&'static str, Value)>) -> Vec<UnframedEvent> {
    let event = |(name, mut data): (&'static str, Value)| {
        data["type"] = name.into();
        UnframedEvent {
            name: Some(name),
            data: data.to_string(),
        }
    };
    events.into_iter().map(event).collect()
}

pub(super) fn chat() -> Vec<UnframedEvent> {
    let delta = |delta: Value| json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let call = |index: u32, id: &str, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        delta(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}),
        )
    };
    let mut events = unnamed_events([
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "I look."})),
        delta(json!({"reasoning": " More.", "reasoning_details": [
            {"type": "reasoning.text", "text": " More.", "index": 0, "format": "x"},
            {"type": "reasoning.encrypted", "data": "ENC", "index": 1}]})),
        delta(json!({"content": "Gr\u{fc}\u{df}e <b> "})),
        delta(json!({"content": [{"type": "text", "text": "there"}], "refusal": null})),
        call(0, "a", "t__x", "{\"n\":"),
        call(1, "b", "t__y", ""),
        call(0, "", "", "1}"),
        call(1, "", "", "{}"),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", "native_finish_reason": "x"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 1}}}),
    ]);
    events.push(UnframedEvent {
        name: None,
        data: "[DONE]".to_owned(),
    });
    events
}

pub(super) fn responses() -> Vec<UnframedEvent> {
    let reasoning = json!({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "I look."}],
        "encrypted_content": "ENC"});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Hello there", "annotations": []}]});
    let call = |number: u32, arguments: &str| {
        json!({"id": format!("fc_{number}"), "type": "function_call", "call_id": format!("call_{number}"),
            "name": "t__x", "arguments": arguments, "status": "completed"})
    };
    let delta = |index: u32, delta: &str| json!({"output_index": index, "content_index": 0, "delta": delta});
    let response = |status: &str, output: Value| {
        json!({"response": {"id": "r", "object": "response", "status": status, "model": "m", "output": output,
            "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13,
                "input_tokens_details": {"cached_tokens": 3}, "output_tokens_details": {"reasoning_tokens": 1}}}})
    };
    let output = json!([reasoning, message, call(1, "{\"n\":1}"), call(2, "{}")]);
    typed_events([
        (
            "response.created",
            json!({"response": {"id": "r", "status": "in_progress", "output": []}}),
        ),
        (
            "response.output_item.added",
            json!({"output_index": 0, "item": {"id": "rs_1", "type": "reasoning"}}),
        ),
        (
            "response.reasoning_summary_text.delta",
            json!({"output_index": 0, "item_id": "rs_1", "summary_index": 0,
            "delta": "I look."}),
        ),
        (
            "response.output_item.done",
            json!({"output_index": 0, "item": reasoning}),
        ),
        (
            "response.output_item.added",
            json!({"output_index": 1, "item": {"id": "msg_1", "type": "message", "content": []}}),
        ),
        ("response.output_text.delta", delta(1, "Hello ")),
        ("response.output_text.delta", delta(1, "there")),
        (
            "response.output_item.done",
            json!({"output_index": 1, "item": message}),
        ),
        (
            "response.output_item.added",
            json!({"output_index": 2, "item": call(1, "")}),
        ),
        (
            "response.output_item.added",
            json!({"output_index": 3, "item": call(2, "")}),
        ),
        (
            "response.function_call_arguments.delta",
            json!({"output_index": 2, "item_id": "fc_1", "delta": "{\"n\":"}),
        ),
        (
            "response.function_call_arguments.delta",
            json!({"output_index": 3, "item_id": "fc_2", "delta": "{}"}),
        ),
        (
            "response.function_call_arguments.delta",
            json!({"output_index": 2, "item_id": "fc_1", "delta": "1}"}),
        ),
        (
            "response.output_item.done",
            json!({"output_index": 2, "item": call(1, "{\"n\":1}")}),
        ),
        (
            "response.output_item.done",
            json!({"output_index": 3, "item": call(2, "{}")}),
        ),
        ("response.completed", response("completed", output)),
    ])
}

pub(super) fn anthropic() -> Vec<UnframedEvent> {
    let start = |index: u32, block: Value| {
        (
            "content_block_start",
            json!({"index": index, "content_block": block}),
        )
    };
    let delta = |index: u32, delta: Value| {
        (
            "content_block_delta",
            json!({"index": index, "delta": delta}),
        )
    };
    let stop = |index: u32| ("content_block_stop", json!({"index": index}));
    let tool = |id: &str| json!({"type": "tool_use", "id": id, "name": "t__x", "input": {}});
    typed_events([
        (
            "message_start",
            json!({"message": {"id": "m", "role": "assistant", "content": [],
            "usage": {"input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 1}}}),
        ),
        ("ping", json!({})),
        start(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(0, json!({"type": "thinking_delta", "thinking": "I look."})),
        delta(0, json!({"type": "signature_delta", "signature": "SIG"})),
        stop(0),
        start(1, json!({"type": "redacted_thinking", "data": "ENC"})),
        stop(1),
        start(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "Hello"})),
        stop(2),
        start(3, tool("toolu_1")),
        delta(
            3,
            json!({"type": "input_json_delta", "partial_json": "{\"n\":"}),
        ),
        delta(3, json!({"type": "input_json_delta", "partial_json": "1}"})),
        stop(3),
        start(4, tool("toolu_2")),
        stop(4),
        (
            "message_delta",
            json!({"delta": {"stop_reason": "tool_use", "stop_sequence": null},
            "usage": {"output_tokens": 4}}),
        ),
        ("message_stop", json!({})),
    ])
}

pub(super) fn gemini() -> Vec<UnframedEvent> {
    let event = |parts: Value, reason: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 1,
                "cachedContentTokenCount": 3, "totalTokenCount": 14}, "modelVersion": "m", "responseId": "r"})
    };
    let call = |arguments: Value| json!({"name": "t__x", "args": arguments});
    unnamed_events([
        event(json!([{"text": "I look.", "thought": true}]), json!(null)),
        event(json!([{"text": "Hello "}]), json!(null)),
        event(
            json!([{"text": "there", "thoughtSignature": "SIG"}]),
            json!(null),
        ),
        event(
            json!([{"functionCall": call(json!({"n": 1})), "thoughtSignature": "SIG2"}]),
            json!(null),
        ),
        event(json!([{"functionCall": call(json!({}))}]), json!("STOP")),
    ])
}

pub(super) fn converse() -> Vec<UnframedEvent> {
    let delta = |index: u32, delta: Value| {
        (
            "contentBlockDelta",
            json!({"contentBlockIndex": index, "delta": delta}),
        )
    };
    let start = |index: u32, id: &str| {
        let start = json!({"toolUse": {"toolUseId": id, "name": "t__x"}});
        (
            "contentBlockStart",
            json!({"contentBlockIndex": index, "start": start}),
        )
    };
    let stop = |index: u32| ("contentBlockStop", json!({"contentBlockIndex": index}));
    let events = [
        ("messageStart", json!({"role": "assistant"})),
        delta(0, json!({"reasoningContent": {"text": "I look."}})),
        delta(0, json!({"reasoningContent": {"signature": "SIG"}})),
        stop(0),
        delta(1, json!({"text": "Hello"})),
        stop(1),
        start(2, "a"),
        delta(2, json!({"toolUse": {"input": "{\"n\":"}})),
        delta(2, json!({"toolUse": {"input": "1}"}})),
        stop(2),
        start(3, "b"),
        delta(3, json!({"toolUse": {"input": ""}})),
        stop(3),
        ("messageStop", json!({"stopReason": "tool_use"})),
        (
            "metadata",
            json!({"usage": {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13}, "metrics": {"latencyMs": 1}}),
        ),
    ];
    let event = |(name, data): (&'static str, Value)| UnframedEvent {
        name: Some(name),
        data: data.to_string(),
    };
    events.into_iter().map(event).collect()
}

pub(super) fn ollama() -> Vec<UnframedEvent> {
    let line = |message: Value| json!({"model": "m", "message": message, "done": false});
    unnamed_events([
        line(json!({"role": "assistant", "content": "", "thinking": "I look."})),
        line(json!({"role": "assistant", "content": "Hello "})),
        line(json!({"content": "there", "tool_calls": [
            {"function": {"index": 0, "name": "t__x", "arguments": {"n": 1}}}]})),
        line(
            json!({"content": "", "tool_calls": [{"id": "b", "function": {"name": "t__x", "arguments": "{}"}}]}),
        ),
        json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
            "prompt_eval_count": 9, "eval_count": 4}),
    ])
}
