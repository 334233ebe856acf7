//! Errors of runtime processes.

use std::fmt::Display;

use goondan_core::ports::tool::ToolError;
use goondan_spec::{Code, shown};

/// Maximum number of characters of a process's own error output.
const MAX_SAID: usize = 600;

/// Creates the error for a process that did not start.
pub(crate) fn start(host: &str, why: impl Display) -> ToolError {
    ToolError::new(format!("the host of {host} was not started: {why}"))
        .code(Code::HOST_START)
        .suggest("Whoever runs the swarm can look with `gdn doctor` whether the runtime is there.")
}

/// Creates the error for a process that ended during a call.
pub(crate) fn died(host: &str, how: impl Display) -> ToolError {
    ToolError::new(format!(
        "the host of {host} ended while the call ran: {how}"
    ))
    .code(Code::HOST_DIED)
    .suggest("It is not known whether the call did anything. The next call starts the host again.")
}

/// Creates the error for a process that must wait before its restart.
pub(crate) fn down(host: &str, deaths: u32, seconds: u64) -> ToolError {
    ToolError::new(format!(
        "the host of {host} ended {deaths} times in a row and rests for {seconds} s"
    ))
    .code(Code::HOST_DOWN)
    .suggest("Use another tool, or try again after that.")
}

pub(crate) fn cancelled() -> ToolError {
    ToolError::new("the call was cancelled").code(Code::TOOL_CANCELLED)
}

/// Escapes a process's error output. Truncates it at the beginning, because the cause is usually at
/// the end.
pub(crate) fn said(text: &str) -> String {
    let text = shown::lines(text.trim()).to_string();
    let over = text.chars().count().saturating_sub(MAX_SAID);
    if over == 0 {
        text
    } else {
        format!("…{}", text.chars().skip(over).collect::<String>())
    }
}
