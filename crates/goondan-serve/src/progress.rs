//! What is told of a turn while it runs, in a few words.

use goondan::event::{RuntimeEvent, RuntimeEventKind};
use goondan::notices::retry_notice;

/// The words for an event; `None` for one that is no progress.
pub(crate) fn words(event: &RuntimeEvent) -> Option<String> {
    let agent = &event.agent_name;
    match &event.kind {
        RuntimeEventKind::StepStarted { step_index, .. } => {
            Some(format!("{agent}: step {}", step_index + 1))
        }
        RuntimeEventKind::ToolCalled { tool_name, .. } => Some(format!("{agent}: {tool_name}")),
        RuntimeEventKind::ToolProgress { title, .. } if !title.is_empty() => {
            Some(format!("{agent}: {title}"))
        }
        RuntimeEventKind::ApprovalRequested { tool_name, .. } => {
            Some(format!("{agent}: {tool_name} waits for an approval"))
        }
        kind => retry_notice(kind).map(|notice| format!("{agent}: {notice}")),
    }
}
