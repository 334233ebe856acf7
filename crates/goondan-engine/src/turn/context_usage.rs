//! Approximate size of the parts of a model request.

use crate::plan::AgentPlan;
use crate::tooling::registry::ToolCatalog;
use goondan_core::event::ContextUsage;
use goondan_core::message::MessagePart;
pub(crate) use goondan_core::ports::model::CHARACTERS_PER_TOKEN;
use goondan_core::ports::model::{ModelRequest, ToolDefinition};
use goondan_spec::kinds::SKILL_EXPORT;

/// Returns the approximate number of tokens of the system prompt and the tools.
pub(crate) fn overhead(agent: &AgentPlan, tools: &ToolCatalog) -> i64 {
    let system = agent
        .system
        .as_deref()
        .map_or(0, |text| text.chars().count());
    let tools: usize = tools.definitions().iter().map(ToolDefinition::tokens).sum();
    i64::try_from(system / CHARACTERS_PER_TOKEN + tools).unwrap_or(i64::MAX)
}

/// Returns the parts of a request to a model with this context window.
pub(crate) fn of_request(request: &ModelRequest, window: u64) -> ContextUsage {
    let system = request.system.as_deref().unwrap_or_default();
    let mut skills = skill_list(system).chars().count();
    let system = system.chars().count() - skills;
    let mut messages = 0;
    let mut results = 0;
    let skill_tool = format!("{}__{}", SKILL_EXPORT.0, SKILL_EXPORT.1);
    for part in request
        .messages
        .iter()
        .flat_map(|message| &message.data.content)
    {
        let sum = match part {
            MessagePart::ToolResult(result) if result.tool_name == skill_tool => &mut skills,
            MessagePart::ToolResult(_) => &mut results,
            _ => &mut messages,
        };
        *sum += count_characters(part);
    }
    let tools: usize = request.tools.iter().map(ToolDefinition::tokens).sum();
    let tokens = |characters: usize| (characters / CHARACTERS_PER_TOKEN) as u64;
    ContextUsage {
        window,
        system: tokens(system),
        skills: tokens(skills),
        tools: tools as u64,
        messages: tokens(messages),
        results: tokens(results),
    }
}

/// Returns the list of skills in a system prompt.
fn skill_list(system: &str) -> &str {
    let (start, end) = (system.find("<skills>"), system.rfind("</skills>"));
    start
        .zip(end)
        .and_then(|(start, end)| system.get(start..end))
        .unwrap_or_default()
}

/// Returns the number of characters of a part; 0 for files.
pub(crate) fn count_characters(part: &MessagePart) -> usize {
    match part {
        MessagePart::Text { text, .. } | MessagePart::Reasoning { text, .. } => {
            text.chars().count()
        }
        MessagePart::ToolCall(call) => {
            call.tool_name.len() + call.input.to_string().chars().count()
        }
        MessagePart::ToolResult(result) => {
            let output = result
                .output
                .as_ref()
                .map_or(0, |output| output.to_string().chars().count());
            output
                + result
                    .error
                    .as_ref()
                    .map_or(0, |error| error.message.chars().count())
        }
        MessagePart::Opaque { .. } | MessagePart::File(_) => 0,
    }
}
