//! A server for callers outside of a swarm: commands, tests, benchmarks.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::asker::Asker;
use crate::catalog::Catalog;
use crate::place::Place;
use crate::server::Server;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{ProgressSink, ToolError, ToolOutput};

/// A server that is connected on demand.
pub struct Session {
    server: Arc<Server>,
}

struct Nobody;

impl ProgressSink for Nobody {
    fn update(&self, _title: &str, _metadata: JsonObject) {}
}

impl Session {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Session { server }
    }

    /// Returns the server's catalog.
    ///
    /// # Errors
    ///
    /// Fails if the server is unreachable or does not answer.
    pub async fn catalog(&self) -> Result<Arc<Catalog>, ToolError> {
        self.server.reach().await
    }

    /// Calls a tool by the server's own name for it.
    ///
    /// # Errors
    ///
    /// Every failure has a code of [`crate::codes`].
    pub async fn call(&self, own: &str, arguments: JsonObject) -> Result<ToolOutput, ToolError> {
        let (progress, cancellation) = (Arc::new(Nobody), CancellationToken::new());
        self.server
            .call(
                &Asker {
                    place: Place::default(),
                    caller: None,
                    progress,
                    cancellation,
                },
                own,
                arguments,
            )
            .await
    }

    pub async fn end(self) {
        self.server.end().await;
    }
}
