//! Start of a connection: transport, handshake and protocol revision.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use goondan_core::ports::tool::{ApprovedFile, HandlerError};
use goondan_core::started_files::StartedFiles;
use goondan_spec::Code;
use goondan_spec::kinds::McpProtocol;
use rmcp::model::ProtocolVersion;
use rmcp::service::{QuitReason, RunningService, serve_client_with_lifecycle};
use rmcp::transport::{AuthClient, IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientLifecycleMode, RoleClient};
use tokio::sync::watch;

use super::McpConnection;
use super::connection_errors::{no_connection, store_challenge_if_any, too_slow};
use super::http_transport::http_transport;
use super::server_streams::{contents_now, stream};
use crate::call_scope::CallScope;
use crate::codes::{self, error};
use crate::definition::McpServerDefinition;
use crate::handler::McpClientHandler;
use crate::oauth::{self, TokenFile};
use crate::observed_transport::ObservedTransport;
use crate::spawn_port::{RunningProgram, ServerConnectOptions};
use crate::stdio_transport::{StdioLineTransport, StreamObservations};

impl McpConnection {
    /// Connects to a server and negotiates the protocol revision. `legacy`: the server
    /// used an older revision before, so its handshake is tried first. If the server refuses it, the
    /// other handshake follows. A program starts only if `approved_files` have their content.
    pub(crate) async fn connect(
        definition: &McpServerDefinition,
        options: &ServerConnectOptions,
        scope: &CallScope,
        approved_files: &Arc<[ApprovedFile]>,
        legacy: bool,
    ) -> Result<McpConnection, HandlerError> {
        let deadline = Instant::now() + definition.connect_timeout;
        let attempt = |legacy| {
            McpConnection::connect_once(
                definition,
                options,
                scope,
                approved_files,
                legacy,
                deadline,
            )
        };
        let failure = match attempt(legacy).await {
            Ok(connection) => return Ok(connection),
            Err(failure) => failure,
        };
        // A server may fail in any way at a request that its revision does not have.
        let is_refused = failure.code.as_deref() == Some(Code::MCP_CONNECT.as_str());
        if definition.protocol.is_some() || !is_refused {
            return Err(failure);
        }
        attempt(!legacy).await
    }

    /// Makes one attempt to connect, without a retry.
    async fn connect_once(
        definition: &McpServerDefinition,
        options: &ServerConnectOptions,
        scope: &CallScope,
        approved_files: &Arc<[ApprovedFile]>,
        legacy: bool,
        deadline: Instant,
    ) -> Result<McpConnection, HandlerError> {
        // A change during the start differs from this content, so it needs an approval.
        let program_contents = contents_now(definition).await;
        let handler = McpClientHandler::new(definition.elicitation);
        let mock = match &options.mocks {
            Some(mocks) => mocks.mock(definition.name()).await,
            None => None,
        };
        let stream = match mock {
            Some(stream) => Some(stream?),
            None => stream(definition, &*options.spawner, scope, approved_files).await?,
        };
        match stream {
            Some(stream) => {
                let observations = Arc::<StreamObservations>::default();
                if let Some(errors) = stream.errors {
                    tokio::spawn(Arc::clone(&observations).read(errors));
                }
                let is_probed = definition.protocol.is_none() && !legacy;
                let transport =
                    StdioLineTransport::new(stream.input, stream.output, Arc::clone(&observations))
                        .with_optional_discovery(is_probed);
                McpConnection::connect_over(
                    definition,
                    handler,
                    transport,
                    stream.program,
                    observations,
                    None,
                    legacy,
                    deadline,
                )
                .await
                .map(|mut connection| {
                    connection.program_contents = program_contents;
                    connection
                })
            }
            None => {
                McpConnection::connect_over_http(definition, handler, options, legacy, deadline)
                    .await
            }
        }
    }

    /// Connects to an MCP server over HTTP, with a token if the user is logged in.
    async fn connect_over_http(
        definition: &McpServerDefinition,
        handler: McpClientHandler,
        options: &ServerConnectOptions,
        legacy: bool,
        deadline: Instant,
    ) -> Result<McpConnection, HandlerError> {
        let (client, config) = http_transport(definition).await?;
        let tokens = TokenFile::for_server(options, definition);
        let manager = match &tokens {
            Some(tokens) => oauth::load_authorization(definition, tokens).await?,
            None => None,
        };
        match manager {
            Some(manager) => {
                let transport = StreamableHttpClientTransport::with_client(
                    AuthClient::new(client, manager),
                    config,
                );
                McpConnection::connect_over(
                    definition,
                    handler,
                    transport,
                    None,
                    Arc::default(),
                    tokens,
                    legacy,
                    deadline,
                )
                .await
            }
            None => {
                let transport = StreamableHttpClientTransport::with_client(client, config);
                McpConnection::connect_over(
                    definition,
                    handler,
                    transport,
                    None,
                    Arc::default(),
                    tokens,
                    legacy,
                    deadline,
                )
                .await
            }
        }
    }

