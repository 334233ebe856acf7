//! A factory that replaces every Model by a script.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use goondan_core::ports::model::{ModelClient, ModelError, ModelFactory};
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource};

use super::{ModelScript, RequestLog, ScriptReply, ScriptState, ScriptedClient};

/// Gives every Model the same script. Clones share the positions and the log, so use a clone for
/// each restart of a swarm.
#[derive(Debug, Clone)]
pub struct ScriptedFactory {
    script: Arc<ModelScript>,
    state: Arc<ScriptState>,
    log: Arc<RequestLog>,
}

impl ScriptedFactory {
    /// Creates a factory with replies by agent, in the order of the agent's model calls.
    pub fn new(replies: BTreeMap<String, Vec<ScriptReply>>) -> Self {
        ScriptedFactory::from_script(ModelScript {
            agents: replies,
            ..ModelScript::default()
        })
    }

    /// Creates a factory with a script.
    pub fn from_script(script: ModelScript) -> Self {
        ScriptedFactory {
            script: Arc::new(script),
            state: Arc::default(),
            log: Arc::default(),
        }
    }

    /// Returns the positions of the agents in the script.
    pub fn state(&self) -> Arc<ScriptState> {
        Arc::clone(&self.state)
    }

    /// Returns the log of the requests.
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
