//! What was said in a question to a model.

use crate::message::{MessageData, Part};

/// The words of a question to a model and of its answer, without secrets, for receivers of telemetry that are to have them. They
/// go along with an event while it is in memory; no log holds them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// The system prompt.
    pub system: Option<String>,
    /// The newest messages of the conversation, oldest first. Files have no data.
    pub input: Vec<MessageData>,
    /// How many older messages the model was given beside them.
    pub left_out: usize,
    /// The answer; empty where there was none.
    pub output: Vec<Part>,
}
