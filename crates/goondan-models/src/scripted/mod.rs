//! The scripted model (rule M6): answers come from a script instead of a network, so no key is
//! needed.
//!
//! [`ModelScript`] and [`ScriptReply`] are the format. [`ScriptedFactory`] replaces every Model by
//! a script, as in conformance tests. `provider: scripted` reads a script from a Model resource.

mod factory;
mod play;
mod resource;
mod script;
mod template;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goondan_core::ids::InstanceId;
use goondan_core::ports::model::{ModelClient, ModelError, ModelRequest, ModelStream};

pub use factory::ScriptedFactory;
pub(crate) use resource::PlayingScripts;
pub use script::{
    LastRole, ModelScript, RawToolCall, ReplyError, RuleCondition, ScriptPattern, ScriptReply,
    ScriptRule, ScriptedCall,
};

use crate::errors::configuration;
use template::ReplyContext;

/// Number of model calls so far, by agent, or by instance if the script has a list for the
/// instance. Clients share the numbers, so a script continues after a reload or a restart of the
/// swarm.
#[derive(Debug, Default)]
pub struct ScriptState {
    asked: Mutex<BTreeMap<String, usize>>,
}

impl ScriptState {
    /// Returns the number of calls by `agent` so far.
    pub fn asked(&self, agent: &str) -> usize {
        locked(&self.asked).get(agent).copied().unwrap_or(0)
    }

    /// Counts a call by `agent` and returns its index, from 0.
    fn next(&self, agent: &str) -> usize {
        let mut counts = locked(&self.asked);
        let count = counts.entry(agent.to_owned()).or_default();
        *count += 1;
        *count - 1
    }
}

/// All requests in the order in which the calls began, including failed and cancelled calls.
#[derive(Debug, Default)]
pub struct RequestLog {
    requests: Mutex<Vec<ModelRequest>>,
}

impl RequestLog {
    /// Returns all requests so far.
    pub fn all(&self) -> Vec<ModelRequest> {
        locked(&self.requests).clone()
    }

    /// Returns the requests of `agent` so far.
    pub fn of(&self, agent: &str) -> Vec<ModelRequest> {
        locked(&self.requests)
            .iter()
            .filter(|request| request.instance.agent == agent)
            .cloned()
            .collect()
    }

    fn push(&self, request: &ModelRequest) {
        locked(&self.requests).push(request.clone());
    }
}

/// Plays one script.
struct ScriptedClient {
    script: Arc<ModelScript>,
    state: Arc<ScriptState>,
    log: Option<Arc<RequestLog>>,
}

#[async_trait]
impl ModelClient for ScriptedClient {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        if let Some(log) = &self.log {
            log.push(&request);
        }
        let scene = ReplyContext::of(&request);
        let list = self.script.list_of(&request.instance);
        let position = self.state.next(&list);
        let (reply, source) = self.script.reply(&request, &scene, &list, position)?;
        play::play(reply, &scene, &request, source == ReplySource::Rule).await
    }

    /// Returns true, because the script decides what its answers contain.
    fn is_schema_sent(&self) -> bool {
        true
    }
}

/// The part of a script that contains a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplySource {
    /// An agent's list; the reply is used once.
    List,
    /// A rule or the default; the reply may be used repeatedly.
    Rule,
}

impl ModelScript {
    /// Returns the name of the list with the replies for `instance`: its own list, else that of its
    /// agent.
    fn list_of(&self, instance: &InstanceId) -> String {
        let instance_list = instance.to_string();
        if self.agents.contains_key(&instance_list) {
            instance_list
        } else {
            instance.agent.clone()
        }
    }

    /// Returns the reply to the call with the index `position`: from the list, else from the rules,
    /// else the default. Fails if there is none.
    fn reply(
        &self,
        request: &ModelRequest,
        scene: &ReplyContext<'_>,
        list: &str,
        position: usize,
    ) -> Result<(&ScriptReply, ReplySource), ModelError> {
        let agent = &request.instance.agent;
        if let Some(reply) = self
            .agents
            .get(list)
            .and_then(|replies| replies.get(position))
        {
            return Ok((reply, ReplySource::List));
        }
        let rule = self
            .rules
            .iter()
            .find(|rule| rule.when.holds(request, scene))
            .map(|rule| &rule.reply);
        match rule.or(self.default.as_ref()) {
            Some(reply) => Ok((reply, ReplySource::Rule)),
            None => Err(exhausted(agent, position + 1)),
        }
    }
}

impl RuleCondition {
    /// Returns whether all conditions hold for the request.
    fn holds(&self, request: &ModelRequest, scene: &ReplyContext<'_>) -> bool {
        let last_role = request.messages.last().map(|message| message.data.role);
        self.agent
            .as_ref()
            .is_none_or(|agent| *agent == request.instance.agent)
            && self.role.is_none_or(|role| last_role == Some(role.into()))
            && self
                .contains
                .as_ref()
                .is_none_or(|text| scene.last().contains(text.as_str()))
            && self
                .matches
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(scene.last()))
    }
}

impl From<LastRole> for goondan_core::message::MessageRole {
    fn from(role: LastRole) -> Self {
        match role {
            LastRole::User => goondan_core::message::MessageRole::User,
            LastRole::Tool => goondan_core::message::MessageRole::Tool,
        }
    }
}

/// Returns the error of the `count`th call by `agent`, for which the script has no reply.
fn exhausted(agent: &str, count: usize) -> ModelError {
    let times = if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    };
    configuration(
        format!(
            "the script of agent {agent} has no reply left (the agent called the model {times})"
        ),
        format!("add a reply under agents.{agent}, a matching rule, or a default to the script"),
    )
}

/// Locks `mutex`. No code here panics while it holds a lock, so a poisoned lock is still sound.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
