//! One session of an editor: converts events of its conversation to session updates.

use std::collections::HashMap;
use std::path::PathBuf;

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema as wire;
use goondan::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::gateway::RunningTurn;
use goondan::ids::InstanceId;
use goondan::notices::retry_notice;

use super::updates::{self, ShownCall, ShownToolCall};

pub(super) struct EditorSession {
    editor: ConnectionTo<Client>,
    pub(super) instance: InstanceId,
    /// Directory that the editor has open.
    pub(super) cwd: PathBuf,
    /// Working directory of the agent's tools.
    pub(super) workdir: PathBuf,
    /// Message that the model is writing. Chunks of another message have another id.
    message: String,
    /// The editor received text of this message.
    has_spoken: bool,
    /// Number of messages that began after missed events.
    catch_up_count: u32,
    /// Running calls by the model's call id, which is unique in a step.
    calls: HashMap<String, ShownToolCall>,
}

impl EditorSession {
    /// Creates a session. `cwd` is the editor's directory, `workdir` the agent's.
    pub(super) fn new(
        editor: ConnectionTo<Client>,
        instance: InstanceId,
        cwd: PathBuf,
        workdir: PathBuf,
    ) -> Self {
        EditorSession {
            editor,
            instance,
            cwd,
            workdir,
            message: String::new(),
            has_spoken: false,
            catch_up_count: 0,
            calls: HashMap::new(),
        }
    }

    /// Returns the session id.
    pub(super) fn id(&self) -> wire::SessionId {
        wire::SessionId::new(&*self.instance.instance_key)
    }

    /// Returns the editor's id of a running call.
    pub(super) fn call(&self, tool_call_id: &str) -> Option<&str> {
        self.calls.get(tool_call_id).map(|call| &*call.id)
    }

    /// Sends an update to the editor. A failure is ignored, because the manager detects a
    /// disconnected editor.
    pub(super) fn send_update(&self, update: wire::SessionUpdate) {
        // The session manager detects a disconnected editor.
        let _ = self
            .editor
            .send_notification(wire::SessionNotification::new(self.id(), update));
    }

    /// Sends the update for an event of the conversation.
    pub(super) fn handle_event(&mut self, event: &SwarmEvent) {
        match event {
            SwarmEvent::Runtime(event) => self.handle_runtime_event(event),
            SwarmEvent::Text { delta, .. } => self.send_text(delta),
            SwarmEvent::Reasoning { delta, .. } => {
                let id = updates::reasoning_id(&self.message);
                self.send_reasoning(delta, Some(&id).filter(|_| !self.message.is_empty()));
            }
            SwarmEvent::TextReset { .. } => {
                if self.has_spoken {
                    // Sent text cannot be revoked.
                    let text = "The connection to the model broke. The answer starts again.";
                    self.send_reasoning(text, None);
                }
                self.begin(format!("{}+", self.message));
            }
            SwarmEvent::TurnEnded { result, .. } => self.handle_turn_end(result),
        }
    }

    /// Sends text of the answer.
    fn send_text(&mut self, text: &str) {
        self.has_spoken = true;
        let id = Some(self.message.as_str()).filter(|id| !id.is_empty());
        self.send_update(wire::SessionUpdate::AgentMessageChunk(updates::text(
            text, id,
        )));
    }

    /// Sends reasoning.
    fn send_reasoning(&self, text: &str, id: Option<&String>) {
        let chunk = updates::text(text, id.map(String::as_str));
        self.send_update(wire::SessionUpdate::AgentThoughtChunk(chunk));
    }

    /// Sends the text of the running step after missed events.
    pub(super) fn catch_up(&mut self, running: &RunningTurn) {
        self.catch_up_count += 1;
        self.begin(format!("{}-{}", running.turn_id, self.catch_up_count));
        if !running.text.is_empty() {
            self.send_text(&running.text);
        }
    }

    /// Begins a message with this id.
    pub(super) fn begin(&mut self, message: String) {
        (self.message, self.has_spoken) = (message, false);
    }

    /// Handles the end of a turn: sends the answer if it was not streamed.
    pub(super) fn handle_turn_end(&mut self, result: &TurnResult) {
        let text = result.response_text();
        if !self.has_spoken && !text.is_empty() {
            self.send_text(&text);
        }
        if let Some(words) = updates::refusal_message(result) {
            self.begin(format!("{}-refusal", result.turn_id));
            self.send_text(words);
        }
        self.calls.clear();
        self.begin(String::new());
    }

    /// Shows a runtime event.
    fn handle_runtime_event(&mut self, event: &RuntimeEvent) {
        match &event.kind {
            RuntimeEventKind::StepStarted { step_id, .. } => self.begin(step_id.clone()),
            kind @ RuntimeEventKind::ModelRetrying { .. } => {
                if let Some(notice) = retry_notice(kind) {
                    self.send_reasoning(&notice, None);
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
                self.calls
                    .insert(tool_call_id.clone(), ShownToolCall::new(&id));
                let call = ShownCall {
                    id,
                    tool: tool_name,
                    arguments,
                    workdir: &self.workdir,
                };
                self.send_update(wire::SessionUpdate::ToolCall(
                    call.initial_update(wire::ToolCallStatus::InProgress),
                ));
            }
            RuntimeEventKind::ToolProgress {
                tool_call_id,
                title,
                metadata,
                ..
            } => {
                let call = self.calls.get_mut(tool_call_id);
                let update = call.and_then(|call| call.progress_update(title, metadata));
                if let Some(update) = update {
                    self.send_update(wire::SessionUpdate::ToolCallUpdate(update));
                }
            }
            RuntimeEventKind::ToolCompleted {
                tool_call_id,
                step_id,
                status,
                shown,
                ..
            } => {
                self.end_call(
                    step_id,
                    tool_call_id,
                    updates::completed_update(*status, shown),
                );
                if let Some(plan) = updates::plan(&shown.metadata) {
                    self.send_update(wire::SessionUpdate::Plan(plan));
                }
            }
            RuntimeEventKind::ToolFailed {
                tool_call_id,
                step_id,
                error_message,
                ..
            } => {
                self.end_call(step_id, tool_call_id, updates::failed_update(error_message));
            }
            _ => {}
        }
    }

    /// Shows the end of a call.
    fn end_call(&mut self, step_id: &str, call_id: &str, fields: wire::ToolCallUpdateFields) {
        let shown = self.calls.remove(call_id).map(|call| call.id);
        let id = shown.unwrap_or_else(|| updates::call_id(step_id, call_id));
        self.send_update(wire::SessionUpdate::ToolCallUpdate(
            wire::ToolCallUpdate::new(id, fields),
        ));
    }
}
