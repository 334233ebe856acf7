//! `self-restart`: reloads an edited project while the swarm is running.

use std::sync::Arc;

use goondan_core::ports::reload::{NotReloaded, Reloaded};
use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::Permission;
use goondan_spec::{Code, Diagnostic, render};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::define::{Export, Operation, titled};
use crate::table::Builtin;

/// Default reason.
const NO_REASON: &str = "tool:self-restart";

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "self-restart",
    about: "Reloads the project of the running swarm. Nothing is interrupted: tools change at the next step of a turn, \
            prompts, models and policies at the next turn. A project with errors changes nothing.",
    // Diagnostics should be complete.
    error_message_limit: Some(4000),
    open: |_| {
        Ok(vec![
            Export::new::<Request>("request", &Arc::new(())).needs(Permission::Execute),
        ])
    },
    ..Builtin::BLANK
};

/// Reload the swarm's project after its files were edited. Conversations and running turns continue. Your new tools are
/// available in your next step, a new prompt in your next turn. If the project has errors, you get them and nothing changes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The reason, for the log.
    reason: Option<String>,
}

impl Operation for Request {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let reason = self.reason.unwrap_or_else(|| NO_REASON.to_owned());
        let reloader = ctx.runtime.reloader().ok_or_else(|| {
            ToolError::new("this program can't reload the project while it runs")
                .code(Code::RELOAD_UNAVAILABLE)
        })?;
        tracing::info!(agent = ctx.agent_name, reason, "a reload is requested");
        let Reloaded { generation, plan } = reloader.reload().await.map_err(refused)?;
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
        Ok(titled(format!("Reloaded; generation {generation}"), output))
    }
}

fn refused(
    NotReloaded {
        generation,
        diagnostics,
    }: NotReloaded,
) -> ToolError {
    let errors: Vec<Diagnostic> = diagnostics
        .into_iter()
        .filter(Diagnostic::is_error)
        .collect();
    let message = format!(
        "the project has errors, so generation {generation} serves on:\n{}",
        render::short(&errors).trim_end()
    );
    ToolError::new(message)
        .code(Code::RELOAD_FAILED)
        .suggest("Correct the files at these places, then request it again.")
}
