//! Errors of turns.

use goondan_core::event::TurnError;
use goondan_core::ports::store::StoreError;
use goondan_spec::Code;

pub(crate) fn cancelled_error() -> TurnError {
    TurnError::new(Code::TURN_CANCELLED, "the turn was cancelled")
}

/// Returns the error of a turn that could not be stored. The turn resumes at the next start.
pub(crate) fn store_failure_error(error: &StoreError) -> TurnError {
    if let StoreError::Damaged { .. } = error {
        return TurnError::new(Code::JOURNAL, error.to_string());
    }
    TurnError::new(Code::STORE, error.to_string()).suggest(
        "Free disk space or fix the permissions of the state directory; the turn resumes at the \
            next start, or when the instance receives another input",
    )
}
