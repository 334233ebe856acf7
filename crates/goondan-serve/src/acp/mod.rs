//! Agent side of the Agent Client Protocol (ACP): an editor talks to the swarm over a pipe.
//!
//! A session of the editor is a conversation of one agent. The session id is the conversation key,
//! so the session can be loaded after a restart. The editor receives all events of the
//! conversation, including those of other clients.

mod commands;
mod permission;
mod prompt;
mod replay;
mod session;
mod session_manager;
#[cfg(test)]
mod tests;
mod updates;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema as wire;
use agent_client_protocol::{
    Agent, ByteStreams, Error, on_receive_notification, on_receive_request,
};
use goondan::Input;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tokio_util::sync::CancellationToken;

pub use self::prompt::resource_text;
use self::session_manager::SessionManager;
use crate::json_lines;
use crate::service::Service;

/// Connection to an editor failed.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the editor failed: {0}")]
pub struct AcpError(String);

/// Requests of an editor.
enum EditorRequest {
    New(wire::NewSessionRequest, Responder<wire::NewSessionResponse>),
    Load(
        wire::LoadSessionRequest,
        Responder<wire::LoadSessionResponse>,
    ),
    Resume(
        wire::ResumeSessionRequest,
        Responder<wire::ResumeSessionResponse>,
    ),
    List(
        wire::ListSessionsRequest,
        Responder<wire::ListSessionsResponse>,
    ),
    Close(
        wire::CloseSessionRequest,
        Responder<wire::CloseSessionResponse>,
    ),
    Prompt(wire::PromptRequest, Responder<wire::PromptResponse>),
    Expanded(ExpandedPrompt),
    Cancel(wire::SessionId),
}

/// A prompt whose chat command an MCP server has answered.
struct ExpandedPrompt {
    session: wire::SessionId,
    /// Input of the turn; `None` if the prompt was cancelled.
    input: Option<Result<Box<Input>, Error>>,
    responder: Responder<wire::PromptResponse>,
    cancellation: CancellationToken,
}

/// Serves an editor until it disconnects. `agent` has the conversations. Default: the swarm's entry
/// agent.
pub async fn serve(
    service: &Service,
    agent: Option<String>,
    input: impl AsyncRead + Send + 'static,
    output: impl AsyncWrite + Send + 'static,
) -> Result<(), AcpError> {
    json_lines::serve_json_lines(input, output, |input, output| {
        serve_lines(service, agent, input, output)
    })
    .await
}

/// Same as [`serve`], with lines that are JSON.
async fn serve_lines(
    service: &Service,
    agent: Option<String>,
    input: DuplexStream,
    output: DuplexStream,
) -> Result<(), AcpError> {
    let (requests, mut received_requests) = mpsc::unbounded_channel();
    let version = service.inner.version.clone();
    // Handlers only forward each request, in order of arrival: a slow request must not block the
    // others.
    let pass = |requests: &mpsc::UnboundedSender<EditorRequest>, ask| {
        requests
            .send(ask)
            .map_err(|_| Error::internal_error().data("the server is stopping"))
    };
    let (new, load, resume, list) = (
        requests.clone(),
        requests.clone(),
        requests.clone(),
        requests.clone(),
    );
    let (close, prompt, cancel) = (requests.clone(), requests.clone(), requests.clone());
    let agent_side = Agent
        .v1()
        .name("gdn")
        .on_receive_request(
            async move |_: wire::InitializeRequest, responder, _| {
                responder.respond(initialize_response(&version))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: wire::AuthenticateRequest, responder, _| {
                responder.respond(wire::AuthenticateResponse::new())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&new, EditorRequest::New(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&load, EditorRequest::Load(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&resume, EditorRequest::Resume(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&list, EditorRequest::List(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&close, EditorRequest::Close(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&prompt, EditorRequest::Prompt(it, to)),
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |it: wire::CancelNotification, _| {
                pass(&cancel, EditorRequest::Cancel(it.session_id))
            },
            on_receive_notification!(),
        );
    let transport = ByteStreams::new(output.compat_write(), input.compat());
    let ended = agent_side
        .connect_with(transport, async |editor| {
            SessionManager::new(service.clone(), agent, editor, requests)
                .run(&mut received_requests)
                .await;
            Ok(())
        })
        .await;
    ended.map_err(|error| AcpError(error.to_string()))
}

/// Returns the agent's name and capabilities.
fn initialize_response(version: &str) -> wire::InitializeResponse {
    let prompts = wire::PromptCapabilities::new()
        .image(true)
        .embedded_context(true);
    let sessions = wire::SessionCapabilities::new()
        .list(wire::SessionListCapabilities::new())
        .resume(wire::SessionResumeCapabilities::new())
        .close(wire::SessionCloseCapabilities::new());
    let abilities = wire::AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(prompts)
        .session_capabilities(sessions);
    wire::InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(abilities)
        .agent_info(wire::Implementation::new("gdn", version))
}
