//! Errors that providers report, in a status or inside an answer.

mod reported;
mod retry_after;

use goondan_core::ports::model::{ModelError, ModelErrorKind};

pub(crate) use reported::{ReportedError, find_error, read_error_body, status_of_code};
pub(crate) use retry_after::retry_after;

/// Failure of one answer, without the names of server and Model.
#[derive(Debug)]
pub(crate) enum ProviderError {
    /// The provider reports an error.
    Reported(ReportedError),
    /// An event is not JSON.
    Unreadable(serde_json::Error),
    /// The model or a filter refused to answer.
    Declined { reason: String, explanation: String },
    /// The provider gave up in the middle of the answer.
    Failed { reason: String, explanation: String },
}

impl ProviderError {
    /// Returns the error of an event that is JSON of another kind than the format defines.
    pub(crate) fn reported(message: impl Into<String>) -> Self {
        ProviderError::Reported(ReportedError {
            message: message.into(),
            ..ReportedError::default()
        })
    }
}

impl From<serde_json::Error> for ProviderError {
    fn from(error: serde_json::Error) -> Self {
        ProviderError::Unreadable(error)
    }
}

/// Returns the error of a Model that cannot be used as it is written.
pub(crate) fn configuration_error(
    message: impl Into<String>,
    suggestion: impl Into<String>,
) -> ModelError {
    with_suggestion(
        ModelError::new(ModelErrorKind::Configuration, message),
        suggestion,
    )
}

/// Returns the error of a Model whose key is not set.
pub(crate) fn missing_key_error(
    message: impl Into<String>,
    suggestion: impl Into<String>,
) -> ModelError {
    with_suggestion(ModelError::new(ModelErrorKind::NoKey, message), suggestion)
}

/// Returns the error of a connection that failed or broke.
pub(crate) fn connection_error(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Connection, message)
}

/// Returns the error of an answer that is not in the provider's format.
pub(crate) fn protocol_error(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Protocol, message)
}

/// Adds a suggestion to `error`.
pub(crate) fn with_suggestion(mut error: ModelError, suggestion: impl Into<String>) -> ModelError {
    error.suggestion = Some(suggestion.into());
    error
}
