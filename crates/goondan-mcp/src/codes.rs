//! Errors of servers.

use std::fmt::Display;

use goondan_core::ports::tool::HandlerError;
use goondan_spec::{Code, untrusted_text};

/// Maximum number of characters of a server's own error text.
const MAX_ERROR_CHARS: usize = 600;

/// Creates an error about the server `name`.
pub(crate) fn error(code: Code, name: &str, problem: impl Display) -> HandlerError {
    HandlerError::new(format!("the MCP server of Tool/{name} {problem}")).code(code)
}

/// Returns the error of a cancelled call.
pub(crate) fn cancelled_error() -> HandlerError {
    HandlerError::new("the call was cancelled").code(Code::TOOL_CANCELLED)
}

/// Escapes a server's error text. Truncates it at the beginning, because the cause is usually at
/// the end.
pub(crate) fn escaped_error_text(text: &str) -> String {
    let text = untrusted_text::lines(text.trim()).to_string();
    let count = text.chars().count();
    match count.checked_sub(MAX_ERROR_CHARS) {
        Some(over) if over > 0 => format!("…{}", text.chars().skip(over).collect::<String>()),
        _ => text,
    }
}
