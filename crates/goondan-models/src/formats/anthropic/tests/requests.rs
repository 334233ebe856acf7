use std::sync::Arc;

use goondan_core::message::{Message, MessagePart, MessageRole, ToolCall};
use goondan_core::ports::model::{ModelRequest, ToolDefinition};
use goondan_spec::kinds::{ModelParams, ReasoningEffort};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::validation::validation_error;
use super::{format, uncached_format};
use crate::formats::WireFormat;
use crate::testing::{failed_result, file, message, opaque_data, request, result, sent_body};

pub(super) const BUDGET_MODEL: &str = "claude-sonnet-4-5";
pub(super) const ADAPTIVE_MODEL: &str = "claude-opus-4-6";

fn tool() -> ToolDefinition {
    ToolDefinition {
        name: "t__x".to_owned(),
        description: "Does x.".to_owned(),
        parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    }
}

pub(super) fn request_with_tool(messages: Vec<Arc<Message>>) -> ModelRequest {
    ModelRequest {
        system: Some("Be brief.".to_owned()),
        messages: messages.into(),
        tools: Arc::from([tool()]),
        ..request("a", "")
    }
}

pub(super) fn user(text: &str) -> Arc<Message> {
    message(MessageRole::User, vec![MessagePart::text(text)])
}

pub(super) fn call(id: &str) -> MessagePart {
    MessagePart::ToolCall(ToolCall::new(id, "t__x", json!({"n": 1})))
}

pub(super) fn thinking(family: &str, text: &str, signature: &str) -> MessagePart {
    let data = json!({"signature": signature});
    MessagePart::Reasoning {
        text: text.to_owned(),
        provider_metadata: opaque_data(family, data),
    }
}

pub(super) fn redacted(family: &str) -> MessagePart {
    let data = json!({"redacted": "ENC"});
    MessagePart::Reasoning {
        text: String::new(),
        provider_metadata: opaque_data(family, data),
    }
}

/// Returns a conversation with answers of the provider `family`.
fn conversation(family: &str) -> Vec<Arc<Message>> {
    let input = json!({"query": "x"});
    let search =
        json!({"type": "server_tool_use", "id": "srv", "name": "web_search", "input": input});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srv", "content": []});
    let opaque = |block| MessagePart::Opaque {
        provider_metadata: opaque_data(family, block),
    };
    vec![
        message(MessageRole::System, vec![MessagePart::text("A note.")]),
        message(
            MessageRole::User,
            vec![
                MessagePart::text("Look at this."),
                file("image/png", Some("f.png")),
            ],
        ),
        message(
            MessageRole::Assistant,
            vec![
                thinking(family, "I look.", "SIG1"),
                redacted(family),
                opaque(search),
                opaque(found),
                MessagePart::text("I look it up."),
                call("a"),
                call("b.c"),
            ],
        ),
        message(
            MessageRole::Tool,
            vec![
                result("a", json!({"degrees": 7})),
                file("application/pdf", Some("r.pdf")),
            ],
        ),
        message(MessageRole::Tool, vec![failed_result("b.c")]),
        message(
            MessageRole::Assistant,
            vec![MessagePart::text(" "), MessagePart::text("Done.")],
        ),
        message(
            MessageRole::User,
            vec![MessagePart::text(""), MessagePart::text("And now?")],
        ),
        message(MessageRole::User, vec![MessagePart::text("Hello?")]),
    ]
}

fn body(
    provider: &str,
    model: &str,
    effort: Option<ReasoningEffort>,
    request: &ModelRequest,
) -> Value {
    let body = sent_body(format(provider, model), effort, request);
    let problem = if provider == "minimax" {
        None
    } else {
        validation_error(&body)
    };
    assert_eq!(problem, None, "{body:#}");
    body
}

#[test]
fn anthropic_requests_keep_opaque_data_of_the_same_provider() {
    let medium = Some(ReasoningEffort::Medium);
    let own = request_with_tool(conversation("anthropic"));
    insta::assert_json_snapshot!("own", body("anthropic", BUDGET_MODEL, medium, &own));
    let mut vertex = body("vertex", "claude-sonnet-4-5@20250929", medium, &own);
    let mut anthropic = body("anthropic", BUDGET_MODEL, medium, &own);
    assert_eq!(vertex["anthropic_version"].take(), "vertex-2023-10-16");
    assert_eq!(anthropic["model"].take(), BUDGET_MODEL);
    anthropic["anthropic_version"] = Value::Null;
    vertex["model"] = Value::Null;
    assert_eq!(vertex, anthropic);
}

