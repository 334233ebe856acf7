//! Reasons why a turn has no answer. All protocols use these texts.

use goondan::event::{FinishReason, TurnResult};

pub(crate) struct TurnFailureReport<'r> {
    /// An error code of gdn, or `cancelled`, `max_steps` or `error` for a turn without one.
    pub(crate) code: &'r str,
    pub(crate) message: &'r str,
    pub(crate) suggestion: Option<&'r str>,
    has_code: bool,
}

impl TurnFailureReport<'_> {
    /// `None` for a turn that ended with an answer.
    pub(crate) fn from_result(result: &TurnResult) -> Option<TurnFailureReport<'_>> {
        let new_report = |code, message| TurnFailureReport {
            code,
            message,
            suggestion: None,
            has_code: false,
        };
        match (&result.finish_reason, &result.error) {
            (FinishReason::TextResponse, _) => None,
            (FinishReason::Cancelled, _) => {
                Some(new_report("cancelled", "The turn was cancelled."))
            }
            (FinishReason::MaxSteps, _) => {
                Some(new_report("max_steps", "The agent reached its step limit."))
            }
            (FinishReason::Error, None) => Some(new_report("error", "The turn has failed.")),
            (FinishReason::Error, Some(error)) => {
                let suggestion = error.suggestion.as_deref();
                Some(TurnFailureReport {
                    code: &error.code,
                    message: &error.message,
                    suggestion,
                    has_code: true,
                })
            }
        }
    }

    /// Returns the failure as one string that begins with the code, if there is one.
    pub(crate) fn to_message(&self) -> String {
        let TurnFailureReport { code, message, .. } = self;
        let suggestion = self
            .suggestion
            .map(|words| format!(" {words}"))
            .unwrap_or_default();
        if self.has_code {
            format!("[{code}] {message}{suggestion}")
        } else {
            (*message).to_owned()
        }
    }
}
