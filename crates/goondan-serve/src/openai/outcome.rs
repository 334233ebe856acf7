//! The end of a turn in OpenAI's terms.

use goondan::event::{FinishReason, TurnError, TurnResult};
use goondan::spec::Code;

/// End of a turn that has an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerOutcome {
    Complete,
    /// The answer or the turn reached a limit.
    Length,
    /// The model or a content filter declined to answer.
    Declined,
}

impl AnswerOutcome {
    /// Returns the end of a turn.
    ///
    /// # Errors
    /// The turn failed for another reason than a declined answer.
    pub(super) fn from_result(result: &TurnResult) -> Result<Self, &TurnError> {
        match &result.error {
            Some(_) if refusal_message(result).is_some() => Ok(AnswerOutcome::Declined),
            Some(error) => Err(error),
            None if result.model_finish_reason.is_some() => Ok(AnswerOutcome::Length),
            None if result.finish_reason == FinishReason::MaxSteps => Ok(AnswerOutcome::Length),
            None => Ok(AnswerOutcome::Complete),
        }
    }

    /// Finish reason of the chat protocol.
    pub(super) fn finish_reason(self) -> &'static str {
        match self {
            AnswerOutcome::Complete => "stop",
            AnswerOutcome::Length => "length",
            AnswerOutcome::Declined => "content_filter",
        }
    }

    /// Reason for an incomplete response; `None` for a complete response.
    pub(super) fn incomplete_reason(self) -> Option<&'static str> {
        match self {
            AnswerOutcome::Complete => None,
            AnswerOutcome::Length => Some("max_output_tokens"),
            AnswerOutcome::Declined => Some("content_filter"),
        }
    }
}

/// Returns the error message of a turn whose model declined to answer. It contains the provider's
/// message.
pub(super) fn refusal_message(result: &TurnResult) -> Option<&str> {
    let error = result.error.as_ref()?;
    let is_refusal = Code::find(&error.code) == Some(Code::MODEL_DECLINED);
    is_refusal.then_some(&*error.message)
}
