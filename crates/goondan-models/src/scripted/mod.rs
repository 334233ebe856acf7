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

use crate::errors::configuration_error;
use template::ReplyContext;

/// Number of model calls so far, by agent, or by instance if the script has a list for the
/// instance. Clients share the numbers, so a script continues after a reload or a restart of the
/// swarm.
#[derive(Debug, Default)]
pub struct ScriptState {
    call_counts: Mutex<BTreeMap<String, usize>>,
}

impl ScriptState {
    /// Returns the number of calls by `agent` so far.
    pub fn call_count(&self, agent: &str) -> usize {
        lock(&self.call_counts).get(agent).copied().unwrap_or(0)
    }

    /// Counts a call by `agent` and returns its index, from 0.
    fn count_call(&self, agent: &str) -> usize {
        let mut counts = lock(&self.call_counts);
        let count = counts.entry(agent.to_owned()).or_default();
        let index = *count;
        *count += 1;
        index
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
        lock(&self.requests).clone()
    }

    /// Returns the requests of `agent` so far.
    pub fn of(&self, agent: &str) -> Vec<ModelRequest> {
        lock(&self.requests)
            .iter()
            .filter(|request| request.instance.agent == agent)
            .cloned()
            .collect()
    }

    fn push(&self, request: &ModelRequest) {
        lock(&self.requests).push(request.clone());
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
        let context = ReplyContext::for_request(&request);
        let list = self.script.list_of(&request.instance);
        let position = self.state.count_call(&list);
        let (reply, source) = self.script.reply(&request, &context, &list, position)?;
        play::play_reply(reply, &context, &request, source == ReplySource::Rule).await
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

    /// Returns the reply to a model call: entry `position` of the list `list_name` (see
    /// [`ModelScript::list_of`]), else the reply of the first rule that holds, else the default.
    /// Fails if there is none.
    fn reply(
        &self,
        request: &ModelRequest,
        context: &ReplyContext<'_>,
        list_name: &str,
        position: usize,
    ) -> Result<(&ScriptReply, ReplySource), ModelError> {
        let agent = &request.instance.agent;
        if let Some(reply) = self
            .agents
            .get(list_name)
            .and_then(|replies| replies.get(position))
        {
            return Ok((reply, ReplySource::List));
        }
        let rule = self
            .rules
            .iter()
            .find(|rule| rule.when.is_met(request, context))
            .map(|rule| &rule.reply);
        match rule.or(self.default.as_ref()) {
            Some(reply) => Ok((reply, ReplySource::Rule)),
            None => Err(exhausted_error(agent, position + 1)),
        }
    }
}

impl RuleCondition {
    /// Returns true if all conditions hold for the request.
    fn is_met(&self, request: &ModelRequest, context: &ReplyContext<'_>) -> bool {
        let last_role = request.messages.last().map(|message| message.data.role);
        self.agent
            .as_ref()
            .is_none_or(|agent| *agent == request.instance.agent)
            && self.role.is_none_or(|role| last_role == Some(role.into()))
            && self
                .contains
                .as_ref()
                .is_none_or(|text| context.last_text().contains(text.as_str()))
            && self
                .matches
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(context.last_text()))
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
fn exhausted_error(agent: &str, count: usize) -> ModelError {
    let times = if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    };
    configuration_error(
        format!(
            "the script of agent {agent} has no reply left (the agent called the model {times})"
        ),
        format!("add a reply under agents.{agent}, a matching rule, or a default to the script"),
    )
}

/// Locks `mutex`. No code here panics while it holds a lock, so a poisoned lock is still sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