#[test]
fn anthropic_requests_omit_opaque_data_of_other_providers() {
    let foreign = request_with_tool(conversation("openrouter"));
    insta::assert_json_snapshot!("foreign", body("anthropic", ADAPTIVE_MODEL, None, &foreign));
    let minimax = request_with_tool(conversation("minimax"));
    let minimax = body("minimax", "MiniMax-M2", None, &minimax);
    assert_eq!(minimax["messages"][1]["content"][0]["signature"], "SIG1");
}

#[test]
fn the_same_conversation_gives_the_same_bytes_step_by_step() {
    let messages = conversation("anthropic");
    let format = format("anthropic", BUDGET_MODEL);
    for count in 2..=messages.len() {
        let prefix = request_with_tool(messages[..count].to_vec());
        let again = request_with_tool(messages[..count].to_vec());
        let first = sent_body(Arc::clone(&format) as Arc<dyn WireFormat>, None, &prefix);
        let second = sent_body(Arc::clone(&format) as Arc<dyn WireFormat>, None, &again);
        assert_eq!(first.to_string(), second.to_string());
    }
}

#[test]
fn anthropic_omits_the_thinking_budget_in_a_turn_of_another_provider() {
    let high = Some(ReasoningEffort::High);
    let foreign = || message(MessageRole::Assistant, vec![call("a")]);
    let own = || {
        message(
            MessageRole::Assistant,
            vec![thinking("anthropic", "hm", "SIG"), call("b")],
        )
    };
    let results = |id: &str| message(MessageRole::Tool, vec![result(id, json!(1))]);
    let started_by_other_provider = request_with_tool(vec![user("go"), foreign(), results("a")]);
    assert_eq!(
        body("anthropic", BUDGET_MODEL, high, &started_by_other_provider).get("thinking"),
        None
    );
    assert_eq!(
        body(
            "anthropic",
            ADAPTIVE_MODEL,
            high,
            &started_by_other_provider
        )["thinking"]["type"],
        "adaptive"
    );
    let with_instructions =
        request_with_tool(vec![user("go"), foreign(), results("a"), user("A rule.")]);
    assert_eq!(
        body("anthropic", BUDGET_MODEL, high, &with_instructions).get("thinking"),
        None
    );
    let answered = message(MessageRole::Assistant, vec![MessagePart::text("done")]);
    let next_turn = request_with_tool(vec![
        user("go"),
        foreign(),
        results("a"),
        answered,
        user("and?"),
    ]);
    assert!(
        body("anthropic", BUDGET_MODEL, high, &next_turn)
            .get("thinking")
            .is_some()
    );
    let mixed = request_with_tool(vec![
        user("go"),
        own(),
        results("b"),
        foreign(),
        results("a"),
    ]);
    assert!(
        body("anthropic", BUDGET_MODEL, high, &mixed)
            .get("thinking")
            .is_some()
    );
    let without_effort = request_with_tool(vec![user("go"), own(), results("b")]);
    assert!(
        body("anthropic", BUDGET_MODEL, None, &without_effort)
            .get("thinking")
            .is_some()
    );
}

#[test]
fn thinking_blocks_that_anthropic_rejects_are_omitted() {
    let blocks = |parts: Vec<MessagePart>| {
        let answer = message(MessageRole::Assistant, parts);
        let request = request_with_tool(vec![user("go"), answer, user("and?")]);
        body("anthropic", BUDGET_MODEL, None, &request)["messages"][1]["content"].clone()
    };
    let text = || json!([{"type": "text", "text": "a"}]);
    let unsigned = MessagePart::reasoning("hm");
    assert_eq!(blocks(vec![unsigned, MessagePart::text("a")]), text());
    assert_eq!(
        blocks(vec![
            thinking("anthropic", "hm", ""),
            MessagePart::text("a")
        ]),
        text()
    );
    assert_eq!(
        blocks(vec![
            MessagePart::text("a"),
            thinking("anthropic", "hm", "SIG")
        ]),
        text()
    );
    let unsigned = message(
        MessageRole::Assistant,
        vec![thinking("minimax", "hm", ""), MessagePart::text("a")],
    );
    let request = request_with_tool(vec![user("go"), unsigned, user("and?")]);
    let sent = &body("minimax", "MiniMax-M2", None, &request)["messages"][1]["content"][0];
    assert_eq!(*sent, json!({"type": "thinking", "thinking": "hm"}));
}

