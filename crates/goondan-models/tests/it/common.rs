//! Models, requests and answers, as the tests write them.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;
use goondan_core::ids::InstanceId;
use goondan_core::message::{
    Message, MessageData, MessageSource, Part, Role, ToolCall, ToolResultPart,
};
use goondan_core::ports::model::{
    ModelChunk, ModelClient, ModelError, ModelFactory, ModelRequest, TokenUsage, ToolDefinition,
};
use goondan_core::ports::tool::{ToolCallError, ToolCallStatus};
use goondan_models::Providers;
use goondan_spec::kinds::{Model, ModelParams};
use goondan_spec::{BasePackage, Environment, LoadInput, MemoryFiles, Resource, load};
use serde_json::{Value, json};

/// The key that every test uses; no error may hold it.
pub(crate) const KEY: &str = "sk-do-not-tell-anyone";

pub(crate) fn model(provider: &str, endpoint: Option<String>, options: Value) -> Resource<Model> {
    let mut model = loaded(
        json!({"provider": provider, "model": "some-model", "apiKey": {"value": KEY}, "options": options}),
    );
    model.spec.endpoint = endpoint;
    model
}

/// The Model with this `spec`, as a project defines it.
pub(crate) fn loaded(spec: Value) -> Resource<Model> {
    let document = json!({
        "apiVersion": "goondan.ai/v1", "kind": "Model", "metadata": {"name": "m"}, "spec": spec,
    });
    let files = MemoryFiles::new().file("/p/goondan.yaml", document.to_string());
    let loaded = load(LoadInput {
        root: Path::new("/p"),
        files: &files,
        base: &BasePackage::default(),
    });
    let bundle = loaded
        .bundle
        .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    Resource::clone(&bundle.models()[0])
}

pub(crate) fn open(
    model: &Resource<Model>,
    environment: &Environment,
) -> Result<Arc<dyn ModelClient>, ModelError> {
    Providers::new().client(model, Path::new("."), environment)
}

pub(crate) fn client(provider: &str, address: &str, options: Value) -> Arc<dyn ModelClient> {
    let model = model(provider, Some(address.to_owned()), options);
    open(&model, &Environment::default()).expect("a client")
}

pub(crate) fn message(role: Role, content: Vec<Part>) -> Arc<Message> {
    Arc::new(Message {
        id: "id".to_owned(),
        data: MessageData { role, content },
        metadata: Default::default(),
        created_at: Default::default(),
        source: MessageSource::System,
    })
}

pub(crate) fn text(text: &str) -> Part {
    Part::text(text.to_owned())
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Part {
    Part::ToolCall(ToolCall {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        input,
    })
}

pub(crate) fn result(id: &str, name: &str, output: Value) -> Part {
    Part::ToolResult(ToolResultPart {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        status: ToolCallStatus::Ok,
        output: Some(output),
        error: None,
        untrusted: false,
    })
}

pub(crate) fn failed(id: &str, name: &str) -> Part {
    let error = ToolCallError {
        name: None,
        message: "no such city".to_owned(),
        code: "E_TOOL".to_owned(),
        suggestion: Some("spell it out".to_owned()),
        help_url: None,
    };
    Part::ToolResult(ToolResultPart {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        status: ToolCallStatus::Error,
        output: None,
        error: Some(error),
        untrusted: false,
    })
}

pub(crate) fn weather() -> ToolDefinition {
    ToolDefinition {
        name: "weather__now".to_owned(),
        description: "Tells the weather.".to_owned(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
    }
}

pub(crate) fn request(messages: Vec<Arc<Message>>) -> ModelRequest {
    let params = ModelParams {
        temperature: Some(0.5),
        max_tokens: Some(100),
        ..ModelParams::default()
    };
    ModelRequest {
        instance: InstanceId::new("a", "main"),
        system: Some("Be brief.".to_owned()),
        messages: messages.into(),
        tools: Arc::from([weather()]),
        params: Arc::new(params),
        output: None,
        caller: None,
    }
}

pub(crate) fn hello() -> ModelRequest {
    request(vec![message(Role::User, vec![text("hello")])])
}

/// A conversation with two calls, one of which failed.
pub(crate) fn second_turn() -> ModelRequest {
    let calls = vec![
        text("I look it up."),
        call("c1", "weather__now", json!({"city": "Ulm"})),
        call("c2", "weather__now", json!("{\"city\": ")),
    ];
    let results = vec![
        result("c1", "weather__now", json!({"degrees": 7})),
        failed("c2", "weather__now"),
    ];
    request(vec![
        message(Role::User, vec![text("weather?")]),
        message(Role::Assistant, calls),
        message(Role::Tool, results),
        message(Role::User, vec![text("and")]),
        message(Role::User, vec![text("tomorrow?")]),
    ])
}

/// Everything that came before the end or the first error, and that error.
pub(crate) async fn all(
    client: &Arc<dyn ModelClient>,
    request: ModelRequest,
) -> (Vec<ModelChunk>, Option<ModelError>) {
    let mut chunks = Vec::new();
    let mut stream = match client.stream(request).await {
        Ok(stream) => stream,
        Err(error) => return (chunks, Some(told(error))),
    };
    while let Some(item) = stream.next().await {
        match item {
            Ok(chunk) => chunks.push(chunk),
            Err(error) => {
                assert!(
                    stream.next().await.is_none(),
                    "nothing comes after an error"
                );
                return (chunks, Some(told(error)));
            }
        }
    }
    (chunks, None)
}

/// The whole answer.
pub(crate) async fn answer(
    client: &Arc<dyn ModelClient>,
    request: ModelRequest,
) -> Vec<ModelChunk> {
    let (chunks, error) = all(client, request).await;
    assert_eq!(error, None);
    assert!(
        matches!(chunks.last(), Some(ModelChunk::Finish { .. })),
        "{chunks:?}"
    );
    chunks
}

/// The error that the call ends with.
pub(crate) async fn failure(client: &Arc<dyn ModelClient>, request: ModelRequest) -> ModelError {
    let (chunks, error) = all(client, request).await;
    error.unwrap_or_else(|| panic!("no error, but {chunks:?}"))
}

/// `error`, once it is sure that it keeps the secret.
fn told(error: ModelError) -> ModelError {
    assert!(!format!("{error:?}").contains(KEY), "{error:?}");
    error
}

pub(crate) fn said(piece: &str) -> ModelChunk {
    ModelChunk::Text(piece.to_owned())
}

pub(crate) fn called(id: &str, arguments: Value) -> ModelChunk {
    ModelChunk::ToolCall {
        id: id.to_owned(),
        name: "weather__now".to_owned(),
        arguments,
    }
}

pub(crate) fn finish(prompt: u64, completion: u64) -> ModelChunk {
    let total_tokens = prompt + completion;
    let usage = TokenUsage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens,
        cached_tokens: 0,
    };
    ModelChunk::Finish { usage: Some(usage) }
}

/// JSON values as the lines of a stream of server-sent events.
pub(crate) fn events(values: &[Value]) -> String {
    values
        .iter()
        .map(|value| format!("data: {value}\n\n"))
        .collect()
}
