mod answers;

use goondan_core::message::{MessagePart, MessageRole, ToolCall, ToolResultPart};
use goondan_core::ports::model::{CompletedAnswer, ToolDefinition};
use goondan_core::ports::tool::{Attachment, ToolCallStatus};
use goondan_spec::kinds::{ModelParams, ReasoningEffort};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Value, json};

use super::OllamaFormat;
use crate::errors::ProviderError;
use crate::formats::{EncodedTranscript, ModelTarget, RequestContext, WireFormat};
use crate::provider::provider;
use crate::testing::{decode_stream, message};

fn format_for(model: &str) -> OllamaFormat {
    OllamaFormat::new(ModelTarget {
        provider: provider("ollama").expect("a provider"),
        model: model.to_owned(),
        prompt_caching: true,
    })
}

fn body(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn decoded(lines: &[Value]) -> Result<CompletedAnswer, ProviderError> {
    decode_stream(&format_for("qwen3"), "ollama", body(lines).as_bytes())
}

fn piece(message: Value) -> Value {
    json!({"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false})
}

fn end(reason: &str) -> Value {
    json!({"model": "qwen3", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
        "total_duration": 5, "prompt_eval_count": 9, "prompt_eval_cached_count": 3, "eval_count": 4})
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"function": {"name": name, "arguments": arguments}})
}

/// A complete answer: reasoning, text, a call with an object as arguments, a call with a string as
/// arguments, usage.
fn complete_answer() -> Vec<Value> {
    vec![
        piece(json!({"role": "assistant", "content": "", "thinking": "I "})),
        piece(json!({"role": "assistant", "content": "", "thinking": "look."})),
        piece(json!({"role": "assistant", "content": "Grüße 🐝"})),
        piece(json!({"content": "", "tool_calls": [call("t__x", json!({"n": 1}))]})),
        piece(json!({"content": ".", "tool_calls": [
            {"id": "call_x", "function": {"index": 0, "name": "t__y", "arguments": "{\"m\": 2}"}}]})),
        end("stop"),
    ]
}

/// Returns the messages of a request for a conversation.
fn sent(conversation: Vec<(MessageRole, Vec<MessagePart>)>) -> Value {
    let format = format_for("qwen3");
    let messages: Vec<_> = conversation
        .into_iter()
        .map(|(role, parts)| message(role, parts))
        .collect();
    let mut transcript = EncodedTranscript::default();
    transcript.catch_up(&messages, &format);
    let json = transcript.bytes(&format).concat();
    let text = format!(
        "[{}]",
        String::from_utf8_lossy(json.get(1..).unwrap_or_default())
    );
    serde_json::from_str(&text).expect("JSON")
}

fn image(data: &str) -> MessagePart {
    MessagePart::File(Attachment {
        media_type: "image/png".to_owned(),
        data: data.to_owned(),
        name: None,
    })
}

fn result(id: &str, output: Value) -> MessagePart {
    MessagePart::ToolResult(ToolResultPart {
        tool_call_id: id.to_owned(),
        tool_name: "t__x".to_owned(),
        status: ToolCallStatus::Ok,
        output: Some(output),
        error: None,
        untrusted: false,
    })
}

#[test]
fn messages_are_encoded_in_ollama_format() {
    let answer = decoded(&complete_answer()).expect("an answer");
    let text_file = Attachment {
        media_type: "text/plain".to_owned(),
        data: "aGk=".to_owned(),
        name: Some("a.txt".to_owned()),
    };
    let conversation = vec![
        (MessageRole::System, vec![MessagePart::text("Summary.")]),
        (
            MessageRole::User,
            vec![
                MessagePart::text("Hi"),
                image("iVBO"),
                MessagePart::File(text_file),
            ],
        ),
        (MessageRole::User, vec![MessagePart::text("there")]),
        (MessageRole::Assistant, answer.parts),
        (
            MessageRole::Tool,
            vec![result("call_1", json!({"a": 1})), image("AAAA")],
        ),
        (MessageRole::Tool, vec![result("call_x", json!("plain"))]),
        (
            MessageRole::Assistant,
            vec![
                MessagePart::reasoning("of another provider"),
                MessagePart::text("Done."),
            ],
        ),
        (MessageRole::Assistant, vec![MessagePart::text(" ")]),
        (MessageRole::User, vec![image("BBBB")]),
    ];
    let call = |id: &str, name: &str, arguments: Value| json!({"id": id, "function": {"name": name, "arguments": arguments}});
    let tool = |id: &str, content: &str| json!({"role": "tool", "tool_name": "t__x", "tool_call_id": id, "content": content});
    let expected = json!([
        {"role": "system", "content": "Summary."},
        {"role": "user", "content": "Hi\n\n[a.txt]\nhi\n\nthere", "images": ["iVBO"]},
        {"role": "assistant", "content": "Grüße 🐝.", "thinking": "I look.", "tool_calls": [
            call("call_1", "t__x", json!({"n": 1})), call("call_x", "t__y", json!({"m": 2}))]},
        tool("call_1", "{\"a\":1}"),
        tool("call_x", "plain"),
        {"role": "user", "content": "", "images": ["AAAA"]},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "", "images": ["BBBB"]},
    ]);
    assert_eq!(sent(conversation), expected);
}

