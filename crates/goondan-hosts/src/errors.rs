//! The errors of what goes wrong with a host.

use std::fmt::Display;

use goondan_core::ports::tool::ToolError;
use goondan_spec::{Code, shown};

/// Characters of what a host says about its own end.
const MAX_SAID: usize = 600;

/// The host did not come up.
pub(crate) fn start(host: &str, why: impl Display) -> ToolError {
    ToolError::new(format!("the host of {host} was not started: {why}"))
        .code(Code::HOST_START)
        .suggest("Whoever runs the swarm can look with `gdn doctor` whether the runtime is there.")
}

/// The host ended while a call ran.
pub(crate) fn died(host: &str, how: impl Display) -> ToolError {
    ToolError::new(format!(
        "the host of {host} ended while the call ran: {how}"
    ))
    .code(Code::HOST_DIED)
    .suggest("It is not known whether the call did anything. The next call starts the host again.")
}

/// The host is not started again yet.
pub(crate) fn down(host: &str, deaths: u32, seconds: u64) -> ToolError {
    ToolError::new(format!(
        "the host of {host} ended {deaths} times in a row and rests for {seconds} s"
    ))
    .code(Code::HOST_DOWN)
    .suggest("Use another tool, or try again after that.")
}

/// The call was cancelled.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new("the call was cancelled").code(Code::TOOL_CANCELLED)
}

/// The words of a host in an error: escaped, and cut at its beginning, for the end says why.
pub(crate) fn said(text: &str) -> String {
    let text = shown::lines(text.trim()).to_string();
    let over = text.chars().count().saturating_sub(MAX_SAID);
    if over == 0 {
        text
    } else {
        format!("…{}", text.chars().skip(over).collect::<String>())
    }
}
