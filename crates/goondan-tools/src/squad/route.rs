//! `squad__route`: assigns a task to an agent of the squad.

use goondan_core::JsonObject;
use goondan_core::agent_event::TurnTerms;
use goondan_core::ports::tool::{
    AgentEventInput, HandlerError, RequestOptions, SpawnOptions, ToolContext, ToolOutput,
};
use goondan_core::reserved_names::REQUEST_EVENT;
use goondan_spec::Code;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::routed_sessions::{AwaitedSession, RoutedSessionState};
use super::squad_directory::{SquadDirectory, plain_name, run_blocking};
use super::{SquadTools, calling_instance, failure_text, result};
use crate::tool_operation::ToolOperation;

/// Maximum number of bytes passed of a charter, a history or a context.
const MAX_CONTEXT_BYTES: usize = 64 * 1024;

/// Give work to an agent of the squad. It runs in a new session with the agent's charter and
/// history as instructions. Returns the answer; with `waitForResult: false`, it arrives later as a
/// message.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RouteWork {
    /// The agent; it must have a charter.
    #[schemars(length(min = 1))]
    target_agent: String,
    /// Task.
    #[schemars(length(min = 1))]
    task: String,
    /// More information.
    context: Option<String>,
    /// Wait for the answer, instead of getting it as a message later.
    #[serde(default = "default_true")]
    wait_for_result: bool,
    /// `urgent` work starts before queued work.
    #[serde(default)]
    priority: RoutePriority,
    /// Model resource to use instead of the agent's own.
    model: Option<String>,
}

/// What goes first.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum RoutePriority {
    #[default]
    Normal,
    Urgent,
}

impl ToolOperation for RouteWork {
    type Shared = SquadTools;

    async fn run(self, ctx: &ToolContext, squad: &SquadTools) -> Result<ToolOutput, HandlerError> {
        let folder = squad.squad_directory(ctx);
        let (target, context) = (self.target_agent.clone(), self.context.clone());
        let instructions =
            match run_blocking(move || build_instructions(&folder, &target, context.as_deref()))
                .await?
            {
                Ok(instructions) => instructions,
                Err(problem) => return Ok(result(Err(problem))),
            };
        squad.update_started_sessions(ctx).await?;
        let limit = squad.settings.max_concurrent;
        let Some(turn) = squad
            .sessions
            .open(calling_instance(ctx), &self.target_agent, limit)
        else {
            let problem = format!(
                "The limit of {limit} concurrent routed sessions is reached: route again when a \
                session is done (`squad__status` shows the active ones)."
            );
            return Ok(result(Err(problem)));
        };
        let answer = self.request_answer(ctx, squad, turn, instructions).await;
        squad.store_sessions(ctx).await?;
        match answer {
            Err(error) if error.code.as_deref() == Some(Code::TOOL_CANCELLED.as_str()) => {
                Err(error)
            }
            Err(error) => Ok(result(Err(format!(
                "Agent \"{}\" failed: {}",
                self.target_agent,
                failure_text(error)
            )))),
            Ok(text) => Ok(result(Ok(text))),
        }
    }
}

impl RouteWork {
    /// Opens the session, sends the task, and returns the text for the model.
    async fn request_answer(
        &self,
        ctx: &ToolContext,
        squad: &SquadTools,
        turn: AwaitedSession,
        instructions: String,
    ) -> Result<String, HandlerError> {
        let name = &self.target_agent;
        let catalog = ctx.runtime.catalog().await?;
        // Without a declared agent of that name, the caller's own definition plays the role.
        let agent = if catalog.available_agents.contains(name) {
            name
        } else {
            &catalog.self_agent
        };
        let options = SpawnOptions {
            cwd: Some(ctx.workdir.display().to_string()),
            ..SpawnOptions::default()
        };
        let session = ctx.runtime.spawn(agent, options).await?.instance_key;
        squad.sessions.name(&turn, &session);
        squad.store_sessions(ctx).await?;
        ctx.progress
            .update(&format!("Routing to {name}"), JsonObject::new());
        let event = AgentEventInput {
            event_type: Some(REQUEST_EVENT.to_owned()),
            input: self.task.clone(),
            instance_key: Some(session.clone()),
            metadata: JsonObject::from_iter([(
                "squadAgent".to_owned(),
                Value::from(name.as_str()),
            )]),
            instructions: Some(instructions),
            terms: TurnTerms {
                model: self
                    .model
                    .as_deref()
                    .map(|model| model.trim_start_matches("Model/").to_owned()),
                urgent: self.priority == RoutePriority::Urgent,
                ..TurnTerms::default()
            },
        };
        let options = RequestOptions {
            timeout_ms: None,
            async_: !self.wait_for_result,
        };
        let answer = ctx.runtime.request(agent, event, options).await?;
        if !self.wait_for_result {
            turn.set_end_state(RoutedSessionState::Started);
            return Ok(format!(
                "Agent \"{name}\" is working in session {session}: {}",
                self.task
            ));
        }
        turn.set_end_state(RoutedSessionState::Completed);
        Ok(match answer.response {
            Some(Value::String(text)) if !text.is_empty() => text,
            None | Some(Value::Null | Value::String(_)) => {
                format!("Agent \"{name}\" finished without an answer.")
            }
            Some(other) => other.to_string(),
        })
    }
}

/// Returns the input for the agent: its charter, its history and the context. Fails if the agent
/// has no charter.
fn build_instructions(
    folder: &SquadDirectory,
    agent: &str,
    context: Option<&str>,
) -> Result<String, String> {
    let agent = plain_name("an agent", agent)?;
    let path = format!("agents/{agent}/charter.md");
    let Some(charter) = folder.read(&path)? else {
        let agents = folder.folders_with("agents", "charter.md")?.join(", ");
        let agents = if agents.is_empty() {
            "none".to_owned()
        } else {
            agents
        };
        return Err(format!(
            "Agent \"{agent}\" was not found: there is no charter at {path}. Agents with a \
            charter: {agents}."
        ));
    };
    let history = folder
        .read(&format!("agents/{agent}/history.md"))?
        .unwrap_or_default();
    let mut text = format!(
        "You are {agent}, a Squad agent.\n\n## Charter\n\n{}",
        truncate_context(&charter)
    );
    for (heading, part) in [
        ("Project Knowledge", history.as_str()),
        ("Additional Context", context.unwrap_or_default()),
    ] {
        if !part.trim().is_empty() {
            text.push_str(&format!("\n\n## {heading}\n\n{}", truncate_context(part)));
        }
    }
    Ok(text)
}

/// Truncates a text to [`MAX_CONTEXT_BYTES`] bytes.
fn truncate_context(text: &str) -> &str {
    let text = text.trim();
    &text[..text.floor_char_boundary(MAX_CONTEXT_BYTES)]
}

fn default_true() -> bool {
    true
}
