//! Short ways to say why a model call failed.

use goondan_core::ports::model::{ModelError, ModelErrorKind};

/// The Model resource can't be used as it is; `suggestion` says what to write instead.
pub(crate) fn configuration(
    message: impl Into<String>,
    suggestion: impl Into<String>,
) -> ModelError {
    suggest(
        ModelError::new(ModelErrorKind::Configuration, message),
        suggestion,
    )
}

/// The key of a Model is not set; `suggestion` says which variable holds it.
pub(crate) fn no_key(message: impl Into<String>, suggestion: impl Into<String>) -> ModelError {
    suggest(ModelError::new(ModelErrorKind::NoKey, message), suggestion)
}

/// Nobody answers, or what answered broke off.
pub(crate) fn connection(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Connection, message)
}

/// The answer makes no sense.
pub(crate) fn protocol(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Protocol, message)
}

/// `error` with what to do about it.
pub(crate) fn suggest(mut error: ModelError, suggestion: impl Into<String>) -> ModelError {
    error.suggestion = Some(suggestion.into());
    error
}
