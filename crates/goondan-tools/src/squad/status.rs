//! `squad__status`: the state of the routed sessions.

use std::collections::HashSet;

use chrono::Utc;
use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use super::routed_sessions::RoutedSessionRecord;
use super::{SquadTools, result};
use crate::agents::retain_reachable;
use crate::tool_operation::ToolOperation;

/// Show the sessions of routed work: `active` (the caller waits for the answer), `started` (the
/// answer arrives as a message) and, on request, `completed` and `error`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SquadStatus {
    /// Show only this agent's sessions.
    agent_name: Option<String>,
    /// Include sessions that have ended.
    #[serde(default)]
    include_destroyed: bool,
}

impl ToolOperation for SquadStatus {
    type Shared = SquadTools;

    async fn run(self, ctx: &ToolContext, squad: &SquadTools) -> Result<ToolOutput, HandlerError> {
        squad.update_started_sessions(ctx).await?;
        let is_wanted = |session: &RoutedSessionRecord| {
            (self.include_destroyed || session.state.is_open())
                && self
                    .agent_name
                    .as_ref()
                    .is_none_or(|name| *name == session.agent)
        };
        let sessions: Vec<RoutedSessionRecord> = squad
            .sessions
            .records()
            .into_iter()
            .filter(is_wanted)
            .collect();
        let id = |session: &RoutedSessionRecord| {
            InstanceId::new(session.agent.as_str(), session.key.as_str())
        };
        let reached =
            retain_reachable(ctx, sessions.iter().collect(), |session| id(session)).await?;
        let reached: HashSet<InstanceId> = reached.into_iter().map(id).collect();
        let line = |session: &RoutedSessionRecord| line(session, reached.contains(&id(session)));
        let text = match (&self.agent_name, sessions.as_slice()) {
            (Some(name), []) => format!("There are no active sessions for agent \"{name}\"."),
            (None, []) => "There are no active agent sessions.".to_owned(),
            (_, sessions) => {
                format!(
                    "**Sessions ({}):**{}",
                    sessions.len(),
                    sessions.iter().map(line).collect::<String>()
                )
            }
        };
        Ok(result(Ok(text)))
    }
}

/// Formats a session for the list. Shows its key only if the conversation `is_reached`: a key often
/// names a user.
fn line(session: &RoutedSessionRecord, is_reached: bool) -> String {
    let key = is_reached.then(|| format!(" session={}", session.key));
    let seconds_since = |time: chrono::DateTime<Utc>| (Utc::now() - time).num_seconds().max(0);
    format!(
        "\n- **{}** [{}]{} age={}s idle={}s",
        session.agent,
        session.state.name(),
        key.unwrap_or_default(),
        seconds_since(session.opened),
        seconds_since(session.changed),
    )
}