#[test]
fn ollama_arguments_that_are_not_an_object_are_wrapped() {
    let call = MessagePart::ToolCall(ToolCall::new("a", "t__x", json!("{\"n\":")));
    let messages = sent(vec![(MessageRole::Assistant, vec![call])]);
    assert_eq!(
        messages[0]["tool_calls"][0]["function"]["arguments"],
        json!({"malformedArguments": "{\"n\":"})
    );
}

fn fields(model: &str, params: &ModelParams, effort: Option<ReasoningEffort>) -> Value {
    let tools = [ToolDefinition {
        name: "t__x".to_owned(),
        description: "Does x.".to_owned(),
        parameters: json!({"type": "object", "properties": {"n": true}}),
    }];
    let output = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let context = RequestContext {
        params,
        effort,
        tools: &tools,
        output: effort.is_none().then_some(&output),
        called_tools: &Default::default(),
        open_turn: Default::default(),
    };
    Value::Object(format_for(model).fields(&context))
}

#[test]
fn params_are_options() {
    let params = ModelParams {
        temperature: Some(0.5),
        max_tokens: Some(100),
        top_p: Some(0.9),
        top_k: Some(40),
        stop: vec!["END".to_owned()],
        seed: Some(7),
        presence_penalty: Some(0.1),
        frequency_penalty: Some(0.2),
        ..ModelParams::default()
    };
    let function = json!({"name": "t__x", "description": "Does x.",
        "parameters": {"type": "object", "properties": {"n": {}}}});
    let expected = json!({
        "model": "qwen3",
        "stream": true,
        "options": {"temperature": 0.5, "num_predict": 100, "top_p": 0.9, "top_k": 40, "stop": ["END"], "seed": 7,
            "presence_penalty": 0.1, "frequency_penalty": 0.2},
        "tools": [{"type": "function", "function": function}],
        "format": {"type": "object", "properties": {"city": {"type": "string"}}},
    });
    assert_eq!(fields("qwen3", &params, None), expected);
    let plain = fields("qwen3", &ModelParams::default(), Some(ReasoningEffort::Low));
    assert_eq!((plain.get("options"), plain.get("format")), (None, None));
}

#[test]
fn ollama_reasoning_effort_is_a_boolean_or_a_level() {
    let think = |model: &str, effort| {
        fields(model, &ModelParams::default(), effort)
            .get("think")
            .cloned()
    };
    assert_eq!(think("qwen3", None), None);
    assert_eq!(
        think("qwen3", Some(ReasoningEffort::None)),
        Some(json!(false))
    );
    assert_eq!(
        think("qwen3:8b", Some(ReasoningEffort::High)),
        Some(json!(true))
    );
    for (effort, level) in [
        (ReasoningEffort::None, "low"),
        (ReasoningEffort::Minimal, "low"),
        (ReasoningEffort::Medium, "medium"),
        (ReasoningEffort::Max, "high"),
    ] {
        assert_eq!(
            think("hf.co/x/gpt-oss:20b", Some(effort)),
            Some(json!(level))
        );
    }
}

#[test]
fn an_ollama_authorization_header_requires_a_key() {
    let headers = |key| {
        let mut headers = HeaderMap::new();
        let added = format_for("qwen3").add_headers(key, &mut headers);
        added.map(|()| headers.get(AUTHORIZATION).cloned())
    };
    assert_eq!(headers(None), Ok(None));
    let with_key = headers(Some("k")).ok().flatten().expect("a header");
    assert!(with_key == "Bearer k" && with_key.is_sensitive());
    assert!(headers(Some("a\nb")).is_err());
    assert_eq!(format_for("qwen3").path(), "api/chat");
    assert!(format_for("qwen3").system_message("Be brief.").is_some());
}
