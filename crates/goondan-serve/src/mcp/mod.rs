//! MCP server of a swarm: each agent is a tool that takes a message and returns an answer.
//!
//! The `rmcp` library handles the protocol revisions. An answer is the result of a turn that is on
//! disk. Events of its trace are reported as progress, cancelling the call cancels the turn, and
//! approval requests reach the user at the client.

mod call;
mod elicitation;
pub(crate) mod http_rules;
mod running_call;
mod server;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

use self::server::AgentsAsTools;
use crate::json_lines;
use crate::server_options::ServerLimits;
use crate::service::Service;

/// Connection to an MCP client failed.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the MCP client failed: {0}")]
pub struct McpError(String);

/// Idle timeout of a session in older protocol revisions. A turn can take many minutes.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Serves one client until it disconnects.
pub async fn serve(
    service: &Service,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), McpError> {
    json_lines::serve_json_lines(input, output, |input, output| {
        serve_lines(service, input, output)
    })
    .await
}

/// Same as [`serve`], with lines that are JSON.
async fn serve_lines(
    service: &Service,
    input: DuplexStream,
    output: DuplexStream,
) -> Result<(), McpError> {
    let ended = service.gateway().closed_token().child_token();
    let handshake =
        rmcp::service::serve_server_with_ct(AgentsAsTools(service.clone()), (input, output), ended)
            .await;
    let running = match handshake {
        Ok(running) => running,
        // The client disconnected before the handshake.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(McpError(error.to_string())),
    };
    running
        .waiting()
        .await
        .map(drop)
        .map_err(|error| McpError(error.to_string()))
}

/// Returns the endpoint of the HTTP server. Its caller checks host, origin and token.
pub(crate) fn endpoint(
    service: &Service,
    limits: ServerLimits,
) -> StreamableHttpService<AgentsAsTools, LocalSessionManager> {
    let mut sessions = SessionConfig::default();
    sessions.keep_alive = Some(SESSION_IDLE_TIMEOUT);
    let mut manager = LocalSessionManager::default();
    manager.session_config = sessions;
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(limits.body)
        .with_cancellation_token(service.gateway().closed_token().child_token());
    let service = service.clone();
    StreamableHttpService::new(
        move || Ok(AgentsAsTools(service.clone())),
        Arc::new(manager),
        config,
    )
}
