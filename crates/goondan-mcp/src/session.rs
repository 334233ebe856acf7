//! A server for callers outside of a swarm: commands, tests, benchmarks.

use std::sync::Arc;

use crate::call_scope::CallScope;
use crate::catalog::{CatalogToolKind, McpCatalog};
use crate::elicitation::ElicitationContext;
use crate::prompts::PromptInput;
use crate::resources;
use crate::server::McpServerHandle;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolOutput};

/// A server that is connected on demand.
pub struct McpSession {
    server: Arc<McpServerHandle>,
}

impl McpSession {
    /// Wraps the server for direct calls.
    pub(crate) fn new(server: Arc<McpServerHandle>) -> Self {
        McpSession { server }
    }

    /// Returns the server's catalog.
    ///
    /// # Errors
    ///
    /// Fails if the server is unreachable or does not answer.
    pub async fn catalog(&self) -> Result<Arc<McpCatalog>, HandlerError> {
        self.server.fetch_catalog().await
    }

    /// Calls the tool whose name on the server is `tool_name`.
    ///
    /// # Errors
    ///
    /// Every failure has a code of [`crate::codes`].
    pub async fn call(
        &self,
        tool_name: &str,
        arguments: JsonObject,
    ) -> Result<ToolOutput, HandlerError> {
        let kind = CatalogToolKind::Tool;
        self.server
            .call(
                &ElicitationContext::without_caller(CallScope::default()),
                kind,
                tool_name,
                arguments,
            )
            .await
    }

    /// Reads the resource `uri` in `arguments`, or lists one page of resources without it.
    ///
    /// # Errors
    ///
    /// Every failure has a code of [`crate::codes`].
    pub async fn read_resource(&self, arguments: JsonObject) -> Result<ToolOutput, HandlerError> {
        let kind = CatalogToolKind::Resources;
        self.server
            .call(
                &ElicitationContext::without_caller(CallScope::default()),
                kind,
                resources::READ_METHOD,
                arguments,
            )
            .await
    }

    /// Gets the prompt `name` with the words of a chat command as arguments.
    ///
    /// # Errors
    ///
    /// Fails if a required argument is missing, or if the server does not answer.
    pub async fn prompt(&self, name: &str, words: &str) -> Result<PromptInput, HandlerError> {
        self.server.get_prompt(name, words).await
    }

    /// Ends the connections of the server and waits until they have ended.
    pub async fn end(self) {
        self.server.end().await;
    }
}
