//! `squad`: the team work of a Squad project in its `.squad/` directory, with one module per
//! export.
//!
//! Errors of the team, such as an unknown agent or skill, are results with `failure`, so that the
//! model can continue.

mod decide;
mod memory;
mod merge;
mod route;
mod routed_sessions;
mod skill;
mod squad_directory;
mod status;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus};
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::Permission::{Read, Write};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use self::routed_sessions::RoutedSessions;
use self::squad_directory::SquadDirectory;
use crate::builtin_tool::BuiltinTool;
use crate::tool_operation::{ToolExport, titled_output};

/// Maximum size of a result's text in bytes.
const MAX_SQUAD_RESULT_BYTES: usize = 10 * 1024;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "squad",
    about: "Team work in a Squad project: assigns work to agents with a charter, collects \
        decisions in an inbox and learnings in histories, and shares skills. All files are in \
        `.squad/`.",
    config: &[
        (
            "dir",
            "the squad directory, relative to the project (default `.squad`)",
        ),
        (
            "maxConcurrent",
            "the maximum number of concurrent routed sessions (default 8)",
        ),
    ],
    // Longer than the longest silence of a routed session.
    timeout: Some(Duration::from_secs(1_860)),
    open: |opening| {
        let squad = Arc::new(SquadTools {
            settings: opening.config()?,
            sessions: Arc::clone(&opening.state.squad_sessions),
        });
        Ok(vec![
            // The ids of the session and of its request are derived from the call id.
            ToolExport::new::<route::RouteWork>("route", &squad)
                .with_permission(Read)
                .idempotent(),
            ToolExport::new::<decide::ProposeDecision>("decide", &squad).with_permission(Write),
            // Merged proposals are not merged again.
            ToolExport::new::<merge::MergeDecisions>("merge", &squad)
                .with_permission(Write)
                .idempotent(),
            ToolExport::new::<memory::RecordLearning>("memory", &squad).with_permission(Write),
            ToolExport::new::<status::SquadStatus>("status", &squad).read_only(),
            ToolExport::new::<skill::SquadSkillTool>("skill", &squad)
                .with_permission(Read)
                .with_permission(Write),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SquadConfig {
    /// Directory of the squad, relative to the project.
    #[serde(default = "default_dir")]
    dir: String,
    /// Maximum number of concurrent routed sessions.
    #[serde(default = "default_concurrent")]
    max_concurrent: usize,
}

struct SquadTools {
    settings: SquadConfig,
    sessions: Arc<RoutedSessions>,
}

impl SquadTools {
    /// Returns the squad directory of the project.
    fn squad_directory(&self, ctx: &ToolContext) -> SquadDirectory {
        SquadDirectory::new(ctx.project_dir.clone(), self.settings.dir.clone())
    }

    /// Loads the stored sessions, and marks finished ones that no call waits for. If the host has
    /// no session list, they count as running.
    async fn update_started_sessions(&self, ctx: &ToolContext) -> Result<(), HandlerError> {
        if let Some(state) = ctx.runtime.state() {
            self.sessions.restore(state).await?;
        }
        let Some(power) = ctx.runtime.sessions() else {
            return Ok(());
        };
        let Ok(all) = power.sessions().await else {
            return Ok(());
        };
        let is_busy = |session: &&InstanceMeta| session.status == InstanceStatus::Processing;
        let busy: HashSet<&str> = all
            .iter()
            .filter(is_busy)
            .map(|session| session.instance_key.as_str())
            .collect();
        self.sessions.finish_idle(|key| busy.contains(key));
        Ok(())
    }

    /// Stores the sessions that the caller has routed, if the host has storage.
    async fn store_sessions(&self, ctx: &ToolContext) -> Result<(), HandlerError> {
        match ctx.runtime.state() {
            Some(state) => self.sessions.save(&calling_instance(ctx), state).await,
            None => Ok(()),
        }
    }
}

/// Returns the conversation that made the call.
fn calling_instance(ctx: &ToolContext) -> InstanceId {
    InstanceId::new(&*ctx.agent_name, &*ctx.instance_key)
}

/// Returns a squad result: success or failure, and the text for the model.
fn result(outcome: Result<String, String>) -> ToolOutput {
    let (kind, text) = match outcome {
        Ok(text) => ("success", text),
        Err(text) => ("failure", text),
    };
    titled_output(
        title(&text),
        json!({"resultType": kind, "textResultForLlm": truncate_result(text)}),
    )
}

/// Returns the title that users see: the first line, at most 80 characters.
fn title(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(80)
        .collect()
}

/// Truncates a text to [`MAX_SQUAD_RESULT_BYTES`] bytes, with a note about the rest.
fn truncate_result(text: String) -> Value {
    if text.len() <= MAX_SQUAD_RESULT_BYTES {
        return Value::from(text);
    }
    let end = text.floor_char_boundary(MAX_SQUAD_RESULT_BYTES);
    Value::from(format!(
        "{}\n[{} more bytes were cut.]",
        &text[..end],
        text.len() - end
    ))
}

/// Formats a tool error as a squad failure.
fn failure_text(error: HandlerError) -> String {
    match error.suggestion {
        Some(suggestion) => format!("{} ({suggestion})", error.message),
        None => error.message,
    }
}

fn default_dir() -> String {
    ".squad".to_owned()
}

fn default_concurrent() -> usize {
    8
}
