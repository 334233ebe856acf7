//! Agents of other programs: the Tools with `spec.a2a`, each of which asks one agent.
//!
//! Nobody is reached before the first call, so a start does not wait: what a model is offered is the same for every agent. The
//! card of an agent is looked at for where and how it is asked, and for nothing else. Headers and what agents say go to the
//! address in the YAML alone.

mod agent;
mod call;
mod card;
mod task;
mod wire;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use self::agent::Agent;
use self::call::Call;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{
    OpenError, ToolContext, ToolError, ToolHandler, ToolOutput, ToolSet, ToolSource,
};
use goondan_spec::kinds::{A2aAgent, Entry, Tool};
use goondan_spec::value::Environment;
use goondan_spec::{Code, Resource};

/// Opens tools with `spec.a2a`.
pub struct A2aTools {
    environment: Mutex<Environment>,
}

impl A2aTools {
    /// A source whose headers come from `environment`.
    pub fn new(environment: Environment) -> Self {
        A2aTools {
            environment: Mutex::new(environment),
        }
    }

    /// What value sources see from now on.
    pub fn set_environment(&self, environment: Environment) {
        *self
            .environment
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = environment;
    }
}

/// An error about the agent of the Tool `name`.
fn error(code: Code, name: &str, what: impl std::fmt::Display) -> ToolError {
    ToolError::new(format!("the agent of Tool/{name} {what}")).code(code)
}

#[async_trait]
impl ToolSource for A2aTools {
    async fn open(&self, tool: &Resource<Tool>, _bundle_root: &Path) -> Result<ToolSet, OpenError> {
        let Entry::A2a(stated) = &tool.spec.entry else {
            return Err(OpenError::new(&tool.id, "it has no `spec.a2a`"));
        };
        let environment = self
            .environment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let agent = Agent::new(tool, stated, &environment)?;
        Ok(ToolSet {
            exports: vec![(A2aAgent::export(), Arc::new(Ask(agent)))],
        })
    }
}

/// The export of such a tool.
struct Ask(Agent);

#[async_trait]
impl ToolHandler for Ask {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, ToolError> {
        Call::new(&self.0, ctx, &input).run().await
    }

    /// Another address is another agent: nobody has agreed to that one.
    fn code(&self) -> Option<&str> {
        Some(&self.0.url)
    }
}
