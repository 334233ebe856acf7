//! Other agents, as a tool reaches them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::ToolContext;
use crate::wire::{
    AgentCatalog, AgentList, AgentRequest, JsonObject, ListRequest, RequestResult, SendRequest,
    SendResult, SpawnRequest, SpawnResult, SpawnedAgentInfo, ToolError, operation,
};

/// The agents of the running swarm. Errors carry the codes of the runtime, such as `AGENT_NOT_FOUND`.
pub struct AgentRuntime<'a> {
    ctx: &'a ToolContext,
}

impl<'a> AgentRuntime<'a> {
    pub(super) fn new(ctx: &'a ToolContext) -> Self {
        AgentRuntime { ctx }
    }

    /// Asks an agent and waits for its answer.
    ///
    /// # Errors
    ///
    /// No such agent, no answer in time, a failed turn, a circle of questions, or the end of this call.
    pub async fn request(&self, request: AgentRequest) -> Result<RequestResult, ToolError> {
        self.ask(operation::REQUEST, &request).await
    }

    /// Tells an agent something and does not wait for an answer.
    ///
    /// # Errors
    ///
    /// No such agent, or the end of this call.
    pub async fn send(&self, message: SendRequest) -> Result<SendResult, ToolError> {
        self.ask(operation::SEND, &message).await
    }

    /// Prepares an instance of a declared agent.
    ///
    /// # Errors
    ///
    /// No such agent, too many instances, or the end of this call.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<SpawnResult, ToolError> {
        self.ask(operation::SPAWN, &request).await
    }

    /// The instances that the calling agent spawned, or all.
    ///
    /// # Errors
    ///
    /// The end of this call.
    pub async fn list(&self, include_all: bool) -> Result<Vec<SpawnedAgentInfo>, ToolError> {
        let list: AgentList = self
            .ask(operation::LIST, &ListRequest { include_all })
            .await?;
        Ok(list.agents)
    }

    /// The agents of the swarm.
    ///
    /// # Errors
    ///
    /// The end of this call.
    pub async fn catalog(&self) -> Result<AgentCatalog, ToolError> {
        self.ask(operation::CATALOG, &JsonObject::new()).await
    }

    /// The same for functions that are not async.
    pub fn blocking(self) -> BlockingAgentRuntime<'a> {
        BlockingAgentRuntime(self)
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        name: &str,
        payload: &impl Serialize,
    ) -> Result<T, ToolError> {
        Ok(serde_json::from_value(self.ctx.ask(name, payload).await?)?)
    }
}

/// [`AgentRuntime`] for functions that are not async: each waits on its thread.
pub struct BlockingAgentRuntime<'a>(AgentRuntime<'a>);

impl BlockingAgentRuntime<'_> {
    /// See [`AgentRuntime::request`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn request(&self, request: AgentRequest) -> Result<RequestResult, ToolError> {
        pollster::block_on(self.0.request(request))
    }

    /// See [`AgentRuntime::send`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn send(&self, message: SendRequest) -> Result<SendResult, ToolError> {
        pollster::block_on(self.0.send(message))
    }

    /// See [`AgentRuntime::spawn`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn spawn(&self, request: SpawnRequest) -> Result<SpawnResult, ToolError> {
        pollster::block_on(self.0.spawn(request))
    }

    /// See [`AgentRuntime::list`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn list(&self, include_all: bool) -> Result<Vec<SpawnedAgentInfo>, ToolError> {
        pollster::block_on(self.0.list(include_all))
    }

    /// See [`AgentRuntime::catalog`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn catalog(&self) -> Result<AgentCatalog, ToolError> {
        pollster::block_on(self.0.catalog())
    }
}
