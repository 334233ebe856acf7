//! The swarm as an MCP server: each of its agents is a tool that takes a message and gives an answer.
//!
//! The revisions of the protocol are the library's matter. What is ours: an answer is the result of a turn that is on disk,
//! progress is what happens in its chain, a call that is given up cancels it, and a question of a tool reaches whoever sits at
//! the client.

mod call;
mod chain;
mod question;
mod server;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};

use self::server::AgentsAsTools;
use crate::server::Limits;
use crate::service::Service;

/// Why the talk with a client has failed.
#[derive(Debug, thiserror::Error)]
#[error("the talk with the MCP client has failed: {0}")]
pub struct McpError(String);

/// A session of the older revisions ends when nothing was heard in it for so long. A turn may well take some time.
const SILENCE: Duration = Duration::from_secs(60 * 60);

/// Talks to one client until it goes.
pub async fn serve(
    service: &Service,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), McpError> {
    let ended = service.inner.ended.child_token();
    let begun =
        rmcp::service::serve_server_with_ct(AgentsAsTools(service.clone()), (input, output), ended)
            .await;
    let running = match begun {
        Ok(running) => running,
        // It has gone before it has said who it is.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(McpError(error.to_string())),
    };
    running
        .waiting()
        .await
        .map(drop)
        .map_err(|error| McpError(error.to_string()))
}

/// The endpoint of the HTTP server. Hosts, origins and the token are checked before.
pub(crate) fn endpoint(
    service: &Service,
    limits: Limits,
) -> StreamableHttpService<AgentsAsTools, LocalSessionManager> {
    let mut sessions = SessionConfig::default();
    sessions.keep_alive = Some(SILENCE);
    let mut manager = LocalSessionManager::default();
    manager.session_config = sessions;
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(limits.body)
        .with_cancellation_token(service.inner.ended.child_token());
    let service = service.clone();
    StreamableHttpService::new(
        move || Ok(AgentsAsTools(service.clone())),
        Arc::new(manager),
        config,
    )
}
