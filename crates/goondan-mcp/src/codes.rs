//! The codes of what goes wrong with a server, and the errors that carry them.

use std::fmt::Display;

use crate::core::ports::tool::ToolError;
use crate::core::spec::shown;

/// The server's program can't be started, or what it is told can't be had.
pub const START: &str = "E_MCP_START";
/// The server was reached, and does not speak MCP.
pub const CONNECT: &str = "E_MCP_CONNECT";
/// The server did not answer in time.
pub const TIMEOUT: &str = "E_MCP_TIMEOUT";
/// The server ended, or the connection to it, while it was at work.
pub const DIED: &str = "E_MCP_DIED";
/// The server failed a moment ago, and is not tried again yet.
pub const DOWN: &str = "E_MCP_DOWN";
/// The server wants somebody to log in.
pub const AUTH: &str = "E_MCP_AUTH";
/// The server has no such tool any more.
pub const NO_TOOL: &str = "E_MCP_NO_TOOL";
/// The server's tool says that it failed.
pub const TOOL: &str = "E_MCP_TOOL";
/// The server refuses the request, or its answer is none.
pub const PROTOCOL: &str = "E_MCP_PROTOCOL";
/// The server sends more than anybody wants to keep.
pub const TOO_LARGE: &str = "E_MCP_TOO_LARGE";
/// The server asks a person, and nobody is there.
pub const INPUT: &str = "E_MCP_INPUT";
/// The call was cancelled.
pub(crate) const CANCELLED: &str = "E_TOOL_CANCELLED";

/// Characters of what a server says about its own end.
const MAX_SAID: usize = 600;

/// An error about the server `name`.
pub(crate) fn error(code: &str, name: &str, what: impl Display) -> ToolError {
    ToolError::new(format!("the MCP server of Tool/{name} {what}")).code(code)
}

/// The error of a call that was cancelled.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new("the call was cancelled").code(CANCELLED)
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
