//! The end of a turn in OpenAI's terms.

use goondan::event::{FinishReason, TurnError, TurnResult};
use goondan::spec::Code;

/// The end of a turn that has an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The answer is complete.
    Complete,
    /// The answer or the turn reached a limit.
    Length,
    /// The model or a content filter declined to answer.
    Declined,
}

impl Outcome {
    /// Returns the end of a turn.
    ///
    /// # Errors
    /// The turn failed for another reason than a declined answer.
    pub(super) fn of(result: &TurnResult) -> Result<Self, &TurnError> {
        match &result.error {
            Some(_) if refusal(result).is_some() => Ok(Outcome::Declined),
            Some(error) => Err(error),
            None if result.model_finish_reason.is_some() => Ok(Outcome::Length),
            None if result.finish_reason == FinishReason::MaxSteps => Ok(Outcome::Length),
            None => Ok(Outcome::Complete),
        }
    }

    /// Returns the `finish_reason` of a chat completion.
    pub(super) fn finish_reason(self) -> &'static str {
        match self {
            Outcome::Complete => "stop",
            Outcome::Length => "length",
            Outcome::Declined => "content_filter",
        }
    }

    /// Returns the reason in the `incomplete_details` of a response.
    pub(super) fn incomplete_reason(self) -> Option<&'static str> {
        match self {
            Outcome::Complete => None,
            Outcome::Length => Some("max_output_tokens"),
            Outcome::Declined => Some("content_filter"),
        }
    }
}

/// Returns the error message of a turn whose model declined to answer. It contains the provider's words.
pub(super) fn refusal(result: &TurnResult) -> Option<&str> {
    let error = result.error.as_ref()?;
    let is_refusal = Code::find(&error.code) == Some(Code::MODEL_DECLINED);
    is_refusal.then_some(&*error.message)
}
