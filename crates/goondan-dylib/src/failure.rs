//! Why a library could not be opened, before it is said which tool wanted it.

use goondan_core::ports::tool::OpenError;
use goondan_spec::ResourceId;
use serde::{Deserialize, Serialize};

/// What went wrong and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// A sentence that stands alone.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) suggestion: Option<String>,
    /// The export that was asked for and is not there.
    pub(crate) export: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure { message: message.into(), suggestion: None, export: None }
    }

    #[must_use]
    pub(crate) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    #[must_use]
    pub(crate) fn about(mut self, export: &str) -> Self {
        self.export = Some(export.to_owned());
        self
    }

    pub(crate) fn of_tool(self, tool: &ResourceId) -> OpenError {
        OpenError { tool: tool.clone(), message: self.message, suggestion: self.suggestion, export: self.export }
    }
}
