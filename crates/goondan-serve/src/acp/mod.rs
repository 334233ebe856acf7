//! The agent's side of the Agent Client Protocol: an editor talks to the swarm over a pipe.
//!
//! A session of the editor is a conversation of one agent: its id is the instance key, so that it can be loaded after a
//! restart. What the editor sees is what happens in that conversation, whoever has begun it.

mod desk;
mod permission;
mod prompt;
mod replay;
mod session;
mod updates;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema as wire;
use agent_client_protocol::{
    Agent, ByteStreams, Error, on_receive_notification, on_receive_request,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use self::desk::Desk;
use crate::service::Service;

/// Why the talk with an editor has failed.
#[derive(Debug, thiserror::Error)]
#[error("the talk with the editor has failed: {0}")]
pub struct AcpError(String);

/// What an editor asks for.
enum Ask {
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
    Cancel(wire::SessionId),
}

/// Talks to an editor until it goes. `agent` has the conversations; the swarm's entry agent by default.
pub async fn serve(
    service: &Service,
    agent: Option<String>,
    input: impl AsyncRead + Send + 'static,
    output: impl AsyncWrite + Send + 'static,
) -> Result<(), AcpError> {
    let (asks, mut asked) = mpsc::unbounded_channel();
    let version = service.inner.version.clone();
    // Each is handed on at once, in the order in which it came: what takes long must not keep the others waiting.
    let pass = |asks: &mpsc::UnboundedSender<Ask>, ask| {
        asks.send(ask)
            .map_err(|_| Error::internal_error().data("the server is ending"))
    };
    let (new, load, resume, list) = (asks.clone(), asks.clone(), asks.clone(), asks.clone());
    let (close, prompt, cancel) = (asks.clone(), asks.clone(), asks.clone());
    let agent_side = Agent
        .v1()
        .name("gdn")
        .on_receive_request(
            async move |_: wire::InitializeRequest, responder, _| {
                responder.respond(introduction(&version))
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
            async move |it, to, _| pass(&new, Ask::New(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&load, Ask::Load(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&resume, Ask::Resume(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&list, Ask::List(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&close, Ask::Close(it, to)),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |it, to, _| pass(&prompt, Ask::Prompt(it, to)),
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |it: wire::CancelNotification, _| pass(&cancel, Ask::Cancel(it.session_id)),
            on_receive_notification!(),
        );
    let transport = ByteStreams::new(output.compat_write(), input.compat());
    let ended = agent_side
        .connect_with(transport, async |editor| {
            Desk::new(service.clone(), agent, editor, asks)
                .run(&mut asked)
                .await;
            Ok(())
        })
        .await;
    ended.map_err(|error| AcpError(error.to_string()))
}

/// Who we are, and what we can do.
fn introduction(version: &str) -> wire::InitializeResponse {
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
