//! Connection to an MCP server: use and end.

mod connecting;
mod connection_errors;
mod http_transport;
mod server_streams;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use goondan_core::ports::tool::HandlerError;
use goondan_core::started_files::StartedFiles;
use goondan_spec::Code;
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, SubscriptionFilter};
use rmcp::service::{
    Peer, PeerRequestOptions, RequestHandle, RunningServiceCancellationToken, ServiceError,
};
use tokio::sync::watch;

use self::connection_errors::{
    RETRY_ADVICE, TIMEOUT_ADVICE, error_chain, is_too_large, store_challenge_if_any, too_much,
    wants_login,
};
pub(crate) use self::server_streams::contents_now;
use crate::catalog::McpCatalog;
use crate::codes::{self, error};
use crate::definition::McpServerDefinition;
use crate::handler::McpClientHandler;
use crate::listing;
use crate::oauth::TokenFile;
use crate::prompts::{self, CatalogPrompt};
use crate::stdio_transport::{
    ConnectionFault, OVERSIZED_ANSWER, StreamObservations, UNREADABLE_ANSWER,
};

/// An open connection. Dropping it closes the connection and ends the program.
pub(crate) struct McpConnection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) handler: McpClientHandler,
    /// Time of connecting.
    pub(crate) since: Instant,
    /// Time until which the server must have started and listed its tools.
    deadline: Instant,
    /// Content of the program's files at its start, by path.
    pub(crate) program_contents: StartedFiles,
    observations: Arc<StreamObservations>,
    /// File for the login challenge of a server that refuses a request; `None` for a local program.
    token_file: Option<TokenFile>,
    end: Mutex<Option<RunningServiceCancellationToken>>,
    /// Description of the end, once the connection has ended.
    ended: watch::Receiver<Option<String>>,
}

impl Drop for McpConnection {
    fn drop(&mut self) {
        self.stop();
    }
}

impl McpConnection {
    /// Returns true if the connection is no longer usable.
    pub(crate) fn is_dead(&self) -> bool {
        self.peer.is_transport_closed() || self.ended.borrow().is_some()
    }

    /// Waits until the connection and its program have ended.
    pub(crate) async fn wait_for_end(&self) {
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    /// Returns a receiver that reports the end of the connection. Its value is `None` until then, and
    /// later describes how the program ended.
    pub(crate) fn end_receiver(&self) -> watch::Receiver<Option<String>> {
        self.ended.clone()
    }

    /// Closes the connection and waits until it has ended.
    pub(crate) async fn end(&self) {
        self.stop();
        self.wait_for_end().await;
    }

    /// Requests the end of the connection without waiting for it.
    fn stop(&self) {
        let end = self
            .end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        end.into_iter()
            .for_each(RunningServiceCancellationToken::cancel);
    }

    /// Returns true if the protocol revision begins with a handshake.
    pub(crate) fn is_legacy(&self) -> bool {
        self.peer
            .peer_info()
            .is_some_and(|info| info.protocol_version.has_initialize())
    }

    /// Subscribes to changes of the tool list and the prompt list of the server. Returns `None` for a
    /// protocol revision with `initialize`, which needs no subscription, and for a server that reports
    /// no changes.
    pub(crate) async fn listen(&self) -> Option<rmcp::service::Subscription> {
        let info = self.peer.peer_info()?;
        let (tools, prompts) = (&info.capabilities.tools, &info.capabilities.prompts);
        let tools = tools.as_ref().and_then(|tools| tools.list_changed);
        let prompts = prompts.as_ref().and_then(|prompts| prompts.list_changed);
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = tools.filter(|is_reported| *is_reported);
        filter.prompts_list_changed = prompts.filter(|is_reported| *is_reported);
        let is_empty = filter
            .tools_list_changed
            .or(filter.prompts_list_changed)
            .is_none();
        if self.is_legacy() || is_empty {
            return None;
        }
        self.peer.listen(filter).await.ok()
    }

    /// Fetches the tools of the server. The first contact shares one deadline with the start of the
    /// server.
    pub(crate) async fn catalog(
        &self,
        definition: &McpServerDefinition,
        is_first: bool,
    ) -> Result<McpCatalog, HandlerError> {
        let now = Instant::now();
        // A repeated attempt on a connection that stays has a deadline of its own.
        let deadline = match is_first && now < self.deadline {
            true => self.deadline,
            false => now + definition.connect_timeout,
        };
        let listing = tokio::time::timeout_at(deadline.into(), listing::list_tools(&self.peer));
        let listing = match listing.await {
            Ok(Ok(listing)) => listing,
            Ok(Err(failure)) => return Err(self.to_tool_error(definition, &failure)),
            Err(_) => {
                let what = format_args!(
                    "did not list its tools within {} s",
                    definition.connect_timeout.as_secs()
                );
                return Err(
                    error(Code::MCP_TIMEOUT, definition.name(), what).suggest(TIMEOUT_ADVICE)
                );
            }
        };
        let prompts = self.prompts(deadline).await;
        let prompts = prompts.map_err(|failure| self.to_tool_error(definition, &failure))?;
        let info = self.peer.peer_info();
        let protocol = info
            .as_ref()
            .map(|info| info.protocol_version.to_string())
            .unwrap_or_default();
        let has_resources = info
            .as_ref()
            .is_some_and(|info| info.capabilities.resources.is_some());
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        let server = server
            .map(|server| format!("{} {}", server.name, server.version))
            .unwrap_or_default();
        Ok(
            McpCatalog::new(definition, &protocol, server.trim(), listing, has_resources)
                .with_prompts(prompts),
        )
    }

    /// Fetches the prompts of the server. A server that refuses or does not answer has none.
    ///
    /// # Errors
    ///
    /// Fails if the connection ends.
    async fn prompts(&self, deadline: Instant) -> Result<Vec<CatalogPrompt>, ServiceError> {
        let info = self.peer.peer_info();
        if info.is_none_or(|info| info.capabilities.prompts.is_none()) {
            return Ok(Vec::new());
        }
        match tokio::time::timeout_at(deadline.into(), prompts::list(&self.peer)).await {
            Ok(Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)) | Err(_) => {
                Ok(Vec::new())
            }
            Ok(listed) => listed,
        }
    }

