//! Prompt and answer of a model call, captured for traces.

use crate::message::{MessageData, MessagePart};

/// Prompt and answer of a model call, without secrets, for telemetry that captures content.
/// Attached to an event only in memory; never written to a log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CapturedContent {
    /// System prompt.
    pub system: Option<String>,
    /// Newest messages of the conversation, oldest first. Files have no data.
    pub input: Vec<MessageData>,
    /// Number of older messages in the model call that are omitted here.
    pub left_out: usize,
    /// The answer; empty if there was none.
    pub output: Vec<MessagePart>,
}
