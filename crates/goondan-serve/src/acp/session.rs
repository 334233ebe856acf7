//! One session of an editor: what was told of the conversation, and what is told next.

use std::collections::HashMap;
use std::path::PathBuf;

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema as wire;
use goondan::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::notices::retry_notice;

use super::updates::{self, Call};

/// A session of an editor.
pub(super) struct Session {
    editor: ConnectionTo<Client>,
    /// The conversation.
    pub(super) instance: InstanceId,
    /// The folder that the editor has open.
    pub(super) cwd: PathBuf,
    /// The folder that the agent's tools work in.
    pub(super) workdir: PathBuf,
    /// The message that the model is saying. A piece of another message has another id.
    message: String,
    /// Whether something was said in it.
    has_spoken: bool,
    /// Calls that run, by the ids of the model, which are unique in a step; and the ids that the editor knows them by.
    calls: HashMap<String, String>,
}

impl Session {
    /// One in which nothing was told.
    pub(super) fn new(
        editor: ConnectionTo<Client>,
        instance: InstanceId,
        cwd: PathBuf,
        workdir: PathBuf,
    ) -> Self {
        let (message, has_spoken, calls) = (String::new(), false, HashMap::new());
        Session {
            editor,
            instance,
            cwd,
            workdir,
            message,
            has_spoken,
            calls,
        }
    }

    /// The id of the session.
    pub(super) fn id(&self) -> wire::SessionId {
        wire::SessionId::new(&*self.instance.instance_key)
    }

    /// The id by which the editor knows a call that runs.
    pub(super) fn call(&self, tool_call_id: &str) -> Option<&str> {
        self.calls.get(tool_call_id).map(String::as_str)
    }

    /// Tells the editor something.
    pub(super) fn tell(&self, update: wire::SessionUpdate) {
        // An editor that is gone is noticed elsewhere.
        let _ = self
            .editor
            .send_notification(wire::SessionNotification::new(self.id(), update));
    }

    /// Tells the editor what has happened in the conversation.
    pub(super) fn happened(&mut self, event: &SwarmEvent) {
        match event {
            SwarmEvent::Runtime(event) => self.runtime(event),
            SwarmEvent::Text { delta, .. } => self.say(delta),
            SwarmEvent::Reasoning { delta, .. } => {
                let id = updates::reasoning_id(&self.message);
                self.think(delta, Some(&id).filter(|_| !self.message.is_empty()));
            }
            SwarmEvent::TextReset { .. } => {
                if self.has_spoken {
                    // What was said can't be taken back.
                    let words = "The connection to the model broke. The answer begins again.";
                    self.think(words, None);
                }
                self.begin(format!("{}+", self.message));
            }
            SwarmEvent::TurnEnded { result, .. } => self.ended(result),
        }
    }

    fn say(&mut self, text: &str) {
        self.has_spoken = true;
        let id = Some(self.message.as_str()).filter(|id| !id.is_empty());
        self.tell(wire::SessionUpdate::AgentMessageChunk(updates::text(
            text, id,
        )));
    }

    fn think(&self, text: &str, id: Option<&String>) {
        let chunk = updates::text(text, id.map(String::as_str));
        self.tell(wire::SessionUpdate::AgentThoughtChunk(chunk));
    }

    fn begin(&mut self, message: String) {
        (self.message, self.has_spoken) = (message, false);
    }

    /// An answer that came in one piece, or that an extension has given, was not said yet.
    fn ended(&mut self, result: &TurnResult) {
        let text = result.response_text();
        if !self.has_spoken && !text.is_empty() {
            self.say(&text);
        }
        if let Some(words) = updates::refusal(result) {
            self.begin(format!("{}-refusal", result.turn_id));
            self.say(words);
        }
        self.calls.clear();
        self.begin(String::new());
    }

    fn runtime(&mut self, event: &RuntimeEvent) {
        match &event.kind {
            RuntimeEventKind::StepStarted { step_id, .. } => self.begin(step_id.clone()),
            kind @ RuntimeEventKind::ModelRetrying { .. } => {
                if let Some(notice) = retry_notice(kind) {
                    self.think(&notice, None);
                }
            }
            RuntimeEventKind::ToolCalled {
                tool_call_id,
                tool_name,
                step_id,
                arguments,
                ..
            } => {
                let id = updates::call_id(step_id, tool_call_id);
                self.calls.insert(tool_call_id.clone(), id.clone());
                let call = Call {
                    id,
                    tool: tool_name,
                    arguments,
                    workdir: &self.workdir,
                };
                self.tell(wire::SessionUpdate::ToolCall(
                    call.begun(wire::ToolCallStatus::InProgress),
                ));
            }
            RuntimeEventKind::ToolProgress {
                tool_call_id,
                title,
                ..
            } => {
                if let Some(id) = self.calls.get(tool_call_id).filter(|_| !title.is_empty()) {
                    let fields = wire::ToolCallUpdateFields::new().title(title.clone());
                    self.tell(wire::SessionUpdate::ToolCallUpdate(
                        wire::ToolCallUpdate::new(id.clone(), fields),
                    ));
                }
            }
            RuntimeEventKind::ToolCompleted {
                tool_call_id,
                step_id,
                status,
                shown,
                ..
            } => {
                let id = self
                    .calls
                    .remove(tool_call_id)
                    .unwrap_or_else(|| updates::call_id(step_id, tool_call_id));
                let fields = updates::completed(*status, shown);
                self.tell(wire::SessionUpdate::ToolCallUpdate(
                    wire::ToolCallUpdate::new(id, fields),
                ));
                if let Some(plan) = updates::plan(&shown.metadata) {
                    self.tell(wire::SessionUpdate::Plan(plan));
                }
            }
            RuntimeEventKind::ToolFailed {
                tool_call_id,
                step_id,
                error_message,
                ..
            } => {
                let id = self
                    .calls
                    .remove(tool_call_id)
                    .unwrap_or_else(|| updates::call_id(step_id, tool_call_id));
                let fields = updates::failed(error_message);
                self.tell(wire::SessionUpdate::ToolCallUpdate(
                    wire::ToolCallUpdate::new(id, fields),
                ));
            }
            _ => {}
        }
    }
}
