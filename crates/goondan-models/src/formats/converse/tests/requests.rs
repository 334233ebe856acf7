use std::sync::Arc;

use goondan_core::message::{Message, MessagePart, MessageRole, ToolCall};
use goondan_core::ports::model::{ModelRequest, ToolDefinition};
use goondan_spec::kinds::{ModelParams, ReasoningEffort};
use proptest::prelude::*;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::validation::validation_error;
use super::{CLAUDE, format};
use crate::formats::WireFormat;
use crate::testing::{failed_result, file, message, opaque_data, request, result, sent_body};

const NOVA_2: &str = "us.amazon.nova-2-lite-v1:0";
const LLAMA: &str = "meta.llama3-1-70b-instruct-v1:0";

fn request_with_tool(messages: Vec<Arc<Message>>) -> ModelRequest {
    let tool = ToolDefinition {
        name: "t__x".to_owned(),
        description: "Does x.".to_owned(),
        parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    };
    ModelRequest {
        system: Some("Be brief.".to_owned()),
        messages: messages.into(),
        tools: Arc::from([tool]),
        ..request("a", "")
    }
}

/// Gives the messages different ids, as in a conversation.
fn with_ids(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let numbered = messages.into_iter().enumerate();
    numbered
        .map(|(at, message)| {
            Arc::new(Message {
                id: at.to_string(),
                ..Message::clone(&message)
            })
        })
        .collect()
}

fn user(text: &str) -> Arc<Message> {
    message(MessageRole::User, vec![MessagePart::text(text)])
}

fn call(id: &str) -> MessagePart {
    MessagePart::ToolCall(ToolCall::new(id, "t__x", json!({"n": 1})))
}

fn reasoning(family: &str, publisher: &str, data: Value) -> MessagePart {
    let mut data = data;
    data["publisher"] = publisher.into();
    MessagePart::Reasoning {
        text: "I look.".to_owned(),
        provider_metadata: opaque_data(family, data),
    }
}

/// Returns a conversation with answers of the provider `family`.
fn conversation(family: &str) -> Vec<Arc<Message>> {
    let pdf = || file("application/pdf", Some("Q1 report_final.pdf"));
    with_ids(vec![
        message(MessageRole::System, vec![MessagePart::text("A note.")]),
        message(
            MessageRole::User,
            vec![
                MessagePart::text("Look."),
                file("image/png", Some("f.png")),
                pdf(),
            ],
        ),
        message(
            MessageRole::Assistant,
            vec![
                reasoning(family, "anthropic", json!({"signature": "SIG1"})),
                reasoning(family, "anthropic", json!({"redactedContent": "YQ=="})),
                MessagePart::text("I look it up."),
                call("a"),
                call("b.c"),
            ],
        ),
        message(MessageRole::Tool, vec![result("a", json!("")), pdf()]),
        message(
            MessageRole::Tool,
            vec![failed_result("b.c"), file("text/plain", Some("a.txt"))],
        ),
        message(
            MessageRole::Assistant,
            vec![MessagePart::text(" "), MessagePart::text("Done.")],
        ),
        message(
            MessageRole::User,
            vec![MessagePart::text(""), MessagePart::text("And now?")],
        ),
        message(MessageRole::User, vec![MessagePart::text("Hello?")]),
    ])
}

fn body(model: &str, effort: Option<ReasoningEffort>, request: &ModelRequest) -> Value {
    let body = sent_body(format(model), effort, request);
    if model == CLAUDE {
        assert_eq!(validation_error(&body), None, "{body:#}");
    }
    body
}

#[test]
fn converse_requests_keep_opaque_data_of_the_same_publisher() {
    let own = request_with_tool(conversation("bedrock"));
    insta::assert_json_snapshot!("own", body(CLAUDE, Some(ReasoningEffort::Medium), &own));
    assert_eq!(
        body(CLAUDE, None, &own).to_string(),
        body(CLAUDE, None, &own).to_string()
    );
}

#[test]
fn converse_requests_omit_opaque_data_of_other_publishers() {
    let foreign = request_with_tool(conversation("anthropic"));
    insta::assert_json_snapshot!("foreign", body(CLAUDE, None, &foreign));
    let other_publisher =
        body(LLAMA, None, &request_with_tool(conversation("bedrock"))).to_string();
    assert!(
        !other_publisher.contains("reasoningContent"),
        "{other_publisher}"
    );
    assert!(!other_publisher.contains("cachePoint"), "{other_publisher}");
}

#[test]
fn converse_omits_the_thinking_budget_in_a_turn_of_another_provider() {
    let high = Some(ReasoningEffort::High);
    let results = |id: &str| message(MessageRole::Tool, vec![result(id, json!(1))]);
    let foreign = message(MessageRole::Assistant, vec![call("a")]);
    let started_by_other_provider = request_with_tool(vec![user("go"), foreign, results("a")]);
    let fields = |body: &Value| body["additionalModelRequestFields"].clone();
    assert_eq!(
        fields(&body(CLAUDE, high, &started_by_other_provider)),
        json!(null)
    );
    let newer = body(
        "us.anthropic.claude-opus-4-6-v1",
        high,
        &started_by_other_provider,
    );
    let adaptive = json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}});
    assert_eq!(fields(&newer), adaptive);
    let signed = reasoning("bedrock", "anthropic", json!({"signature": "SIG"}));
    let own = message(MessageRole::Assistant, vec![signed, call("a")]);
    let continued = body(
        CLAUDE,
        None,
        &request_with_tool(vec![user("go"), own, results("a")]),
    );
    assert_eq!(fields(&continued)["thinking"]["budget_tokens"], 1024);
}

