//! Complete request bodies of the chat format, for a table of conversations and Models. Keys are
//! sorted.

use std::collections::BTreeMap;
use std::sync::Arc;

use goondan_core::message::{MessagePart, MessageRole};
use goondan_core::ports::model::{ModelRequest, ToolDefinition};
use goondan_core::ports::tool::Attachment;
use goondan_spec::kinds::{ModelParams, ReasoningEffort};
use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};

fn file(media_type: &str, data: &str, name: Option<&str>) -> MessagePart {
    MessagePart::File(Attachment {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
        name: name.map(str::to_owned),
    })
}

fn untrusted(part: MessagePart) -> MessagePart {
    match part {
        MessagePart::ToolResult(mut result) => {
            result.untrusted = true;
            MessagePart::ToolResult(result)
        }
        other => other,
    }
}

fn text_message(role: MessageRole, texts: &[&str]) -> Arc<goondan_core::message::Message> {
    message(role, texts.iter().map(|part| text(part)).collect())
}

/// Conversations by name.
fn conversations() -> Vec<(&'static str, ModelRequest)> {
    let user = |texts: &[&str]| text_message(MessageRole::User, texts);
    let assistant = |texts: &[&str]| text_message(MessageRole::Assistant, texts);
    let system = |texts: &[&str]| text_message(MessageRole::System, texts);
    let image = || file("image/png", "iVBO", Some("f.png"));
    let calls = || {
        message(
            MessageRole::Assistant,
            vec![call("c1", "weather__now", json!({"city": "Ulm"}))],
        )
    };
    let odd = "\u{1}\"\\/\n\t\u{7f}\u{2028}é😀";
    vec![
        ("one word", hello()),
        ("calls, results and an error", second_turn()),
        (
            "several texts in a message",
            request(vec![
                user(&["a", "b"]),
                assistant(&["c", "d"]),
                user(&["e"]),
            ]),
        ),
        (
            "texts of one message with empty ones",
            request(vec![user(&["", "a", ""]), assistant(&["x"]), user(&[""])]),
        ),
        (
            "empty messages",
            request(vec![
                system(&[" "]),
                user(&["hi"]),
                assistant(&["\n"]),
                assistant(&[]),
                user(&[]),
                user(&["still there?"]),
            ]),
        ),
        (
            "system messages inside",
            request(vec![
                system(&["a", "b"]),
                user(&["hi"]),
                system(&["c"]),
                user(&["ho"]),
            ]),
        ),
        (
            "odd characters",
            request(vec![user(&[odd]), assistant(&[odd]), system(&[odd])]),
        ),
        (
            "results of neighbouring messages",
            request(vec![
                user(&["go"]),
                message(
                    MessageRole::Assistant,
                    vec![
                        call("c1", "weather__now", json!({})),
                        call("c2", "weather__now", json!([1, {"a": 1.5}])),
                    ],
                ),
                message(
                    MessageRole::Tool,
                    vec![result("c1", "weather__now", json!("plain"))],
                ),
                message(
                    MessageRole::Tool,
                    vec![result("c2", "weather__now", json!(null))],
                ),
            ]),
        ),
        (
            "results with files, then an answer",
            request(vec![
                user(&["go"]),
                calls(),
                message(
                    MessageRole::Tool,
                    vec![result("c1", "weather__now", json!({"a": odd})), image()],
                ),
                message(MessageRole::Tool, vec![file("text/plain", "aGk=", None)]),
                assistant(&["seen"]),
                user(&["good"]),
            ]),
        ),
        (
            "results with files at the end, and a word after them",
            request(vec![
                calls(),
                message(
                    MessageRole::Tool,
                    vec![result("c1", "weather__now", json!(1)), image()],
                ),
                user(&["?"]),
            ]),
        ),
        (
            "results with files, an empty answer, a word",
            request(vec![
                calls(),
                message(MessageRole::Tool, vec![image()]),
                assistant(&[""]),
                user(&["?"]),
            ]),
        ),
        (
            "files of all kinds",
            request(vec![
                message(
                    MessageRole::User,
                    vec![
                        text("look"),
                        image(),
                        file("application/pdf", "JVBE", Some("a.pdf")),
                        file("application/pdf", "JVBE", None),
                        file("audio/wav", "UklG", None),
                        file("audio/mpeg", "SUQz", Some("s.mp3")),
                        file("video/mp4", "AAAA", Some("v.mp4")),
                        file("application/json", "e30=", Some("x.json")),
                        file("x/y", "AA==", None),
                        text("well?"),
                    ],
                ),
                user(&["more"]),
            ]),
        ),
        (
            "untrusted results",
            request(vec![
                calls(),
                message(
                    MessageRole::Tool,
                    vec![
                        untrusted(result("c1", "weather__now", json!({"t": 7}))),
                        untrusted(failed_result("c2", "weather__now")),
                    ],
                ),
            ]),
        ),
        (
            "an answer with text and a file",
            request(vec![
                user(&["go"]),
                message(MessageRole::Assistant, vec![text("here"), image()]),
            ]),
        ),
        (
            "a blank text before a call",
            request(vec![
                user(&["go"]),
                message(
                    MessageRole::Assistant,
                    vec![text(" "), call("c1", "weather__now", json!({}))],
                ),
            ]),
        ),
        ("nothing at all", request(vec![])),
        (
            "no system prompt",
            ModelRequest {
                system: None,
                ..second_turn()
            },
        ),
        (
            "a blank system prompt",
            ModelRequest {
                system: Some(" \n".to_owned()),
                ..hello()
            },
        ),
        (
            "no tools",
            ModelRequest {
                tools: Arc::from([]),
                ..hello()
            },
        ),
        (
            "tools whose schemas change",
            ModelRequest {
                tools: schemas(),
                ..hello()
            },
        ),
        (
            "no parameters",
            with_params(hello(), ModelParams::default()),
        ),
        (
            "all parameters",
            with_params(
                hello(),
                ModelParams {
                    temperature: Some(0.1),
                    max_tokens: Some(7),
                    top_p: Some(0.9),
                    top_k: Some(40),
                    stop: vec!["x".to_owned()],
                    seed: Some(3),
                    presence_penalty: Some(0.5),
                    frequency_penalty: Some(-0.5),
                    reasoning_effort: Some(ReasoningEffort::Low),
                },
            ),
        ),
    ]
}

