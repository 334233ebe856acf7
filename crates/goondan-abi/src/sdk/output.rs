//! Results with additional data.

use serde::Serialize;
use serde_json::Value;

use crate::wire::{Attachment, ToolError, ToolOutput};

/// A tool result with more than a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output(pub(super) ToolOutput);

impl Output {
    /// Creates an output with `value`.
    ///
    /// # Errors
    ///
    /// Fails if `value` has no JSON form, such as a map whose keys are not strings.
    pub fn new(value: impl Serialize) -> Result<Self, ToolError> {
        Ok(Output(ToolOutput {
            output: serde_json::to_value(value)?,
            ..ToolOutput::default()
        }))
    }

    /// Sets a short summary for users.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.0.title = Some(title.into());
        self
    }

    /// Adds data for users and programs, which the model does not see.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.metadata.insert(key.into(), value.into());
        self
    }

    /// Adds an attachment that is not text, for models that accept it.
    #[must_use]
    pub fn attach(mut self, attachment: Attachment) -> Self {
        self.0.attachments.push(attachment);
        self
    }
}
