//! A result with more than its value.

use serde::Serialize;
use serde_json::Value;

use crate::wire::{Attachment, ToolError, ToolOutput};

/// What a tool returns where a value alone is not enough.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output(pub(super) ToolOutput);

impl Output {
    /// An output whose value is `value`.
    ///
    /// # Errors
    ///
    /// Where `value` has no JSON form, such as a map whose keys are not text.
    pub fn new(value: impl Serialize) -> Result<Self, ToolError> {
        Ok(Output(ToolOutput {
            output: serde_json::to_value(value)?,
            ..ToolOutput::default()
        }))
    }

    /// A short summary for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.0.title = Some(title.into());
        self
    }

    /// Data for people and programs, which the model does not see.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.metadata.insert(key.into(), value.into());
        self
    }

    /// Something that is not text, for models that can see it.
    #[must_use]
    pub fn attach(mut self, attachment: Attachment) -> Self {
        self.0.attachments.push(attachment);
        self
    }
}
