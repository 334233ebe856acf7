//! The scripted model (rule M6): answers come from a script instead of a network, so that everything runs without a key.
//!
//! [`ModelScript`] and [`ScriptReply`] are the format, [`ScriptedFactory`] puts replies in place of every Model (conformance cases
//! do), and `provider: scripted` reads a script from a Model resource.

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

/// How often each agent, or each instance with a list of its own, has asked. It outlives the clients that share it, so a script goes on where it was after a
/// reload or a restart of the swarm.
#[derive(Debug, Default)]
pub struct ScriptState {
    asked: Mutex<BTreeMap<String, usize>>,
}

impl ScriptState {
    /// How often `agent` has asked so far.
    pub fn asked(&self, agent: &str) -> usize {
        locked(&self.asked).get(agent).copied().unwrap_or(0)
    }

    /// Counts a call of `agent` and says which one it is, from 0.
    fn next(&self, agent: &str) -> usize {
        let mut asked = locked(&self.asked);
        let count = asked.entry(agent.to_owned()).or_default();
        *count += 1;
        *count - 1
    }
}

/// Every request that was made, in the order in which the calls began; also those that failed or were cut off.
#[derive(Debug, Default)]
pub struct RequestLog {
    requests: Mutex<Vec<ModelRequest>>,
}

impl RequestLog {
    /// All requests so far.
    pub fn all(&self) -> Vec<ModelRequest> {
        locked(&self.requests).clone()
    }

    /// The requests that `agent` made so far.
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

    /// A script says what its author wants.
    fn is_schema_sent(&self) -> bool {
        true
    }
}

/// Which part of a script a reply comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplySource {
    /// An agent's list: it is used once.
    List,
    /// A rule or the default: it may be used again and again.
    Rule,
}

impl ModelScript {
    /// The list that an instance takes its replies from: its own, else that of its agent.
    fn list_of(&self, instance: &InstanceId) -> String {
        let own = instance.to_string();
        if self.agents.contains_key(&own) {
            own
        } else {
            instance.agent.clone()
        }
    }

    /// The reply to the call at `position`: the list, then the rules, then the default.
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
    fn holds(&self, request: &ModelRequest, scene: &ReplyContext<'_>) -> bool {
        let spoke_last = request.messages.last().map(|message| message.data.role);
        self.agent
            .as_ref()
            .is_none_or(|agent| *agent == request.instance.agent)
            && self.role.is_none_or(|role| spoke_last == Some(role.into()))
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

fn exhausted(agent: &str, asked: usize) -> ModelError {
    let times = if asked == 1 {
        "once".to_owned()
    } else {
        format!("{asked} times")
    };
    configuration(
        format!(
            "the script of agent {agent} has no reply left (the agent called the model {times})"
        ),
        format!("add a reply under agents.{agent}, a matching rule, or a default to the script"),
    )
}

/// The data behind `mutex`. No code here panics while it holds a lock, so a poisoned one is still sound.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
