//! Request bodies of one conversation, for tests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use goondan_core::message::{Message, MessagePart, MessageRole, ToolResultPart};
use goondan_core::ports::model::{ModelRequest, ToolDefinition};
use goondan_core::ports::tool::{Attachment, ToolCallError, ToolCallStatus};
use goondan_spec::Code;
use goondan_spec::kinds::ReasoningEffort;
use http_body::Body;
use serde_json::{Value, json};

use super::{ModelTarget, WireFormat};
use crate::client::RequestBuilder;
use crate::provider::provider;
use crate::testing::{message, request};

/// Returns the model `model` of the provider `name`.
pub(crate) fn model_target(name: &str, model: &str) -> ModelTarget {
    ModelTarget {
        provider: provider(name).expect("a provider"),
        model: model.to_owned(),
        prompt_caching: true,
    }
}

/// Returns the body of `request` in `format`. The messages are serialized and read again, as after
/// a restart.
pub(crate) fn body_of(format: impl WireFormat + 'static, mut request: ModelRequest) -> Value {
    let stored = |message: &Arc<Message>| -> Message {
        let text = serde_json::to_string(&**message).expect("a message");
        serde_json::from_str(&text).expect("a message")
    };
    let messages: Vec<_> = request
        .messages
        .iter()
        .map(|message| Arc::new(stored(message)))
        .collect();
    request.messages = messages.into();
    let effort = Some(ReasoningEffort::Medium);
    let requests = RequestBuilder::new(
        Arc::new(format),
        "key".to_owned(),
        effort,
        Default::default(),
    );
    let mut body = requests.body(&request);
    let mut bytes = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
        bytes.extend(frame.into_data().expect("data"));
    }
    serde_json::from_slice(&bytes).expect("a body in JSON")
}

/// Returns a conversation: a question with an image, `answer`, the results of its calls with a
/// file, and another question.
pub(crate) fn conversation(answer: Vec<MessagePart>) -> ModelRequest {
    let image = || file("image/png", "iVBO", "map.png");
    let calls = message(MessageRole::Assistant, answer);
    let mut results: Vec<MessagePart> = calls
        .tool_calls()
        .map(|call| result(call.tool_call_id.as_str()))
        .collect();
    if let Some(MessagePart::ToolResult(result)) = results.last_mut() {
        result.output = None;
        result.error = Some(ToolCallError {
            name: None,
            message: "No such city.".to_owned(),
            code: Code::TOOL_FAILED.as_str().to_owned(),
            suggestion: None,
            help_url: None,
        });
    }
    results.push(image());
    let messages = vec![
        message(MessageRole::System, vec![MessagePart::text("A summary.")]),
        message(
            MessageRole::User,
            vec![MessagePart::text("Where is it warm?"), image()],
        ),
        calls,
        message(MessageRole::Tool, results),
        message(
            MessageRole::User,
            vec![MessagePart::text("And"), MessagePart::text("tomorrow?")],
        ),
    ];
    ModelRequest {
        system: Some("Be brief.".to_owned()),
        messages: messages.into(),
        tools: Arc::from([weather_tool()]),
        output: Some(Arc::new(json!({
            "type": "object", "properties": {"city": {"type": "string"}},
            "required": ["city"], "additionalProperties": false,
        }))),
        ..request("a", "")
    }
}

fn weather_tool() -> ToolDefinition {
    ToolDefinition {
        name: "weather__now".to_owned(),
        description: "Returns the weather.".to_owned(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
    }
}

fn result(id: &str) -> MessagePart {
    MessagePart::ToolResult(ToolResultPart {
        tool_call_id: id.to_owned(),
        tool_name: "weather__now".to_owned(),
        status: ToolCallStatus::Ok,
        output: Some(json!({"degrees": 7})),
        error: None,
        untrusted: false,
    })
}

fn file(media_type: &str, data: &str, name: &str) -> MessagePart {
    MessagePart::File(Attachment {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
        name: Some(name.to_owned()),
    })
}
