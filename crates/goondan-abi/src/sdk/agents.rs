//! Access to other agents for a tool.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::ToolContext;
use crate::wire::{
    AgentCatalog, AgentList, AgentRequest, AgentRequestResult, AgentSendResult, AgentSpawnResult,
    JsonObject, ListRequest, SendRequest, SpawnRequest, SpawnedAgentInfo, ToolError, operation,
};

/// The agents of the running swarm. Errors have the codes of the runtime, such as
/// `AGENT_NOT_FOUND`.
pub struct AgentRuntime<'a> {
    ctx: &'a ToolContext,
}

impl<'a> AgentRuntime<'a> {
    pub(super) fn new(ctx: &'a ToolContext) -> Self {
        AgentRuntime { ctx }
    }

    /// Sends a request to an agent and waits for its answer.
    ///
    /// # Errors
    ///
    /// Fails if the agent does not exist, its turn fails or times out, requests form a cycle, or
    /// this call ends.
    pub async fn request(&self, request: AgentRequest) -> Result<AgentRequestResult, ToolError> {
        self.request_host(operation::REQUEST, &request).await
    }

    /// Sends a message to an agent without waiting for an answer.
    ///
    /// # Errors
    ///
    /// Fails if the agent does not exist, or this call ends.
    pub async fn send(&self, message: SendRequest) -> Result<AgentSendResult, ToolError> {
        self.request_host(operation::SEND, &message).await
    }

    /// Creates an instance of a declared agent.
    ///
    /// # Errors
    ///
    /// Fails if the agent does not exist, too many instances exist, or this call ends.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<AgentSpawnResult, ToolError> {
        self.request_host(operation::SPAWN, &request).await
    }

    /// Lists the instances that the calling agent spawned, or all.
    ///
    /// # Errors
    ///
    /// Fails if this call ends.
    pub async fn list(&self, include_all: bool) -> Result<Vec<SpawnedAgentInfo>, ToolError> {
        let list: AgentList = self
            .request_host(operation::LIST, &ListRequest { include_all })
            .await?;
        Ok(list.agents)
    }

    /// Returns the agents of the swarm.
    ///
    /// # Errors
    ///
    /// Fails if this call ends.
    pub async fn catalog(&self) -> Result<AgentCatalog, ToolError> {
        self.request_host(operation::CATALOG, &JsonObject::new())
            .await
    }

    /// Returns the same interface for functions that are not async.
    pub fn blocking(self) -> BlockingAgentRuntime<'a> {
        BlockingAgentRuntime(self)
    }

    /// Sends the request `name` to the host and decodes its reply.
    async fn request_host<T: DeserializeOwned>(
        &self,
        name: &str,
        payload: &impl Serialize,
    ) -> Result<T, ToolError> {
        Ok(serde_json::from_value(
            self.ctx.request_host(name, payload).await?,
        )?)
    }
}

/// [`AgentRuntime`] for functions that are not async: each method blocks its thread.
pub struct BlockingAgentRuntime<'a>(AgentRuntime<'a>);

impl BlockingAgentRuntime<'_> {
    /// See [`AgentRuntime::request`].
    ///
    /// # Errors
    ///
    /// Fails like [`AgentRuntime::request`].
    pub fn request(&self, request: AgentRequest) -> Result<AgentRequestResult, ToolError> {
        pollster::block_on(self.0.request(request))
    }

    /// See [`AgentRuntime::send`].
    ///
    /// # Errors
    ///
    /// Fails like [`AgentRuntime::send`].
    pub fn send(&self, message: SendRequest) -> Result<AgentSendResult, ToolError> {
        pollster::block_on(self.0.send(message))
    }

    /// See [`AgentRuntime::spawn`].
    ///
    /// # Errors
    ///
    /// Fails like [`AgentRuntime::spawn`].
    pub fn spawn(&self, request: SpawnRequest) -> Result<AgentSpawnResult, ToolError> {
        pollster::block_on(self.0.spawn(request))
    }

    /// See [`AgentRuntime::list`].
    ///
    /// # Errors
    ///
    /// Fails like [`AgentRuntime::list`].
    pub fn list(&self, include_all: bool) -> Result<Vec<SpawnedAgentInfo>, ToolError> {
        pollster::block_on(self.0.list(include_all))
    }

    /// See [`AgentRuntime::catalog`].
    ///
    /// # Errors
    ///
    /// Fails like [`AgentRuntime::catalog`].
    pub fn catalog(&self) -> Result<AgentCatalog, ToolError> {
        pollster::block_on(self.0.catalog())
    }
}
