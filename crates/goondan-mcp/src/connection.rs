//! A connection to a server: opened, used, and closed.

use goondan_spec::Code;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientRequest, ProtocolVersion, SubscriptionFilter};
use rmcp::service::{
    ClientInitializeError, Peer, PeerRequestOptions, QuitReason, RequestHandle, RunningService,
    RunningServiceCancellationToken, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{AuthClient, IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientLifecycleMode, RoleClient};
use tokio::sync::watch;

use crate::call_scope::CallScope;
use crate::catalog::McpCatalog;
use crate::codes::{self, error};
use crate::definition::{McpServerDefinition, ServerTransport};
use crate::eager_stream_transport::EagerStreamClient;
use crate::handler::McpClientHandler;
use crate::http;
use crate::listing;
use crate::oauth::{self, TokenFile};
use crate::observed_transport::ObservedTransport;
use crate::prompts::{self, CatalogPrompt};
use crate::spawn_port::{
    McpServerProgram, ProgramStreams, RunningProgram, ServerConnectOptions, ServerSpawner,
};
use crate::stdio_transport::{
    ConnectionFault, OVERSIZED_ANSWER, StdioLineTransport, StreamObservations, UNREADABLE_ANSWER,
};
use goondan_core::ports::tool::{ApprovedFile, HandlerError};
use goondan_core::started_files::StartedFiles;
use goondan_spec::kinds::McpProtocol;

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
    /// Stores the server's login requirements.
    tokens: Option<TokenFile>,
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
        let stand_in = match &options.stand_ins {
            Some(stand_ins) => stand_ins.stand_in(definition.name()).await,
            None => None,
        };
        let stream = match stand_in {
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
            None => McpConnection::over_web(definition, handler, options, legacy, deadline).await,
        }
    }

    /// Connects to an MCP server over HTTP, with a token if the user is logged in.
    async fn over_web(
        definition: &McpServerDefinition,
        handler: McpClientHandler,
        options: &ServerConnectOptions,
        legacy: bool,
        deadline: Instant,
    ) -> Result<McpConnection, HandlerError> {
        let (client, config) = http_transport(definition).await?;
        let tokens = TokenFile::for_server(&options.folder, definition);
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
    /// Connects over `transport` and performs the handshake.
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
                record_challenge(tokens.as_ref(), failure.auth_challenge());
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
            tokens,
            end: Mutex::new(Some(end)),
            ended,
        })
    }

    /// Returns true if the connection is no longer usable.
    pub(crate) fn is_dead(&self) -> bool {
        self.peer.is_transport_closed() || self.ended.borrow().is_some()
    }

    /// Waits until the connection and its program have ended.
    pub(crate) async fn wait_for_end(&self) {
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    /// Returns a receiver for the end of the connection. The value is `None` until then;
    /// afterwards, it describes how the program ended.
    pub(crate) fn end_of(&self) -> watch::Receiver<Option<String>> {
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
            record_challenge(self.tokens.as_ref(), failure.auth_challenge());
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

const TIMEOUT_ADVICE: &str = "The swarm operator can raise `connectTimeoutMs` in `spec.mcp`.";
const UPDATE_ADVICE: &str = "Update the server, or gdn if the server is newer.";
const RETRY_ADVICE: &str = "Check the server and retry; `gdn mcp list --connect` shows the error.";

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

/// Returns the current content of the program's files.
pub(crate) async fn contents_now(definition: &McpServerDefinition) -> StartedFiles {
    let definition = definition.clone();
    let reading = tokio::task::spawn_blocking(move || definition.program_contents());
    reading.await.unwrap_or_default()
}

/// Opens the stream of a program or a socket; `None` for a server that is reached by URL.
async fn stream(
    definition: &McpServerDefinition,
    spawner: &dyn ServerSpawner,
    scope: &CallScope,
    approved_files: &Arc<[ApprovedFile]>,
) -> Result<Option<ProgramStreams>, HandlerError> {
    match &definition.way {
        ServerTransport::Program {
            command,
            args,
            env,
            folder,
        } => {
            let program = McpServerProgram {
                command: command.clone(),
                args: args.clone(),
                env: env.clone(),
                folder: folder.clone(),
                project: definition.project.clone(),
                config: definition.config.clone(),
                sandboxes: scope.sandboxes.clone(),
                workdir: match scope.sandboxes.is_empty() {
                    true => folder.clone(),
                    false => scope.workdir.clone(),
                },
                approved_files: Arc::clone(approved_files),
            };
            let failed = |cause: HandlerError| HandlerError {
                message: format!(
                    "the MCP server of Tool/{} cannot be started: {}",
                    definition.name(),
                    cause.message
                ),
                code: Some(
                    cause
                        .code
                        .filter(|code| *code == Code::TOOL_SANDBOX || *code == Code::TOOL_DENIED)
                        .unwrap_or_else(|| Code::MCP_START.to_string()),
                ),
                suggestion: cause
                    .suggestion
                    .or_else(|| Some(install_suggestion(command))),
                ..cause
            };
            spawner.start(&program).await.map(Some).map_err(failed)
        }
        ServerTransport::Socket(path) => connect_socket(definition, path).await.map(Some),
        ServerTransport::Http { .. } => Ok(None),
    }
}

/// Suggestion for a command that does not exist.
fn install_suggestion(command: &str) -> String {
    format!("The swarm operator can install `{command}` or correct `command` in `spec.mcp`.")
}

/// Connects to the Unix socket of a server.
#[cfg(unix)]
async fn connect_socket(
    definition: &McpServerDefinition,
    path: &std::path::Path,
) -> Result<ProgramStreams, HandlerError> {
    let connecting = tokio::time::timeout(
        definition.connect_timeout,
        tokio::net::UnixStream::connect(path),
    );
    let connected = connecting
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    let stream = connected.map_err(|cause| {
        error(
            Code::MCP_CONNECT,
            definition.name(),
            format_args!("cannot be reached on {}: {cause}", path.display()),
        )
        .suggest("Start the server that listens on this socket.")
    })?;
    let (input, output) = stream.into_split();
    Ok(ProgramStreams {
        input: Box::new(input),
        output: Box::new(output),
        errors: None,
        program: None,
    })
}

#[cfg(not(unix))]
async fn connect_socket(
    definition: &McpServerDefinition,
    _path: &std::path::Path,
) -> Result<ProgramStreams, HandlerError> {
    Err(error(
        Code::MCP_CONNECT,
        definition.name(),
        "uses a Unix socket, which this system does not support",
    ))
}

/// Returns the HTTP client and transport configuration for an MCP server that is reached by URL.
async fn http_transport(
    definition: &McpServerDefinition,
) -> Result<
    (
        EagerStreamClient<reqwest::Client>,
        StreamableHttpClientTransportConfig,
    ),
    HandlerError,
> {
    let name = definition.name();
    let ServerTransport::Http { url, headers } = &definition.way else {
        return Err(error(Code::MCP_CONNECT, name, "has no URL"));
    };
    let client = http::client().await;
    let client = client.map_err(|cause| {
        error(
            Code::MCP_CONNECT,
            name,
            format_args!("cannot be reached: {cause}"),
        )
    })?;
    let mut header_map = HashMap::new();
    for (header, value) in headers {
        let pair = HeaderName::try_from(header.as_str())
            .ok()
            .zip(HeaderValue::from_str(value).ok());
        let (header, mut value) = pair.ok_or_else(|| {
            error(
                Code::MCP_START,
                name,
                format_args!("has the invalid header `{header}`"),
            )
            .suggest("Correct `headers` in `spec.mcp`.")
        })?;
        value.set_sensitive(true);
        header_map.insert(header, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(header_map)
        .reinit_on_expired_session(true);
    Ok((EagerStreamClient::new(client), config))
}

/// Returns the error for a failed connection attempt. `end` describes how the program ended; it may
/// be empty.
fn no_connection(
    definition: &McpServerDefinition,
    failure: &ClientInitializeError,
    observations: &StreamObservations,
    end: String,
) -> HandlerError {
    let name = definition.name();
    if failure.is_authorization_required() || failure.auth_challenge().is_some() {
        return wants_login(name);
    }
    if let Some(fatal) = observations.fatal_fault() {
        return too_much(name, fatal);
    }
    let how = if end.is_empty() {
        String::new()
    } else {
        format!(" ({end})")
    };
    let why = match failure {
        ClientInitializeError::ConnectionClosed(_) => {
            format!("ended{how} without any output")
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "supports no protocol revision that gdn supports".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => {
            format!(
                "cannot be reached{how}: {}",
                codes::escaped_error_text(&error_chain(error.error.as_ref()))
            )
        }
        other => format!(
            "does not answer like an MCP server{how}: {}",
            codes::escaped_error_text(&other.to_string())
        ),
    };
    error(
        Code::MCP_CONNECT,
        name,
        format_args!("{why}{}", observations.program_output()),
    )
    .suggest(RETRY_ADVICE)
}

/// Returns true if an HTTP response exceeded the size limit.
fn is_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    matches!(
        error,
        Some(StreamableHttpError::ResponseBodyTooLarge { .. })
    )
}

/// Formats an error with all of its causes.
fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text.push_str(&format!(": {more}"));
        }
        cause = next.source();
    }
    text
}

/// Returns the error for a server that exceeded the connection timeout.
fn too_slow(
    definition: &McpServerDefinition,
    observations: &StreamObservations,
    _end: String,
) -> HandlerError {
    let limit = Duration::as_millis(&definition.connect_timeout);
    let what = format_args!(
        "did not answer within {limit} ms{}",
        observations.program_output()
    );
    error(Code::MCP_TIMEOUT, definition.name(), what).suggest(TIMEOUT_ADVICE)
}

/// Returns the error for output that violates the transport limits.
fn too_much(name: &str, fatal: ConnectionFault) -> HandlerError {
    match fatal {
        ConnectionFault::LongLine => {
            let what = "sent a message of more than 16 MiB";
            error(Code::MCP_TOO_LARGE, name, what).suggest("Request less data per call.")
        }
        ConnectionFault::Unread => {
            let what = "sends requests, but does not read the answers";
            error(Code::MCP_CONNECT, name, what).suggest("Update the server.")
        }
        ConnectionFault::Noise => {
            let what = "prints output that is not an MCP message";
            error(Code::MCP_CONNECT, name, what)
                .suggest("Check that `command` and `args` in `spec.mcp` start an MCP server.")
        }
    }
}

/// Stores the challenge, if both values exist.
fn record_challenge(tokens: Option<&TokenFile>, challenge: Option<&str>) {
    if let Some((tokens, challenge)) = tokens.zip(challenge) {
        tokens.record_challenge(challenge);
    }
}

/// Returns the error for a server that requires a login.
fn wants_login(name: &str) -> HandlerError {
    error(Code::MCP_AUTH, name, "requires a login").suggest(format!(
        "The swarm operator can run `gdn mcp login {name}`, or put a key into `headers`."
    ))
}
