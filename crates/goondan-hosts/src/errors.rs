//! Error constructors for runtime processes.

use std::fmt::Display;

use goondan_core::ports::tool::HandlerError;
use goondan_spec::{Code, untrusted_text};

/// Maximum number of characters of a process's own error output.
const MAX_ERROR_CHARS: usize = 600;

/// Creates the error for a process that did not start.
pub(crate) fn start(host: &str, why: impl Display) -> HandlerError {
    HandlerError::new(format!("cannot start the runtime process of {host}: {why}"))
        .code(Code::HOST_START)
        .suggest("To check that the runtime is installed, run `gdn doctor`.")
}

/// Creates the error for a process that ended during a call.
pub(crate) fn host_ended_error(host: &str, how: impl Display) -> HandlerError {
    HandlerError::new(format!(
        "the runtime process of {host} ended during the call: {how}"
    ))
    .code(Code::HOST_DIED)
    .suggest("The call may have had effects. The next call restarts the process.")
}

/// Returns the error of a call that was cancelled.
pub(crate) fn cancelled() -> HandlerError {
    HandlerError::new("the call was cancelled").code(Code::TOOL_CANCELLED)
}

/// Escapes a process's error output. Truncates it at the beginning, because the cause is usually at
/// the end.
pub(crate) fn escaped_output_tail(text: &str) -> String {
    let text = untrusted_text::lines(text.trim()).to_string();
    let over = text.chars().count().saturating_sub(MAX_ERROR_CHARS);
    if over == 0 {
        text
    } else {
        format!("…{}", text.chars().skip(over).collect::<String>())
    }
}
