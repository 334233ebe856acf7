//! The state of a task, assembled from the agent's messages.

use serde_json::{Value, json};

use super::wire::{A2aResult, A2aTaskState, state};
use crate::result::{add_attachment, escape_invisible};
use goondan_core::ports::tool::Attachment;

/// Maximum number of attachments in one answer.
const MAX_ATTACHMENTS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct A2aTask {
    pub(super) id: Option<String>,
    pub(super) context: Option<String>,
    state: Option<A2aTaskState>,
    /// The agent's message about the state.
    pub(super) words: String,
    /// The artifacts in order, with their ids.
    artifacts: Vec<(String, Vec<Value>)>,
    /// The message, if the agent answered without a task.
    message: Option<Vec<Value>>,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct A2aAnswer {
    pub(super) text: String,
    pub(super) attachments: Vec<Attachment>,
}

impl A2aTask {
    /// Applies a received piece. Returns the agent's progress message, if any.
    pub(super) fn take(&mut self, piece: A2aResult<'_>) -> Option<String> {
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).map(str::to_owned)
        };
        match piece {
            A2aResult::Task(task) => {
                self.id = text(task, "id").or_else(|| self.id.take());
                self.context = text(task, "contextId").or_else(|| self.context.take());
                if let Some(artifacts) = task.get("artifacts").and_then(Value::as_array) {
                    self.artifacts.clear();
                    artifacts
                        .iter()
                        .for_each(|artifact| self.add(artifact, false));
                }
                self.set_status(task.get("status")?)
            }
            A2aResult::Status(update) => {
                self.set_ids(update);
                self.set_status(update.get("status")?)
            }
            A2aResult::Artifact(update) => {
                self.set_ids(update);
                self.add(
                    update.get("artifact")?,
                    update.get("append") == Some(&Value::Bool(true)),
                );
                None
            }
            A2aResult::Message(message) => {
                self.context = text(message, "contextId").or_else(|| self.context.take());
                self.message = Some(parts(message));
                None
            }
        }
    }

    /// Copies the ids of an update, if they are not known yet.
    fn set_ids(&mut self, update: &Value) {
        let text = |field: &str| update.get(field).and_then(Value::as_str).map(str::to_owned);
        self.id = self.id.take().or_else(|| text("taskId"));
        self.context = self.context.take().or_else(|| text("contextId"));
    }

    /// Sets the state. Returns the agent's message about the state, unless it is empty.
    fn set_status(&mut self, status: &Value) -> Option<String> {
        self.state = Some(state(status));
        self.words = status
            .get("message")
            .map(|message| answer(&parts(message)).text)
            .unwrap_or_default();
        Some(self.words.clone()).filter(|words| !words.trim().is_empty())
    }

    /// Adds an artifact, or appends to or replaces the artifact with the same id.
    fn add(&mut self, artifact: &Value, append: bool) {
        let id = artifact
            .get("artifactId")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match self.artifacts.iter_mut().find(|(known, _)| known == id) {
            Some((_, known)) if append => known.extend(parts(artifact)),
            Some((_, known)) => *known = parts(artifact),
            None => self.artifacts.push((id.to_owned(), parts(artifact))),
        }
    }

    /// Returns the state. A direct message counts as completed.
    pub(super) fn state(&self) -> A2aTaskState {
        match (self.state, &self.message) {
            (Some(state), _) => state,
            (None, Some(_)) => A2aTaskState::Completed,
            (None, None) => A2aTaskState::Open,
        }
    }

    /// Returns the answer: the artifacts, or the last message if there are none.
    pub(super) fn answer(&self) -> A2aAnswer {
        let mut all = A2aAnswer::default();
        let each = self
            .artifacts
            .iter()
            .map(|(_, parts)| parts)
            .chain(&self.message);
        for part in each.map(|parts| answer(parts)) {
            if !all.text.is_empty() && !part.text.is_empty() {
                all.text.push_str("\n\n");
            }
            all.text.push_str(&part.text);
            all.attachments.extend(part.attachments);
        }
        if all.text.is_empty() && all.attachments.is_empty() {
            all.text.clone_from(&self.words);
        }
        let left_out = all.attachments.len().saturating_sub(MAX_ATTACHMENTS);
        if left_out > 0 {
            all.attachments.truncate(MAX_ATTACHMENTS);
            all.text
                .push_str(&format!("\n[{left_out} more attachments omitted]"));
        }
        all
    }
}

