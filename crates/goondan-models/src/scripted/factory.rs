//! Replies in place of every Model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use goondan_core::ports::model::{ModelClient, ModelError, ModelFactory};
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource};

use super::{ModelScript, RequestLog, ScriptReply, ScriptState, ScriptedClient};

/// Gives every Model the same script. Clones share positions and log: hand one to each restart of a swarm.
#[derive(Debug, Clone)]
pub struct ScriptedFactory {
    script: Arc<ModelScript>,
    state: Arc<ScriptState>,
    log: Arc<RequestLog>,
}

impl ScriptedFactory {
    /// Replies by agent, in the order of that agent's model calls.
    pub fn new(replies: BTreeMap<String, Vec<ScriptReply>>) -> Self {
        ScriptedFactory::from_script(ModelScript {
            agents: replies,
            ..ModelScript::default()
        })
    }

    /// A whole script, rules included.
    pub fn from_script(script: ModelScript) -> Self {
        ScriptedFactory {
            script: Arc::new(script),
            state: Arc::default(),
            log: Arc::default(),
        }
    }

    /// How far each agent is.
    pub fn state(&self) -> Arc<ScriptState> {
        Arc::clone(&self.state)
    }

    /// What the models were asked.
    pub fn requests(&self) -> Arc<RequestLog> {
        Arc::clone(&self.log)
    }
}

impl ModelFactory for ScriptedFactory {
    fn client(
        &self,
        _: &Resource<Model>,
        _: &Path,
        _: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        Ok(Arc::new(ScriptedClient {
            script: Arc::clone(&self.script),
            state: Arc::clone(&self.state),
            log: Some(Arc::clone(&self.log)),
        }))
    }
}
