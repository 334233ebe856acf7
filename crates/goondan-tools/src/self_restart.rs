//! `self-restart`: reloads an edited project while the swarm is running.

use std::sync::Arc;

use goondan_core::ports::reload::{ReloadFailure, ReloadSuccess};
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::Permission;
use goondan_spec::{Code, Diagnostic, render};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::builtin_tool::BuiltinTool;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

/// Default reason.
const DEFAULT_RELOAD_REASON: &str = "tool:self-restart";

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "self-restart",
    about: "Reloads the project of the running swarm without interrupting it. Tools change at the \
        next step; prompts, models and policies change at the next turn. If the project has \
        errors, nothing changes.",
    // Diagnostics should be complete.
    error_message_limit: Some(4000),
    open: |_| {
        Ok(vec![
            ToolExport::new::<ReloadRequest>("request", &Arc::new(()))
                .with_permission(Permission::Execute),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Reload the swarm's project after its files were edited. Conversations and running turns
/// continue. Your new tools are available in your next step, a new prompt in your next turn.
/// Project errors are returned, and nothing changes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReloadRequest {
    /// Reason, for the log.
    reason: Option<String>,
}

impl ToolOperation for ReloadRequest {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let reason = self
            .reason
            .unwrap_or_else(|| DEFAULT_RELOAD_REASON.to_owned());
        let reloader = ctx.runtime.reloader().ok_or_else(|| {
            HandlerError::new("this program can't reload the project while it runs")
                .code(Code::RELOAD_UNAVAILABLE)
        })?;
        tracing::info!(agent = ctx.agent_name, reason, "a reload is requested");
        let ReloadSuccess { generation, plan } = reloader.reload().await.map_err(reload_error)?;
        let output = json!({
            "ok": true,
            "restartRequested": true,
            "restartReason": reason,
            "generation": generation,
            "added": plan.added,
            "changed": plan.changed,
            "removed": plan.removed,
            "agents": plan.agents,
        });
        Ok(titled_output(
            format!("Reloaded; generation {generation}"),
            output,
        ))
    }
}

/// Returns the error of a rejected reload, with the diagnostics of the project.
fn reload_error(
    ReloadFailure {
        generation,
        diagnostics,
    }: ReloadFailure,
) -> HandlerError {
    let errors: Vec<Diagnostic> = diagnostics
        .into_iter()
        .filter(Diagnostic::is_error)
        .collect();
    let message = format!(
        "the project has errors, so generation {generation} stays active:\n{}",
        render::short(&errors).trim_end()
    );
    HandlerError::new(message)
        .code(Code::RELOAD_FAILED)
        .suggest("Correct these files, then request the reload again.")
}