/// Returns the parts of a message or an artifact.
fn parts(object: &Value) -> Vec<Value> {
    object
        .get("parts")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

/// Reads parts of either protocol version. Consecutive pieces of text are joined.
fn answer(parts: &[Value]) -> A2aAnswer {
    let mut answer = A2aAnswer::default();
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    for part in parts {
        let file = part.get("file").unwrap_or(part);
        if let Some(words) = text(part, "text") {
            answer.text.push_str(&escape_invisible(&words));
        } else if let Some(data) = part.get("data") {
            answer
                .text
                .push_str(&escape_invisible(&format!("\n{data}\n")));
        } else if let Some(bytes) = text(file, "raw").or_else(|| text(file, "bytes")) {
            let media_type = text(file, "mediaType").or_else(|| text(file, "mimeType"));
            let name = text(file, "filename").or_else(|| text(file, "name"));
            let media_type = media_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            let left_out = add_attachment(
                &media_type,
                &bytes,
                name.as_deref(),
                &mut answer.attachments,
            );
            answer
                .text
                .extend(left_out.map(|notice| format!("\n{notice}\n")));
        } else if let Some(url) = text(file, "url").or_else(|| text(file, "uri")) {
            answer
                .text
                .push_str(&escape_invisible(&format!("\n[file: {url}]\n")));
        } else {
            answer
                .text
                .push_str(&format!("\n{}\n", json!("a part of an unknown kind")));
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(events: &[Value]) -> A2aTask {
        let mut task = A2aTask::default();
        for event in events {
            task.take(A2aResult::read(event).expect("a stream event"));
        }
        task
    }

    fn text(text: &str, append: bool) -> Value {
        json!({"artifactUpdate": {
            "taskId": "t", "contextId": "c", "append": append, "artifact": {"artifactId": "a", "parts": [{"text": text}]},
        }})
    }

    fn status(state: &str) -> Value {
        json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state}}})
    }

    #[test]
    fn an_answer_is_assembled_from_stream_events() {
        let events = [
            text("old", false),
            text("a", false),
            text("b", true),
            status("TASK_STATE_COMPLETED"),
        ];
        let task = task(&events);
        assert_eq!(
            (task.state(), &*task.answer().text),
            (A2aTaskState::Completed, "ab")
        );
        assert_eq!(
            (task.id.as_deref(), task.context.as_deref()),
            (Some("t"), Some("c"))
        );
    }

    #[test]
    fn both_protocol_versions_parse_to_the_same_task() {
        let new = json!({"task": {
            "id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [{"text": "x"}, {"raw": "QQ==", "mediaType": "image/png"}]}],
        }});
        let old = json!({
            "kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"},
            "artifacts": [{"artifactId": "a", "parts": [
                {"kind": "text", "text": "x"}, {"kind": "file", "file": {"bytes": "QQ==", "mimeType": "image/png"}},
            ]}],
        });
        let (new, old) = (task(&[new]), task(&[old]));
        assert_eq!((new.state(), new.answer()), (old.state(), old.answer()));
        assert_eq!(new.answer().attachments.len(), 1);
    }

    #[test]
    fn the_task_keeps_the_status_message_of_the_agent() {
        let with_state = |state: &str| {
            let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "which\u{202e}?"}]});
            task(&[json!({"task": {"id": "t", "status": {"state": state, "message": message}}})])
        };
        for (name, expected) in [
            ("TASK_STATE_INPUT_REQUIRED", A2aTaskState::Asks),
            ("auth-required", A2aTaskState::Asks),
            ("TASK_STATE_REJECTED", A2aTaskState::Failed),
            ("TASK_STATE_WORKING", A2aTaskState::Open),
        ] {
            let task = with_state(name);
            assert_eq!(
                (task.state(), &*task.words),
                (expected, "which\\u{202e}?"),
                "{name}"
            );
        }
    }

    #[test]
    fn a_message_result_is_a_completed_answer() {
        let message =
            json!({"message": {"messageId": "m", "contextId": "c", "parts": [{"text": "hi"}]}});
        let task = task(&[message]);
        assert_eq!(
            (task.state(), &*task.answer().text, task.context.as_deref()),
            (A2aTaskState::Completed, "hi", Some("c"))
        );
    }
}
