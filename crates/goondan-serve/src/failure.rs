//! Why a turn has no answer, in words that are the same behind each door.

use goondan::event::{FinishReason, TurnResult};

/// Why a turn has no answer.
pub(crate) struct Failure<'r> {
    /// One of our codes; or `cancelled`, `max_steps` or `error` where there is none.
    pub(crate) code: &'r str,
    pub(crate) message: &'r str,
    pub(crate) suggestion: Option<&'r str>,
    has_code: bool,
}

impl Failure<'_> {
    /// `None` for a turn that has ended with an answer.
    pub(crate) fn of(result: &TurnResult) -> Option<Failure<'_>> {
        let plain = |code, message| Failure {
            code,
            message,
            suggestion: None,
            has_code: false,
        };
        match (&result.finish_reason, &result.error) {
            (FinishReason::TextResponse, _) => None,
            (FinishReason::Cancelled, _) => Some(plain("cancelled", "The turn was cancelled.")),
            (FinishReason::MaxSteps, _) => {
                Some(plain("max_steps", "The agent has used up its steps."))
            }
            (FinishReason::Error, None) => Some(plain("error", "The turn has failed.")),
            (FinishReason::Error, Some(error)) => {
                let suggestion = error.suggestion.as_deref();
                Some(Failure {
                    code: &error.code,
                    message: &error.message,
                    suggestion,
                    has_code: true,
                })
            }
        }
    }

    /// As one text, which begins with the code.
    pub(crate) fn words(&self) -> String {
        let Failure { code, message, .. } = self;
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
