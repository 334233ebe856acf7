//! The errors of what goes wrong with a server.

use std::fmt::Display;

use goondan_core::ports::tool::ToolError;
use goondan_spec::{Code, shown};

/// Characters of what a server says about its own end.
const MAX_SAID: usize = 600;

/// An error about the server `name`.
pub(crate) fn error(code: Code, name: &str, what: impl Display) -> ToolError {
    ToolError::new(format!("the MCP server of Tool/{name} {what}")).code(code)
}

/// The error of a call that was cancelled.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new("the call was cancelled").code(Code::TOOL_CANCELLED)
}

/// The words of a server in an error: escaped, and cut at its beginning, for the end says why.
pub(crate) fn said(text: &str) -> String {
    let text = shown::lines(text.trim()).to_string();
    let count = text.chars().count();
    match count.checked_sub(MAX_SAID) {
        Some(over) if over > 0 => format!("…{}", text.chars().skip(over).collect::<String>()),
        _ => text,
    }
}
