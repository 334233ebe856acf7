//! Conversations that a model may name in a call: those of its own key, those that it started, its
//! callers, and those that a rule names. Keys often stand for users, whose conversations are
//! separate.

use std::collections::HashMap;

use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::ToolError;
use goondan_spec::kinds::{PermissionAction, Permissions};
use goondan_spec::pattern;

use super::agents::AgentCalls;

/// Arguments that name a conversation: by its key, and by its id.
const KEY_ARGUMENT: &str = "instanceKey";
const ID_ARGUMENT: &str = "session_id";

/// Maximum number of ancestors of a conversation that are searched: the one that started it, the one
/// that started that one, and so on.
const MAX_OWNERS: usize = 64;

impl AgentCalls {
    /// Returns the conversations of `ids` that the call may name. Conversations that do not exist
    /// are free.
    pub(super) async fn within_reach(
        &self,
        ids: Vec<InstanceId>,
    ) -> Result<Vec<InstanceId>, ToolError> {
        let (own, callers) = (&self.facts.instance, &self.facts.callers);
        let is_near = |id: &InstanceId| id.instance_key == own.instance_key || callers.contains(id);
        let Some(tool) = self
            .tool_name
            .as_deref()
            .filter(|_| !ids.iter().all(is_near))
        else {
            return Ok(ids);
        };
        let metas = self.metas().await?;
        let owners: HashMap<InstanceId, Option<InstanceId>> = metas
            .into_iter()
            .map(|meta| (meta.id(), meta.owner))
            .collect();
        let is_started = |id: &InstanceId| {
            let owner = |id: &InstanceId| owners.get(id)?.clone();
            std::iter::successors(owner(id), owner)
                .take(MAX_OWNERS)
                .any(|owner| owner == *own)
        };
        let is_reached = |id: &InstanceId| {
            is_near(id) || !owners.contains_key(id) || is_started(id) || self.is_named(tool, id)
        };
        Ok(ids.into_iter().filter(is_reached).collect())
    }

    /// Returns true if a rule of the agent and of each caller allows the conversation by name.
    fn is_named(&self, tool: &str, id: &InstanceId) -> bool {
        let generation = self.engine.generation.load();
        let mut callers = self.facts.narrowing_agents();
        names(self.facts.agent.permissions.as_ref(), tool, id)
            && callers.all(|(caller, _)| {
                let caller = generation.agent(caller);
                caller.is_some_and(|caller| names(caller.permissions.as_ref(), tool, id))
            })
    }
}

/// Returns true if a rule allows the tool with an argument that names the conversation.
fn names(permissions: Option<&Permissions>, tool: &str, id: &InstanceId) -> bool {
    let rules = permissions.map(|permissions| permissions.rules.as_slice());
    rules.unwrap_or_default().iter().any(|rule| {
        let states = |argument: &str, value: &str| {
            let stated = rule.args.get(argument);
            stated.is_some_and(|expected| pattern::matches(expected, value))
        };
        rule.action == PermissionAction::Allow
            && rule
                .tool
                .as_ref()
                .is_none_or(|expected| pattern::matches(expected, tool))
            && (states(KEY_ARGUMENT, &id.instance_key) || states(ID_ARGUMENT, &id.to_string()))
    })
}
