//! Models, requests and answers for the tests.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;
use goondan_core::ids::InstanceId;
use goondan_core::message::{
    Message, MessageData, MessagePart, MessageRole, MessageSource, ToolCall, ToolResultPart,
};
use goondan_core::ports::model::{
    CompletedAnswer, ModelChunk, ModelClient, ModelError, ModelFactory, ModelRequest, TokenUsage,
    ToolDefinition,
};
use goondan_core::ports::tool::{ToolCallError, ToolCallStatus};
use goondan_models::ModelProviders;
use goondan_spec::kinds::{Model, ModelParams};
use goondan_spec::{BasePackage, Environment, LoadInput, MemoryFiles, Resource, load};
use serde_json::{Value, json};

/// Key of every Model. No error may contain it.
pub(crate) const KEY: &str = "sk-do-not-tell-anyone";

pub(crate) fn model(provider: &str, endpoint: Option<String>, options: Value) -> Resource<Model> {
    let mut model = model_from_spec(
        json!({"provider": provider, "model": "some-model", "apiKey": {"value": KEY}, "options": options}),
    );
    model.spec.endpoint = endpoint;
    model
}

/// Returns the Model that a project defines with `spec`.
pub(crate) fn model_from_spec(spec: Value) -> Resource<Model> {
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
    ModelProviders::new().client(model, Path::new("."), environment)
}

pub(crate) fn client(provider: &str, address: &str, options: Value) -> Arc<dyn ModelClient> {
    let model = model(provider, Some(address.to_owned()), options);
    open(&model, &Environment::default()).expect("a client")
}

pub(crate) fn message(role: MessageRole, content: Vec<MessagePart>) -> Arc<Message> {
    Arc::new(Message {
        id: "id".to_owned(),
        data: MessageData { role, content },
        metadata: Default::default(),
        created_at: Default::default(),
        source: MessageSource::System,
    })
}

pub(crate) fn text(text: &str) -> MessagePart {
    MessagePart::text(text.to_owned())
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> MessagePart {
    MessagePart::ToolCall(ToolCall::new(id, name, input))
}

pub(crate) fn result(id: &str, name: &str, output: Value) -> MessagePart {
    MessagePart::ToolResult(ToolResultPart {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        status: ToolCallStatus::Ok,
        output: Some(output),
        error: None,
        untrusted: false,
    })
}

pub(crate) fn failed_result(id: &str, name: &str) -> MessagePart {
    let error = ToolCallError {
        name: None,
        message: "no such city".to_owned(),
        code: "E_TOOL".to_owned(),
        suggestion: Some("spell it out".to_owned()),
        help_url: None,
    };
    MessagePart::ToolResult(ToolResultPart {
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
        description: "Returns the weather.".to_owned(),
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
        exchange: None,
    }
}

pub(crate) fn hello() -> ModelRequest {
    request(vec![message(MessageRole::User, vec![text("hello")])])
}

/// Returns a conversation with two calls. One of them failed.
pub(crate) fn second_turn() -> ModelRequest {
    let calls = vec![
        text("I look it up."),
        call("c1", "weather__now", json!({"city": "Ulm"})),
        call("c2", "weather__now", json!("{\"city\": ")),
    ];
    let results = vec![
        result("c1", "weather__now", json!({"degrees": 7})),
        failed_result("c2", "weather__now"),
    ];
    request(vec![
        message(MessageRole::User, vec![text("weather?")]),
        message(MessageRole::Assistant, calls),
        message(MessageRole::Tool, results),
        message(MessageRole::User, vec![text("and")]),
        message(MessageRole::User, vec![text("tomorrow?")]),
    ])
}

/// The streamed pieces of an answer, and its end.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) texts: Vec<String>,
    pub(crate) reasoning: Vec<String>,
    /// Absent if the answer ended with an error.
    pub(crate) completed: Option<CompletedAnswer>,
    pub(crate) error: Option<ModelError>,
}

/// Sends `request` and returns the complete stream of `client`.
pub(crate) async fn receive_all(client: &Arc<dyn ModelClient>, request: ModelRequest) -> Received {
    let mut received = Received {
        texts: Vec::new(),
        reasoning: Vec::new(),
        completed: None,
        error: None,
    };
    let mut stream = match client.stream(request).await {
        Ok(stream) => stream,
        Err(error) => return received.with_error(error),
    };
    while let Some(item) = stream.next().await {
        match item {
            Ok(ModelChunk::Text(text)) => received.texts.push(text),
            Ok(ModelChunk::Reasoning(text)) => received.reasoning.push(text),
            Ok(ModelChunk::Finish(answer)) => received.completed = Some(*answer),
            Err(error) => received = received.with_error(error),
        }
        if received.completed.is_some() || received.error.is_some() {
            assert!(
                stream.next().await.is_none(),
                "chunks follow the end of the answer"
            );
            return received;
        }
    }
    panic!("the stream ended without a final chunk: {received:?}");
}

impl Received {
    fn with_error(self, error: ModelError) -> Self {
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
        Received {
            error: Some(error),
            ..self
        }
    }
}

/// Returns a complete answer. Asserts that its parts equal the streamed text and reasoning.
pub(crate) async fn answer(
    client: &Arc<dyn ModelClient>,
    request: ModelRequest,
) -> CompletedAnswer {
    let received = receive_all(client, request).await;
    assert_eq!(received.error, None);
    let completed = received.completed.expect("an answer");
    let reasoning = |part: &MessagePart| match part {
        MessagePart::Reasoning { text, .. } => Some(text.clone()),
        _ => None,
    };
    assert_eq!(received.texts.concat(), text_of(&completed));
    assert_eq!(
        received.reasoning.concat(),
        completed
            .parts
            .iter()
            .filter_map(reasoning)
            .collect::<String>()
    );
    completed
}

/// Returns the error of a failed call.
pub(crate) async fn failure(client: &Arc<dyn ModelClient>, request: ModelRequest) -> ModelError {
    let received = receive_all(client, request).await;
    received
        .error
        .unwrap_or_else(|| panic!("an answer instead of an error: {:?}", received.completed))
}

pub(crate) fn text_of(answer: &CompletedAnswer) -> String {
    answer
        .parts
        .iter()
        .filter_map(MessagePart::as_text)
        .collect()
}

pub(crate) fn calls_of(answer: &CompletedAnswer) -> Vec<&ToolCall> {
    let parts = answer.parts.iter();
    parts
        .filter_map(|part| match part {
            MessagePart::ToolCall(call) => Some(call),
            _ => None,
        })
        .collect()
}

pub(crate) fn weather_call(id: &str, arguments: Value) -> MessagePart {
    call(id, "weather__now", arguments)
}

/// Returns an answer with `parts` and this token usage.
pub(crate) fn completed_answer(
    parts: Vec<MessagePart>,
    prompt: u64,
    completion: u64,
) -> CompletedAnswer {
    let usage = TokenUsage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: prompt + completion,
        ..TokenUsage::default()
    };
    CompletedAnswer::of_parts(parts, Some(usage))
}

/// Returns JSON values as server-sent events.
pub(crate) fn events(values: &[Value]) -> String {
    values
        .iter()
        .map(|value| format!("data: {value}\n\n"))
        .collect()
}