    /// Sends a request without waiting for its answer.
    pub(crate) async fn send(
        &self,
        request: ClientRequest,
    ) -> Result<RequestHandle<RoleClient>, ServiceError> {
        self.peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
    }

    /// Converts a failure to an error for the caller.
    pub(crate) fn to_tool_error(
        &self,
        definition: &McpServerDefinition,
        failure: &ServiceError,
    ) -> HandlerError {
        let name = definition.name();
        if failure.is_authorization_required() || failure.auth_challenge().is_some() {
            store_challenge_if_any(self.token_file.as_ref(), failure.auth_challenge());
            return wants_login(name);
        }
        match failure {
            ServiceError::McpError(refusal) if refusal.message == UNREADABLE_ANSWER => error(
                Code::MCP_PROTOCOL,
                name,
                format_args!("returned {UNREADABLE_ANSWER}"),
            ),
            ServiceError::McpError(refusal) if refusal.message == OVERSIZED_ANSWER => error(
                Code::MCP_TOO_LARGE,
                name,
                format_args!("returned {OVERSIZED_ANSWER}"),
            )
            .suggest("Request less data per call."),
            ServiceError::McpError(refusal) => {
                let text = codes::escaped_error_text(&refusal.message);
                error(
                    Code::MCP_PROTOCOL,
                    name,
                    format_args!("refused the request: {text} ({})", refusal.code.0),
                )
            }
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                self.exit_error(definition)
            }
            ServiceError::TransportSend(cause)
                if self.is_dead() && cause.error.to_string().contains("closed") =>
            {
                self.exit_error(definition)
            }
            ServiceError::TransportSend(cause) if is_too_large(cause.error.as_ref()) => {
                too_much(name, ConnectionFault::LongLine)
            }
            ServiceError::TransportSend(cause) => {
                let text = codes::escaped_error_text(&error_chain(cause.error.as_ref()));
                error(
                    Code::MCP_CONNECT,
                    name,
                    format_args!("cannot be reached: {text}"),
                )
                .suggest(RETRY_ADVICE)
            }
            other => error(
                Code::MCP_PROTOCOL,
                name,
                format_args!("returned {UNREADABLE_ANSWER}: {other}"),
            ),
        }
    }

    /// Returns the error for a connection that ended.
    fn exit_error(&self, definition: &McpServerDefinition) -> HandlerError {
        let name = definition.name();
        if let Some(fatal) = self.observations.fatal_fault() {
            return too_much(name, fatal);
        }
        let how = self.ended.borrow().clone().filter(|how| !how.is_empty());
        let how = how.map(|how| format!(" ({how})")).unwrap_or_default();
        let what = format_args!(
            "ended{how} while handling a request{}",
            self.observations.program_output()
        );
        let suggestion =
            "The effect of the call is unknown. The next call starts the server again.";
        error(Code::MCP_DIED, name, what).suggest(suggestion)
    }
}
