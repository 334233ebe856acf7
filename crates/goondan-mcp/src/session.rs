//! A server for callers outside of a swarm: commands, tests, benchmarks.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::call_scope::CallScope;
use crate::catalog::McpCatalog;
use crate::elicitation::ElicitationContext;
use crate::server::McpServerHandle;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{ProgressSink, ToolError, ToolOutput};

/// A server that is connected on demand.
pub struct McpSession {
    server: Arc<McpServerHandle>,
}

struct DiscardedProgress;

impl ProgressSink for DiscardedProgress {
    fn update(&self, _title: &str, _metadata: JsonObject) {}
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
    pub async fn catalog(&self) -> Result<Arc<McpCatalog>, ToolError> {
        self.server.reach().await
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
    ) -> Result<ToolOutput, ToolError> {
        let (progress, cancellation) = (Arc::new(DiscardedProgress), CancellationToken::new());
        self.server
            .call(
                &ElicitationContext {
                    place: CallScope::default(),
                    caller: None,
                    progress,
                    cancellation,
                },
                tool_name,
                arguments,
            )
            .await
    }

    /// Ends the connections of the server and waits until they have ended.
    pub async fn end(self) {
        self.server.end().await;
    }
}
