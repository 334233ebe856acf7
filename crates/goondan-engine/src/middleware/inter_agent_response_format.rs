//! `inter-agent-response-format`: shows answers to asynchronous requests to the model as plain text
//! instead of JSON.

use std::sync::Arc;

use async_trait::async_trait;
use goondan_spec::Code;
use serde::Deserialize;
use serde_json::Value;

use super::builtin::{ConfigProblem, decode};
use super::{Middleware, StepNext};
use crate::tooling::registry::ToolCatalog;
use crate::turn::step::{StepContext, StepOutcome};
use goondan_core::JsonObject;
use goondan_core::event::TurnError;
use goondan_core::message::{Message, MessageEvent, MessagePart, MessageRole};
use goondan_core::reserved_names::INTER_AGENT_RESPONSE_KEY;

pub(super) const NAME: &str = "inter-agent-response-format";

/// Metadata field of a message that is already formatted.
const FORMATTED_FIELD: &str = "__goondanInterAgentResponseFormatted";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ResponseFormatConfig {
    /// Also show the request event, its trace and the time of the answer.
    include_request_metadata: bool,
}

struct InterAgentResponseFormat {
    config: ResponseFormatConfig,
}

/// Creates the middleware from its config.
pub(super) fn make(
    config: JsonObject,
    _tools: &ToolCatalog,
) -> Result<Arc<dyn Middleware>, ConfigProblem> {
    Ok(Arc::new(InterAgentResponseFormat {
        config: decode(config)?,
    }))
}

/// Metadata of an answer. Metadata of another shape is ignored.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseMetadata {
    request_id: String,
    from_agent_id: String,
    to_agent_id: String,
    status: ResponseStatus,
    error_code: Option<String>,
    error_message: Option<String>,
    request_event_id: Option<String>,
    request_event_type: Option<String>,
    trace_id: Option<String>,
    received_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ResponseStatus {
    Ok,
    Error,
}

/// Returns the formatted message; `None` if it is not an answer or is already formatted.
fn format_response(message: &Message, include_request_metadata: bool) -> Option<Message> {
    if message.data.role != MessageRole::User || message.metadata.contains_key(FORMATTED_FIELD) {
        return None;
    }
    let response =
        ResponseMetadata::deserialize(message.metadata.get(INTER_AGENT_RESPONSE_KEY)?).ok()?;
    let text = text(&response, &message.text(), include_request_metadata);
    let mut message = message.clone();
    message.data.content = vec![MessagePart::text(text)];
    message
        .metadata
        .insert(FORMATTED_FIELD.to_owned(), Value::Bool(true));
    Some(message)
}

/// Formats a response as text for the model.
fn text(response: &ResponseMetadata, content: &str, include_request_metadata: bool) -> String {
    let status = match response.status {
        ResponseStatus::Ok => "ok",
        ResponseStatus::Error => "error",
    };
    let mut lines = vec![
        "[Answer to a request]".to_owned(),
        format!("from: {}", response.from_agent_id),
        format!("to: {}", response.to_agent_id),
        format!("status: {status}"),
        format!("request: {}", response.request_id),
    ];
    if include_request_metadata {
        let fields = [
            ("request event", &response.request_event_id),
            ("request type", &response.request_event_type),
            ("trace", &response.trace_id),
            ("received", &response.received_at),
        ];
        lines.extend(
            fields
                .into_iter()
                .filter_map(|(name, value)| Some(format!("{name}: {}", value.as_ref()?))),
        );
    }
    let payload = match response.status {
        ResponseStatus::Ok => response_text(content),
        ResponseStatus::Error => {
            let code = response
                .error_code
                .as_deref()
                .unwrap_or(Code::AGENT_REQUEST_FAILED.as_str());
            format!(
                "error({code}): {}",
                response.error_message.as_deref().unwrap_or("no message")
            )
        }
    };
    format!("{}\n\n{payload}", lines.join("\n"))
}

/// Returns the answer, or the whole content if it has another shape.
fn response_text(content: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(content).ok();
    match parsed.as_ref().and_then(|content| content.get("response")) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => content.to_owned(),
    }
}

#[async_trait]
impl Middleware for InterAgentResponseFormat {
    fn name(&self) -> &str {
        NAME
    }

    async fn step(
        &self,
        context: &mut StepContext<'_>,
        next: StepNext<'_>,
    ) -> Result<StepOutcome, TurnError> {
        let is_first = context.index == 0;
        let turn = context.turn();
        // Messages before the last model answer were formatted in an earlier step.
        let messages = turn.conversation().messages().iter().rev();
        let unseen =
            messages.take_while(|message| is_first || message.data.role != MessageRole::Assistant);
        let formatted: Vec<Message> = unseen
            .filter_map(|message| format_response(message, self.config.include_request_metadata))
            .collect();
        for message in formatted.into_iter().rev() {
            turn.emit(MessageEvent::Replace {
                target_id: message.id.clone(),
                message,
            })
            .await?;
        }
        next.run(context).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::trim::testing::conversation;
    use super::*;

    fn answer(metadata: Value, content: &str) -> Message {
        let mut message = (*conversation("u")[0]).clone();
        message
            .metadata
            .insert(INTER_AGENT_RESPONSE_KEY.to_owned(), metadata);
        message.data.content = vec![MessagePart::text(content)];
        message
    }

    fn metadata(more: Value) -> Value {
        let mut metadata = json!({"requestId": "req-1", "fromAgentId": "worker:main", "toAgentId": "boss:main", "status": "ok"});
        metadata
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        metadata
    }

    #[test]
    fn an_answer_is_formatted_only_once() {
        let message = answer(metadata(json!({})), r#"{"response": "42\nor so"}"#);
        let formatted_once = format_response(&message, false).unwrap();
        insta::assert_snapshot!(formatted_once.text());
        assert_eq!(formatted_once.id, message.id);
        assert_eq!(format_response(&formatted_once, false), None);
    }

    #[test]
    fn a_failed_answer_contains_its_error_code() {
        let more = json!({"status": "error", "errorCode": "AGENT_REQUEST_FAILED", "errorMessage": "it gave up", "traceId": "t1", "requestEventId": "evt-1"});
        insta::assert_snapshot!(
            format_response(&answer(metadata(more), "{}"), true)
                .unwrap()
                .text()
        );
    }

    #[test]
    fn messages_without_response_metadata_are_not_formatted() {
        assert_eq!(
            format_response(&answer(json!({"status": "ok"}), "x"), false),
            None
        );
        assert_eq!(format_response(&answer(json!("x"), "x"), false), None);
        assert_eq!(format_response(&conversation("u")[0], false), None);
    }
}
