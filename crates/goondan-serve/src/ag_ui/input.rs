//! Input of a run, from a page that starts or resumes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan::message::{MessageData, MessagePart, MessageRole};
use goondan::ports::approval::ApprovalAnswer;
use goondan::ports::tool::Attachment;
use goondan::spec::{Code, JsonObject};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::problem::ApiProblem;
use crate::wire::AnswerBody;

/// Input of a run, as defined by AG-UI (`RunAgentInput`). Other fields are ignored.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunInput {
    /// Conversation key.
    #[schema(min_length = 1)]
    pub(super) thread_id: String,
    /// Run id. A repeated id starts no second turn.
    #[schema(min_length = 1)]
    pub(super) run_id: String,
    /// Messages of the thread. The last user messages are new.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub(super) messages: Vec<JsonObject>,
    /// Context appended to the system prompt of the turn.
    #[serde(default)]
    pub(super) context: Vec<ContextBody>,
    /// Answers to the approval requests that ended the last run.
    #[serde(default)]
    pub(super) resume: Option<Vec<ResumeBody>>,
}

/// A fact for the agent.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct ContextBody {
    /// Description of the fact.
    description: String,
    /// Value of the fact.
    value: String,
}

/// An answer to an approval request.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeBody {
    /// Id of the approval request.
    pub(super) interrupt_id: String,
    /// `resolved` or `cancelled`.
    status: String,
    /// `{"approved": true}`, or `{"answer": "once"}` as in `POST /api/approvals/{id}`.
    #[serde(default)]
    payload: Value,
}

/// Parsed form of the messages.
#[derive(Debug, Default)]
pub(super) struct ThreadMessages {
    /// New text.
    pub(super) text: String,
    pub(super) files: Vec<Attachment>,
    /// Id of the last new message.
    pub(super) id: Option<String>,
    /// Earlier messages.
    pub(super) history: Vec<MessageData>,
    pub(super) instructions: Option<String>,
}

/// Returns the error for an invalid body.
fn invalid_body(message: impl Into<String>) -> ApiProblem {
    ApiProblem::new(Code::SERVE_REQUEST, message).suggest("/openapi.json describes every body.")
}

impl RunInput {
    /// Splits the messages into history, new user messages and instructions.
    pub(super) fn thread_messages(&self) -> Result<ThreadMessages, ApiProblem> {
        let role = |message: &JsonObject| {
            message
                .get("role")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let is_before =
            |message: &JsonObject| !matches!(&*role(message), "user" | "system" | "developer");
        let new_messages = self
            .messages
            .iter()
            .rposition(is_before)
            .map_or(0, |last| last + 1);
        let mut said = ThreadMessages::default();
        let mut texts = Vec::new();
        let mut instructions = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            let (text, files) = content(message, index)?;
            match &*role(message) {
                "system" | "developer" => instructions.push(text),
                "user" if index >= new_messages => {
                    texts.push(text);
                    said.files.extend(files);
                    said.id = message.get("id").and_then(Value::as_str).map(str::to_owned);
                }
                "user" => said
                    .history
                    .push(history_message(MessageRole::User, text, files)),
                "assistant" if !text.is_empty() => {
                    said.history
                        .push(history_message(MessageRole::Assistant, text, files))
                }
                _ => {}
            }
        }
        instructions.extend(
            self.context
                .iter()
                .map(|known| format!("{}: {}", known.description, known.value)),
        );
        said.text = texts.join("\n\n");
        said.instructions = Some(instructions.join("\n\n")).filter(|text| !text.is_empty());
        Ok(said)
    }
}

fn history_message(role: MessageRole, text: String, files: Vec<Attachment>) -> MessageData {
    let content = std::iter::once(MessagePart::text(text))
        .chain(files.into_iter().map(MessagePart::File))
        .collect();
    MessageData { role, content }
}

/// Returns the text and the files of a message.
fn content(message: &JsonObject, index: usize) -> Result<(String, Vec<Attachment>), ApiProblem> {
    let parts = match message.get("content") {
        None | Some(Value::Null) => return Ok(Default::default()),
        Some(Value::String(text)) => return Ok((text.clone(), Vec::new())),
        Some(Value::Array(parts)) => parts,
        // Activity messages contain the output of other kinds of agents.
        Some(_) if message.get("role").and_then(Value::as_str) == Some("activity") => {
            return Ok(Default::default());
        }
        Some(_) => {
            return Err(invalid_body(format!(
                "`messages[{index}].content` must be a string or a list."
            )));
        }
    };
    let mut texts = Vec::new();
    let mut files = Vec::new();
    for part in parts {
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).map(str::to_owned)
        };
        if let Some(text) = text(part, "text") {
            texts.push(text);
            continue;
        }
        let source = part.get("source").unwrap_or(part);
        let data = text(source, "data")
            .or_else(|| text(source, "value").filter(|_| source["type"] == "data"));
        let Some((data, media_type)) = data.zip(text(source, "mimeType")) else {
            return Err(invalid_body(format!(
                "`messages[{index}].content` has a part that is neither text nor file bytes."
            ))
            .suggest("Send the bytes of files: the server fetches no URLs."));
        };
        if STANDARD.decode(&data).is_err() {
            return Err(invalid_body(format!(
                "`messages[{index}].content` has bytes that are not Base64."
            )));
        }
        files.push(Attachment {
            media_type,
            data,
            name: text(part, "filename"),
        });
    }
    Ok((texts.join("\n\n"), files))
}

