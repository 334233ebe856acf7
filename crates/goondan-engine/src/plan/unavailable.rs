//! Tools that an agent lists, but whose exports are missing for now: their MCP server has not
//! answered. The model is informed, so that it does not promise work with these tools.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::tooling::registry::TOOL_NAME_SEPARATOR;

/// A Tool resource without exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnavailableTool {
    /// Name of the resource.
    pub(crate) resource: String,
    /// Part of a sentence without text of a server.
    pub(crate) reason: Arc<str>,
}

impl UnavailableTool {
    /// Returns true if `tool_name` is a name that an export of the resource would have.
    pub(crate) fn has_export(&self, tool_name: &str) -> bool {
        tool_name
            .split_once(TOOL_NAME_SEPARATOR)
            .is_some_and(|(resource, _)| resource == self.resource)
    }
}

/// Appends the unavailable tools to the system prompt of an agent. The text depends only on the
/// generation, so that prompt caches stay valid.
pub(super) fn system_prompt(system: Option<String>, tools: &[UnavailableTool]) -> Option<String> {
    if tools.is_empty() {
        return system;
    }
    let mut text = system.unwrap_or_default();
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("These tools are unavailable now. If a task needs them, state this.");
    for UnavailableTool { resource, reason } in tools {
        let _ = write!(text, "\n- `{resource}{TOOL_NAME_SEPARATOR}*`: {reason}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_prompt_names_unavailable_tools() {
        let tools = [UnavailableTool {
            resource: "github".to_owned(),
            reason: Arc::from("the MCP server requires a login"),
        }];
        assert_eq!(
            system_prompt(Some("Be brief.".to_owned()), &tools).unwrap(),
            "Be brief.\n\nThese tools are unavailable now. If a task needs them, state this.\n\
             - `github__*`: the MCP server requires a login"
        );
        assert_eq!(system_prompt(None, &[]), None);
        assert!(tools[0].has_export("github__search") && !tools[0].has_export("github-x__search"));
    }
}
