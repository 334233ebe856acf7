//! Agents of other programs: Tools with `spec.a2a`, one agent each.
//!
//! No agent is contacted before its first call, so a start does not wait. Models see the same
//! schema for every agent. The agent card only supplies the endpoint and the protocol. Headers and
//! messages are sent only to the host in the YAML.

mod agent;
mod call;
mod card;
mod task;
mod wire;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use self::agent::RemoteAgent;
use self::call::A2aCall;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{
    EntryOpenError, HandlerError, ToolContext, ToolHandler, ToolOutput, ToolSet, ToolSource,
};
use goondan_spec::kinds::{A2aAgent, Tool, ToolEntry};
use goondan_spec::value::Environment;
use goondan_spec::{Code, Resource};

pub struct A2aTools {
    environment: Mutex<Environment>,
}

impl A2aTools {
    /// Creates a source that resolves headers from `environment`.
    pub fn new(environment: Environment) -> Self {
        A2aTools {
            environment: Mutex::new(environment),
        }
    }

    /// Replaces the environment of value sources.
    pub fn set_environment(&self, environment: Environment) {
        *self
            .environment
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = environment;
    }
}

/// Creates an error about the agent of the Tool `name`.
fn error(code: Code, name: &str, problem: impl std::fmt::Display) -> HandlerError {
    HandlerError::new(format!("the agent of Tool/{name} {problem}")).code(code)
}

#[async_trait]
impl ToolSource for A2aTools {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        _bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        let ToolEntry::A2a(stated) = &tool.spec.entry else {
            return Err(EntryOpenError::new(&tool.id, "it has no `spec.a2a`"));
        };
        let environment = self
            .environment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let agent = RemoteAgent::new(tool, stated, &environment)?;
        Ok(ToolSet {
            exports: vec![(A2aAgent::export(), Arc::new(A2aToolHandler(agent)))],
            unavailable: None,
        })
    }
}

/// The export of a tool with `spec.a2a`.
struct A2aToolHandler(RemoteAgent);

#[async_trait]
impl ToolHandler for A2aToolHandler {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        A2aCall::new(&self.0, ctx, &input).run().await
    }

    /// Identifies the agent by its URL, so that an approval does not cover another URL.
    fn code(&self) -> Option<&str> {
        Some(&self.0.url)
    }
}