#[test]
fn anthropic_requests_declare_stubs_for_removed_tools() {
    let odd = MessagePart::ToolCall(ToolCall::new("b", "multi.tool", json!("not an object")));
    let messages = vec![
        user("go"),
        message(MessageRole::Assistant, vec![call("a"), odd]),
        message(
            MessageRole::Tool,
            vec![result("a", json!("")), result("b", json!(2))],
        ),
    ];
    let request = ModelRequest {
        tools: Arc::from([]),
        ..request_with_tool(messages)
    };
    let body = body("anthropic", BUDGET_MODEL, None, &request);
    let stub = |name: &str| {
        let schema = json!({"type": "object"});
        json!({"name": name, "description": "Not available any more.", "input_schema": schema})
    };
    let mut last = stub("t__x");
    last["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(body["tools"], json!([stub("multi_tool"), last]));
    let input = &body["messages"][1]["content"][1]["input"];
    assert_eq!(*input, json!({"malformedArguments": "not an object"}));
}

#[test]
fn anthropic_requests_contain_params_and_output_schema() {
    let params = ModelParams {
        temperature: Some(0.5),
        top_k: Some(4),
        max_tokens: Some(100),
        stop: vec!["END".to_owned(), " ".to_owned()],
        seed: Some(1),
        ..ModelParams::default()
    };
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let request = ModelRequest {
        params: Arc::new(params),
        output: Some(Arc::new(schema)),
        ..request_with_tool(vec![user("go")])
    };
    let plain = body("anthropic", BUDGET_MODEL, None, &request);
    let fields = [
        "temperature",
        "top_k",
        "max_tokens",
        "stop_sequences",
        "seed",
    ];
    assert_eq!(
        fields.map(|key| plain[key].clone()),
        [
            json!(0.5),
            json!(4),
            json!(100),
            json!(["END"]),
            json!(null),
        ]
    );
    let format = json!({"type": "json_schema", "schema": {
        "type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}});
    assert_eq!(plain["output_config"], json!({"format": format}));
    let thinking = body(
        "anthropic",
        ADAPTIVE_MODEL,
        Some(ReasoningEffort::Low),
        &request,
    );
    assert_eq!(
        thinking["output_config"],
        json!({"effort": "low", "format": format})
    );
    let budget = body(
        "anthropic",
        BUDGET_MODEL,
        Some(ReasoningEffort::Low),
        &request,
    );
    assert_eq!(
        (budget["max_tokens"].as_u64(), budget.get("temperature")),
        (Some(1124), None)
    );
}

#[test]
fn caching_can_be_turned_off() {
    let format = Arc::new(uncached_format("anthropic", BUDGET_MODEL));
    let body = sent_body(format, None, &request_with_tool(conversation("anthropic"))).to_string();
    assert!(!body.contains("cache_control"), "{body}");
}

#[test]
fn paths_and_headers_follow_the_provider() {
    let head = |provider: &str, model: &str| {
        let format = format(provider, model);
        let mut headers = HeaderMap::new();
        format
            .add_headers(Some("k"), &mut headers)
            .expect("a valid key");
        let headers: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
            .collect();
        (format.path(), headers)
    };
    let anthropic = vec![
        "anthropic-version: 2023-06-01".to_owned(),
        "x-api-key: k".to_owned(),
    ];
    assert_eq!(
        head("anthropic", BUDGET_MODEL),
        ("messages".to_owned(), anthropic.clone())
    );
    assert_eq!(
        head("minimax", "MiniMax-M2"),
        ("messages".to_owned(), anthropic)
    );
    let path = "publishers/anthropic/models/claude-opus-4-5@20251101:streamRawPredict".to_owned();
    let bearer = vec!["authorization: Bearer k".to_owned()];
    assert_eq!(head("vertex", "claude-opus-4-5@20251101"), (path, bearer));
    let mut headers = HeaderMap::new();
    assert!(
        format("anthropic", BUDGET_MODEL)
            .add_headers(Some("a\nb"), &mut headers)
            .is_err()
    );
}