fn schemas() -> Arc<[ToolDefinition]> {
    let tool = |name: &str, parameters: Value| ToolDefinition {
        name: name.to_owned(),
        description: format!("About {name}."),
        parameters,
    };
    Arc::from([
        tool(
            "a__x",
            json!({"$schema": "s", "anyOf": [{"required": ["a"]}], "properties": {"a": true}}),
        ),
        tool("b__y", json!(null)),
    ])
}

fn with_params(mut request: ModelRequest, params: ModelParams) -> ModelRequest {
    request.params = Arc::new(params);
    request
}

/// Model by provider, name and options.
fn models() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        (
            "openai",
            "o3-mini",
            json!({"api": "chat", "reasoningEffort": "high"}),
        ),
        ("openai", "gpt-5", json!({"api": "chat"})),
        (
            "openai-compatible",
            "some::model-high",
            json!({"reasoningEffort": "none", "body": {"seed": 1, "max_tokens": 5}}),
        ),
        (
            "deepseek",
            "deepseek-chat",
            json!({"reasoningEffort": "none"}),
        ),
        (
            "deepseek",
            "deepseek-chat",
            json!({"reasoningEffort": "medium"}),
        ),
        ("deepseek", "deepseek-chat", json!({})),
        ("fireworks", "qwen3", json!({})),
        ("fireworks", "accounts/x/models/y", json!({})),
        ("groq", "llama", json!({})),
        (
            "mistral",
            "mistral-small",
            json!({"body": {"random_seed": 3}}),
        ),
        ("openrouter", "anthropic/claude", json!({})),
        ("github", "openai/gpt-4.1", json!({})),
        ("xai", "grok", json!({})),
    ]
}

async fn sent(provider: &str, name: &str, options: Value, request: ModelRequest) -> Value {
    let mock = MockServer::start(vec![MockResponse::events("data: [DONE]\n\n")]).await;
    let mut model = model(
        provider,
        Some(format!("http://{}/v1", mock.address)),
        options,
    );
    model.spec.model = name.to_owned();
    answer(
        &open(&model, &Default::default()).expect("a client"),
        request,
    )
    .await;
    sorted(mock.requests()[0].body.clone())
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields
                .into_iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect();
            fields.into_iter().collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

#[tokio::test]
async fn bodies_of_conversations() {
    let mut bodies = serde_json::Map::new();
    for (name, request) in conversations() {
        bodies.insert(
            name.to_owned(),
            sent("openai-compatible", "some-model", json!({}), request).await,
        );
    }
    insta::assert_json_snapshot!(bodies);
}

#[tokio::test]
async fn bodies_for_models() {
    let mut bodies = Vec::new();
    for (provider, name, options) in models() {
        let request = ModelRequest {
            tools: Arc::from([]),
            ..hello()
        };
        let without = with_params(request.clone(), ModelParams::default());
        let body = sent(provider, name, options.clone(), request).await;
        let bare = sent(provider, name, options.clone(), without).await;
        bodies.push(json!({"provider": provider, "name": name, "options": options, "body": body, "bare": bare}));
    }
    insta::assert_json_snapshot!(bodies);
}