    /// Returns the server's login challenge for an unauthenticated client, if it refuses one.
    pub(crate) async fn login_challenge(definition: &McpServerDefinition) -> Option<String> {
        let (client, config) = http_transport(definition).await.ok()?;
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let mode = lifecycle_mode(definition.protocol, /* legacy */ false);
        let serving = serve_client_with_lifecycle(
            McpClientHandler::new(definition.elicitation),
            transport,
            mode,
        );
        match tokio::time::timeout(definition.connect_timeout, serving)
            .await
            .ok()?
        {
            Ok(service) => {
                let _ = service.cancel().await;
                None
            }
            Err(failure) => failure.auth_challenge().map(str::to_owned),
        }
    }

    /// Connects through `transport`. `legacy` selects the `initialize` handshake. If the connection
    /// fails, ends `program`.
    #[expect(
        clippy::too_many_arguments,
        reason = "two callers, which have the parts of one connection"
    )]
    async fn connect_over<T, E, A>(
        definition: &McpServerDefinition,
        handler: McpClientHandler,
        transport: T,
        program: Option<Box<dyn RunningProgram>>,
        observations: Arc<StreamObservations>,
        tokens: Option<TokenFile>,
        legacy: bool,
        deadline: Instant,
    ) -> Result<McpConnection, HandlerError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let mode = lifecycle_mode(definition.protocol, legacy);
        let transport = ObservedTransport::new(transport.into_transport(), handler.clone());
        let serving = serve_client_with_lifecycle(handler.clone(), transport, mode);
        let service = match tokio::time::timeout_at(deadline.into(), serving).await {
            Ok(Ok(service)) => service,
            Ok(Err(failure)) => {
                store_challenge_if_any(tokens.as_ref(), failure.auth_challenge());
                let end = end_program(program).await;
                return Err(no_connection(definition, &failure, &observations, end));
            }
            Err(_) => {
                let end = end_program(program).await;
                return Err(too_slow(definition, &observations, end));
            }
        };
        if let Some(unknown) = unknown_revision(&service) {
            let _ = service.cancel().await;
            end_program(program).await;
            let what = format_args!("uses the unsupported protocol revision `{unknown}`");
            return Err(error(Code::MCP_CONNECT, definition.name(), what).suggest(UPDATE_ADVICE));
        }
        let (end_sender, ended) = watch::channel(None);
        let (peer, end) = (service.peer().clone(), service.cancellation_token());
        tokio::spawn(watch_over(service, program, end_sender));
        Ok(McpConnection {
            peer,
            handler,
            since: Instant::now(),
            deadline,
            program_contents: StartedFiles::default(),
            observations,
            token_file: tokens,
            end: Mutex::new(Some(end)),
            ended,
        })
    }
}

const UPDATE_ADVICE: &str = "Update the server, or gdn if the server is newer.";

/// Selects the handshake: the revision that the configuration pins, or else automatic detection.
/// `legacy` skips the detection.
fn lifecycle_mode(pinned: Option<McpProtocol>, legacy: bool) -> ClientLifecycleMode {
    let modern = || vec![ProtocolVersion::V_2026_07_28];
    match pinned {
        Some(McpProtocol::V2025_11_25) => ClientLifecycleMode::Initialize,
        Some(McpProtocol::V2026_07_28) => ClientLifecycleMode::Discover {
            preferred_versions: modern(),
        },
        None if legacy => ClientLifecycleMode::Initialize,
        None => ClientLifecycleMode::Auto {
            preferred_versions: modern(),
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    }
}

/// Returns the negotiated revision if it does not exist.
fn unknown_revision(service: &RunningService<RoleClient, McpClientHandler>) -> Option<String> {
    let revision = service.peer().peer_info()?.protocol_version.clone();
    (!ProtocolVersion::KNOWN_VERSIONS.contains(&revision))
        .then(|| codes::escaped_error_text(revision.as_str()))
}

/// Runs the service, and then ends the program.
async fn watch_over(
    service: RunningService<RoleClient, McpClientHandler>,
    program: Option<Box<dyn RunningProgram>>,
    end_sender: watch::Sender<Option<String>>,
) {
    let reason = service.waiting().await;
    let end_description = end_program(program).await;
    if let Ok(QuitReason::JoinError(panic)) | Err(panic) = reason
        && panic.is_panic()
    {
        tracing::error!("the task of an MCP connection panicked; the connection is closed");
    }
    // The receiver may already be dropped.
    let _ = end_sender.send(Some(end_description));
}

/// Ends the program and describes how it ended; an empty string without a program.
async fn end_program(program: Option<Box<dyn RunningProgram>>) -> String {
    match program {
        Some(mut program) => program.end().await,
        None => String::new(),
    }
}
