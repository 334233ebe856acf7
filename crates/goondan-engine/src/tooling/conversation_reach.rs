//! Conversations that a model may name in a call: its callers, conversations that it started,
//! conversations that a rule names, and conversations with its own key if its callers have the same
//! key. Keys often stand for users, whose conversations are separate.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use goondan_core::ids::InstanceId;
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use goondan_spec::kinds::{PermissionAction, Permissions};
use goondan_spec::pattern;

use super::agents::AgentCalls;
use crate::delivery::access_end;

/// Arguments that name a conversation: by its key, and by its id.
const KEY_ARGUMENT: &str = "instanceKey";
const ID_ARGUMENT: &str = "session_id";

impl AgentCalls {
    /// Returns the conversations of `ids` that the call may name. Conversations that do not exist
    /// are free.
    ///
    /// A caller with another key limits the access to conversations of the own key: else an agent
    /// could read another user's conversations through a conversation that it started with that
    /// user's key. A chain that has lost its access to a conversation reaches only the own one.
    pub(super) async fn within_reach(
        &self,
        ids: Vec<InstanceId>,
    ) -> Result<Vec<InstanceId>, HandlerError> {
        let (own, callers) = (&self.facts.instance, &self.facts.callers);
        let has_own_key = |id: &InstanceId| id.instance_key == own.instance_key;
        let other_callers: Vec<&InstanceId> =
            callers.iter().filter(|id| !has_own_key(id)).collect();
        let is_same_user = other_callers.is_empty();
        let is_near = |id: &InstanceId| {
            id == own || callers.contains(id) || (is_same_user && has_own_key(id))
        };
        let Some(tool) = self
            .tool_name
            .as_deref()
            .filter(|_| !(is_same_user && ids.iter().all(is_near)))
        else {
            return Ok(ids);
        };
        let metas = self.instance_metas().await?;
        let released: HashMap<InstanceId, DateTime<Utc>> = metas
            .iter()
            .filter_map(|meta| Some((meta.id(), meta.released_at?)))
            .collect();
        let released_at = |id: &InstanceId| released.get(id).copied();
        if access_end::has_ended(callers, own, self.facts.since, released_at) {
            let is_reached = |id: &InstanceId| id == own || self.is_named(tool, id);
            return Ok(ids.into_iter().filter(is_reached).collect());
        }
        let owners: HashMap<InstanceId, Option<InstanceId>> = metas
            .into_iter()
            .map(|meta| (meta.id(), meta.owner))
            .collect();
        let has_started = |starter: &InstanceId, id: &InstanceId| {
            access_end::has_started(starter, id, |id| owners.get(id)?.clone())
        };
        let is_reached = |id: &InstanceId| {
            is_near(id)
                || !owners.contains_key(id)
                || has_started(own, id)
                || (has_own_key(id) && other_callers.iter().all(|caller| has_started(caller, id)))
                || self.is_named(tool, id)
        };
        Ok(ids.into_iter().filter(is_reached).collect())
    }

    /// Fails if a call without a key would use a conversation that is out of reach.
    pub(super) async fn check_default_key(&self, target: &str) -> Result<(), HandlerError> {
        let id = InstanceId::new(target, self.facts.instance.instance_key.as_str());
        if !self.within_reach(vec![id.clone()]).await?.is_empty() {
            return Ok(());
        }
        let message = format!("a caller has another key than `{id}`, and did not start it");
        Err(HandlerError::new(message).code(Code::TOOL_DENIED).suggest(
            "State the `instanceKey` of a conversation that a caller started, or a new key.",
        ))
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
        let allows_value = |argument: &str, value: &str| {
            let patterns = rule.args.get(argument);
            patterns.is_some_and(|expected| pattern::matches(expected, value))
        };
        rule.action == PermissionAction::Allow
            && rule
                .tool
                .as_ref()
                .is_none_or(|expected| pattern::matches(expected, tool))
            && (allows_value(KEY_ARGUMENT, &id.instance_key)
                || allows_value(ID_ARGUMENT, &id.to_string()))
    })
}