impl ResumeBody {
    /// Converts the answer. Everything except an explicit approval is a denial.
    pub(super) fn to_approval_answer(&self) -> ApprovalAnswer {
        if self.status != "resolved" {
            return ApprovalAnswer::Deny;
        }
        if let Ok(body) = serde_json::from_value::<AnswerBody>(self.payload.clone()) {
            return body.to_approval_answer();
        }
        match self.payload.get("approved") {
            Some(Value::Bool(true)) => ApprovalAnswer::ONCE,
            _ => ApprovalAnswer::Deny,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn thread_messages(messages: Value) -> Result<ThreadMessages, ApiProblem> {
        let context = json!([{"description": "page", "value": "cart"}]);
        let body = json!({"threadId": "t", "runId": "r", "messages": messages, "context": context, "tools": [], "state": {}});
        serde_json::from_value::<RunInput>(body)
            .unwrap()
            .thread_messages()
    }

    #[test]
    fn trailing_user_messages_are_the_new_input() {
        let user = |text: &str| json!({"id": text, "role": "user", "content": text});
        let system = json!({"id": "s", "role": "system", "content": "be kind"});
        let call = json!({"id": "c", "role": "assistant", "toolCalls": []});
        let tool = json!({"id": "t", "role": "tool", "toolCallId": "x", "content": "result"});
        let answer = json!({"id": "a", "role": "assistant", "content": "yes"});
        let read = thread_messages(json!([
            user("1"),
            system,
            call,
            tool,
            answer,
            user("2"),
            user("3")
        ]))
        .unwrap();
        assert_eq!((&*read.text, read.id.as_deref()), ("2\n\n3", Some("3")));
        assert_eq!(read.instructions.as_deref(), Some("be kind\n\npage: cart"));
        let roles: Vec<_> = read.history.iter().map(|message| message.role).collect();
        assert_eq!(roles, [MessageRole::User, MessageRole::Assistant]);
        assert_eq!(
            thread_messages(json!([user("1"), answer])).unwrap().text,
            ""
        );
    }

    #[test]
    fn files_need_inline_data() {
        let with = |part: Value| {
            thread_messages(
                json!([{"id": "1", "role": "user", "content": [{"type": "text", "text": "see"}, part]}]),
            )
        };
        let image =
            with(json!({"type": "image", "source": {"type": "data", "value": "R0lG", "mimeType": "image/gif"}}))
                .unwrap();
        assert_eq!((&*image.text, &*image.files[0].data), ("see", "R0lG"));
        let binary =
            with(json!({"type": "binary", "mimeType": "a/b", "data": "R0lG", "filename": "x"}))
                .unwrap();
        assert_eq!(binary.files[0].name.as_deref(), Some("x"));
        for wrong in [
            json!({"type": "image", "source": {"type": "url", "value": "http://127.0.0.1/", "mimeType": "image/gif"}}),
            json!({"type": "binary", "mimeType": "a/b", "url": "http://127.0.0.1/"}),
            json!({"type": "binary", "mimeType": "a/b", "data": "-"}),
            json!(1),
        ] {
            assert!(with(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_explicit_resume_payloads_approve() {
        let answer = |status: &str, payload: Value| {
            let body = json!({"interruptId": "i", "status": status, "payload": payload});
            serde_json::from_value::<ResumeBody>(body)
                .unwrap()
                .to_approval_answer()
        };
        for payload in [
            json!({"approved": true}),
            json!({"answer": "once"}),
            json!({"approved": true, "editedArgs": {}}),
        ] {
            assert_eq!(answer("resolved", payload), ApprovalAnswer::ONCE);
        }
        for (status, payload) in [
            ("cancelled", json!({"approved": true})),
            ("resolved", json!({"approved": "true"})),
            ("resolved", json!({"answer": "deny"})),
            ("resolved", json!({"answer": "yes"})),
            ("resolved", Value::Null),
        ] {
            assert_eq!(answer(status, payload), ApprovalAnswer::Deny);
        }
    }
}
