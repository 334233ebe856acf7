//! Messages of a request while they are being made.

use std::collections::{BTreeSet, HashSet};

use goondan_core::message::{Message, ToolCall};
use serde_json::Value;

/// A message to which following content may be added.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DraftMessage {
    pub(crate) role: &'static str,
    pub(crate) content: Vec<Value>,
    /// Content of a following message with the same role joins this message.
    pub(crate) joins: bool,
}

/// The turn that the next model call continues, for a provider that returns signed reasoning. Tool
/// results and text after them belong to the turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum OpenTurn {
    /// The model call begins a turn.
    #[default]
    None,
    /// The turn contains reasoning of this provider.
    WithReasoning,
    /// The turn contains no reasoning of this provider at the place where the provider requires it.
    WithoutReasoning,
}

/// Place of a cache mark in the JSON of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheMark {
    /// Role of the messages that are marked.
    pub(crate) role: &'static str,
    /// Bytes between the mark and the end of the message, such as 3 for `}]}`.
    pub(crate) bytes_from_end: usize,
    pub(crate) text: &'static str,
}

/// Messages of a request. Only the last one is still open.
#[derive(Debug, Default)]
pub(crate) struct WireMessages {
    pub(crate) closed: Vec<DraftMessage>,
    pub(crate) open: Option<DraftMessage>,
    /// Attachments of tool results, which follow the last result of a step.
    files: Vec<Value>,
    /// System messages of a conversation whose format has no place for them among the messages.
    pub(crate) notes: Vec<String>,
    /// The open turn, for formats whose requests depend on it.
    pub(crate) open_turn: OpenTurn,
    pub(crate) call_ids: HashSet<String>,
    pub(crate) called_tools: BTreeSet<String>,
}

impl WireMessages {
    /// Adds content with `role`. If `joins` is true, it is added to the open message of the same
    /// role.
    pub(crate) fn push(&mut self, role: &'static str, content: Vec<Value>, joins: bool) {
        if content.is_empty() {
            return;
        }
        match &mut self.open {
            Some(open) if open.joins && joins && open.role == role => open.content.extend(content),
            _ => {
                self.closed.extend(self.open.take());
                self.open = Some(DraftMessage {
                    role,
                    content,
                    joins,
                });
            }
        }
    }

    /// Adds a system message to the notes, unless it is blank.
    pub(crate) fn add_note(&mut self, message: &Message) {
        let text = message.text();
        if !text.trim().is_empty() {
            self.notes.push(text);
        }
    }

    /// Keeps attachments of tool results until all results of the step are added.
    pub(crate) fn hold_files(&mut self, files: impl IntoIterator<Item = Value>) {
        self.files.extend(files);
    }

    /// Returns the attachments of the last tool results. Formats add them as content of the user
    /// before any message that is not a tool result.
    pub(crate) fn take_files(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.files)
    }

    /// Returns the attachments that follow the last message, if it is a tool result.
    pub(crate) fn files(&self) -> &[Value] {
        &self.files
    }

    /// Records the calls of an assistant message.
    pub(crate) fn record_calls(&mut self, message: &Message) {
        for ToolCall {
            tool_call_id,
            tool_name,
            ..
        } in message.tool_calls()
        {
            self.call_ids.insert(tool_call_id.clone());
            self.called_tools.insert(tool_name.clone());
        }
    }
}
