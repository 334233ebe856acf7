//! Short progress lines about a running turn.

use goondan::event::{RuntimeEvent, RuntimeEventKind};
use goondan::notices::retry_notice;

/// Returns the progress line of an event; `None` for events that show no progress.
pub(crate) fn progress_line(event: &RuntimeEvent) -> Option<String> {
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
            Some(format!("{agent}: {tool_name} waits for approval"))
        }
        kind => retry_notice(kind).map(|notice| format!("{agent}: {notice}")),
    }
}