#[test]
fn converse_requests_declare_stubs_for_removed_tools() {
    let messages = vec![
        user("go"),
        message(MessageRole::Assistant, vec![call("a")]),
        message(MessageRole::Tool, vec![result("a", json!(1))]),
    ];
    let request = ModelRequest {
        tools: Arc::from([]),
        ..request_with_tool(messages)
    };
    let stub = json!({"toolSpec": {"name": "t__x", "inputSchema": {"json": {"type": "object"}},
        "description": "Not available any more."}});
    let expected = json!({"tools": [stub, {"cachePoint": {"type": "default"}}]});
    assert_eq!(body(CLAUDE, None, &request)["toolConfig"], expected);
    let nothing_called = ModelRequest {
        tools: Arc::from([]),
        ..request_with_tool(vec![user("go")])
    };
    assert_eq!(body(CLAUDE, None, &nothing_called).get("toolConfig"), None);
}

#[test]
fn params_follow_the_publisher() {
    let params = ModelParams {
        temperature: Some(0.5),
        top_p: Some(0.9),
        top_k: Some(4),
        max_tokens: Some(100),
        stop: vec!["END".to_owned()],
        ..ModelParams::default()
    };
    let schema = json!({"type": "object", "properties": {}});
    let request = ModelRequest {
        params: Arc::new(params),
        output: Some(Arc::new(schema)),
        ..request_with_tool(vec![user("go")])
    };
    let sent = |model: &str, effort| {
        let body = body(model, effort, &request);
        (
            body["inferenceConfig"].clone(),
            body["additionalModelRequestFields"].clone(),
        )
    };
    let high = Some(ReasoningEffort::High);
    let limits = json!({"maxTokens": 100, "temperature": 0.5, "stopSequences": ["END"]});
    assert_eq!(sent(CLAUDE, None), (limits, json!({"top_k": 4})));
    let thinking = json!({"thinking": {"type": "enabled", "budget_tokens": 24000}});
    let limits = json!({"maxTokens": 24100, "stopSequences": ["END"]});
    assert_eq!(sent(CLAUDE, high), (limits, thinking));
    let config = json!({"type": "enabled", "maxReasoningEffort": "high"});
    let nova = json!({"inferenceConfig": {"topK": 4}, "reasoningConfig": config});
    assert_eq!(
        sent(NOVA_2, high),
        (json!({"stopSequences": ["END"]}), nova)
    );
    let gpt = json!({"reasoning": {"effort": "high"}});
    assert_eq!(
        sent("openai.gpt-5.4", high),
        (json!({"maxTokens": 100}), gpt)
    );
    let limits =
        json!({"maxTokens": 100, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]});
    assert_eq!(sent(LLAMA, high), (limits, json!(null)));
    let text = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
    let structure = json!({"jsonSchema": {"name": "answer", "schema": text}});
    let format = json!({"textFormat": {"type": "json_schema", "structure": structure}});
    assert_eq!(body(CLAUDE, None, &request)["outputConfig"], format);
    let unlimited = |model: &str| {
        body(model, None, &request_with_tool(vec![user("go")]))["inferenceConfig"]["maxTokens"]
            .as_u64()
    };
    assert_eq!(
        [CLAUDE, NOVA_2, LLAMA].map(unlimited),
        [Some(64_000), Some(5000), Some(4096)]
    );
}

#[test]
fn the_path_contains_the_encoded_id() {
    let path = "model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream";
    assert_eq!(format(CLAUDE).path(), path);
    let mut headers = HeaderMap::new();
    format(CLAUDE)
        .add_headers(Some("k"), &mut headers)
        .expect("a valid key");
    assert_eq!(headers["authorization"], "Bearer k");
}

proptest! {
    #[test]
    fn bedrock_accepts_the_request_of_any_conversation(
        steps in prop::collection::vec((0u8..3, any::<bool>(), 0u8..3, 0u8..4), 1..8),
        effort in prop::sample::select(vec![None, Some(ReasoningEffort::High)]),
        has_tools in any::<bool>(),
    ) {
        let mut request = request_with_tool(with_ids(messages(&steps)));
        if !has_tools {
            request.tools = Arc::from([]);
        }
        let body = sent_body(format(CLAUDE), effort, &request);
        prop_assert_eq!(validation_error(&body), None, "{:#}", body);
    }
}

/// Returns messages in the form that the engine stores. A step is the kind of reasoning, text or
/// not, the number of calls, and the kind of the results and the next message.
fn messages(steps: &[(u8, bool, u8, u8)]) -> Vec<Arc<Message>> {
    let mut messages = vec![user("go")];
    for (at, (kind, has_text, calls, after)) in steps.iter().enumerate() {
        let mut parts = Vec::new();
        match kind {
            1 => parts.push(reasoning(
                "bedrock",
                "anthropic",
                json!({"signature": "SIG"}),
            )),
            2 => parts.push(reasoning(
                "bedrock",
                "deepseek",
                json!({"signature": "SIG"}),
            )),
            _ => {}
        }
        if *has_text || *calls == 0 {
            parts.push(MessagePart::text(if *after == 3 { " " } else { "text" }));
        }
        let ids: Vec<String> = (0..*calls)
            .map(|number| format!("c{at}.{number}"))
            .collect();
        parts.extend(ids.iter().map(|id| call(id)));
        messages.push(message(MessageRole::Assistant, parts));
        let results = |id: &String| match after {
            0 => vec![result(id, json!(""))],
            1 => vec![failed_result(id), file("application/pdf", None)],
            _ => vec![result(id, json!({"a": 1}))],
        };
        if *calls > 0 {
            messages.push(message(
                MessageRole::Tool,
                ids.iter().flat_map(results).collect(),
            ));
        }
        if *calls == 0 || *after == 2 {
            messages.push(user("more"));
        }
    }
    messages
}
