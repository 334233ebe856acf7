//! One MCP server. gdn connects on demand, reconnects after failures and fetches the tool catalog.

use goondan_spec::Code;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, InputRequiredResult,
    ServerResult,
};
use rmcp::service::ServiceError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cache::{CatalogCache, CatalogCacheEntry};
use crate::call_scope::CallScope;
use crate::catalog::{CatalogToolKind, McpCatalog};
use crate::codes::{self, error};
use crate::connection::{McpConnection, contents_now};
use crate::definition::McpServerDefinition;
use crate::elicitation::ElicitationContext;
use crate::list_changes::ListChanges;
use crate::pending_request::{CANCEL_TIMEOUT, UnansweredCall, send_request};
use crate::prompts::{self, PromptInput};
use crate::spawn_port::ServerConnectOptions;
use crate::{resources, result};
use goondan_core::JsonObject;
use goondan_core::plugin_session::pause_after;
use goondan_core::ports::tool::{ApprovedFile, HandlerError, ToolOutput};
use goondan_core::started_files::StartedFiles;

/// Lifetime after which a connection does not count as failed.
const HEALTHY_LIFETIME: Duration = Duration::from_secs(60);
/// Longest pause between two attempts.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(60);
/// Age after which a catalog is fetched again.
const CATALOG_MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Minimum interval between two fetches of the catalog, however often the server reports changes.
const MIN_FETCH_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time for which an approval waits for the list of changed tools.
const MAX_LIST_WAIT: Duration = Duration::from_secs(10);
/// Maximum number of times that a server may request input before it answers.
const MAX_INPUT_ROUNDS: usize = 8;
/// JSON-RPC errors for missing methods and tools.
const UNKNOWN_TOOL_CODES: [i32; 2] = [-32601, -32602];

/// The catalog that a generation was created with; `None` if it was unknown.
type Announced = Option<Arc<McpCatalog>>;

/// Outcome of the first attempt to connect and fetch the catalog; `None` until it is complete.
type FirstContact = Option<Result<Arc<McpCatalog>, HandlerError>>;

/// A server. It ends when the last reference is dropped.
pub(crate) struct McpServerHandle {
    pub(crate) definition: McpServerDefinition,
    options: ServerConnectOptions,
    cache: CatalogCache,
    catalog: Mutex<Option<Arc<McpCatalog>>>,
    /// Held while a catalog is written to the cache. The first connection causes two fetches, and
    /// both must end only after the catalog is cached.
    caching: tokio::sync::Mutex<()>,
    /// The catalog of the last generation, once there was one.
    announced: Mutex<Option<Announced>>,
    shared_connections: Mutex<Vec<Arc<SharedConnection>>>,
    /// Access of the connection that fetches the catalog.
    home: Mutex<CallScope>,
    /// Outcome of the first attempt to fetch the catalog, once the attempt has begun.
    contact: Mutex<Option<watch::Receiver<FirstContact>>>,
    changes: ListChanges,
    /// Fires when the server must end.
    ending: CancellationToken,
}

/// A connection that callers with equal access share.
struct SharedConnection {
    /// Access of the callers.
    scope: CallScope,
    state: tokio::sync::Mutex<McpConnectionState>,
}

#[derive(Default)]
struct McpConnectionState {
    link: Option<Arc<McpConnection>>,
    /// Number of consecutive failures.
    failures: u32,
    /// Earliest time of the next attempt.
    not_before: Option<Instant>,
    /// Error of the last failed attempt.
    last: Option<HandlerError>,
}

impl McpServerHandle {
    pub(crate) fn new(
        definition: McpServerDefinition,
        options: ServerConnectOptions,
        cache: CatalogCache,
        changes: ListChanges,
    ) -> Arc<Self> {
        let server = McpServerHandle {
            definition,
            options,
            cache,
            catalog: Mutex::default(),
            caching: tokio::sync::Mutex::default(),
            announced: Mutex::default(),
            shared_connections: Mutex::default(),
            home: Mutex::default(),
            contact: Mutex::default(),
            changes,
            ending: CancellationToken::new(),
        };
        Arc::new(server)
    }

    /// Returns the catalog if it is in memory or in the cache. An old catalog is fetched again in
    /// the background.
    pub(crate) fn known_catalog(self: &Arc<Self>) -> Option<Arc<McpCatalog>> {
        if let Some(catalog) = lock(&self.catalog).clone() {
            return Some(catalog);
        }
        let CatalogCacheEntry::Catalog(catalog, age) =
            self.cache.read(self.definition.fingerprint())
        else {
            return None;
        };
        let catalog = Arc::new(catalog);
        *lock(&self.catalog) = Some(Arc::clone(&catalog));
        if age > CATALOG_MAX_AGE {
            self.start_contact();
        }
        Some(catalog)
    }

    /// Returns true if the server did not answer the last attempt to connect.
    pub(crate) fn was_unreachable(&self) -> bool {
        matches!(
            self.cache.read(self.definition.fingerprint()),
            CatalogCacheEntry::Unreachable
        )
    }

    /// Records that the server has not answered so far. A later answer still counts.
    pub(crate) fn record_unreachable(&self) {
        self.cache.record_unreachable(self.definition.fingerprint());
    }

    /// Logs that a start or a reload waits for the first answer of the server, at most for `limit`.
    pub(crate) fn report_wait(&self, limit: Duration) {
        let (tool, limit) = (&self.definition.tool, limit.as_secs_f64().ceil());
        let runner = self.definition.package_runner();
        let reason = runner.map_or_else(String::new, |runner| {
            format!(", because `{runner}` may have to download it first")
        });
        tracing::warn!("waiting up to {limit} s for the MCP server of {tool}{reason}");
    }

    /// Sets the access of the connection that fetches the catalog.
    pub(crate) fn set_home(&self, home: CallScope) {
        *lock(&self.home) = home;
    }

    /// Returns the access of the connection that fetches the catalog.
    pub(crate) fn catalog_scope(&self) -> CallScope {
        lock(&self.home).clone()
    }

    /// Starts to connect and to fetch the catalog, unless an earlier call did. The receiver gets
    /// the outcome.
    pub(crate) fn start_contact(self: &Arc<Self>) -> watch::Receiver<FirstContact> {
        let mut contact = lock(&self.contact);
        if let Some(contact) = &*contact {
            return contact.clone();
        }
        let (sender, receiver) = watch::channel(None);
        *contact = Some(receiver.clone());
        let server = Arc::clone(self);
        tokio::spawn(async move {
            let outcome = tokio::select! {
                outcome = server.fetch_catalog() => outcome,
                () = server.ending.cancelled() => Err(codes::cancelled_error()),
            };
            if outcome.is_err() && !server.ending.is_cancelled() && lock(&server.catalog).is_none()
            {
                server.record_unreachable();
            }
            // The receiver may already be dropped.
            let _ = sender.send(Some(outcome));
        });
        receiver
    }

    /// Returns the error of the first attempt to fetch the catalog; `None` if a catalog is known.
    pub(crate) fn first_contact_error(&self) -> Option<HandlerError> {
        let contact = lock(&self.contact).clone()?;
        let failure = contact.borrow().as_ref()?.as_ref().err().cloned();
        failure.filter(|_| lock(&self.catalog).is_none())
    }

    /// Connects, and fetches the catalog.
    pub(crate) async fn fetch_catalog(self: &Arc<Self>) -> Result<Arc<McpCatalog>, HandlerError> {
        let home = self.catalog_scope();
        let link = self.get_or_connect(&home, &Arc::default()).await?;
        self.refresh_catalog(&link).await
    }

    /// Fetches the catalog, and keeps a changed one in the cache. Signals a change if the prompts
    /// differ, or if the swarm uses other tools than the server has.
    async fn refresh_catalog(&self, link: &McpConnection) -> Result<Arc<McpCatalog>, HandlerError> {
        let is_first = lock(&self.catalog).is_none();
        let reports = link.handler.reports();
        let catalog = link.catalog(&self.definition, is_first).await?;
        let catalog = Arc::new(self.cache.mask_secrets(catalog));
        let _caching = self.caching.lock().await;
        let before = lock(&self.catalog).replace(Arc::clone(&catalog));
        link.handler.record_read_list(reports);
        if before.as_deref() != Some(&*catalog) {
            let (cache, written_catalog) = (self.cache.clone(), Arc::clone(&catalog));
            let fingerprint = self.definition.fingerprint().to_owned();
            let keeping =
                tokio::task::spawn_blocking(move || cache.store(&fingerprint, &written_catalog));
            keeping
                .await
                .map_err(|panic| HandlerError::new(panic.to_string()))?;
        }
        let prompts_before = before
            .as_deref()
            .map_or(&[][..], |it| it.prompts.as_slice());
        if prompts_before != catalog.prompts {
            self.changes.prompts.send_replace(());
        }
        self.notify_if_outdated();
        Ok(catalog)
    }

    /// Records the catalog of a new generation. Signals a change if the known catalog already
    /// differs.
    pub(crate) fn announce_catalog(&self, catalog: Announced) {
        *lock(&self.announced) = Some(catalog);
        self.notify_if_outdated();
    }

    /// Returns true if the server has other tools than the last generation received.
    pub(crate) fn is_outdated(&self) -> bool {
        let Some(announced) = lock(&self.announced).clone() else {
            return false;
        };
        let current = lock(&self.catalog).clone();
        announced.as_deref().map(|catalog| &catalog.tools)
            != current.as_deref().map(|current| &current.tools)
    }

    /// Signals a change if the server has other tools than the last generation received.
    fn notify_if_outdated(&self) {
        if self.is_outdated() {
            self.changes.tools.notify_one();
        }
    }

    /// Calls the server's tool `tool_name`, or reads its resources depending on `kind`. If the call is
    /// cancelled, notifies the server.
    pub(crate) async fn call(
        self: &Arc<Self>,
        context: &ElicitationContext,
        kind: CatalogToolKind,
        tool_name: &str,
        input: JsonObject,
    ) -> Result<ToolOutput, HandlerError> {
        let link = tokio::select! {
            link = self.get_or_connect(&context.scope, &context.approved_files) => link?,
            () = context.cancellation.cancelled() => return Err(codes::cancelled_error()),
        };
        let name = self.definition.name();
        if let Some(approved) = &context.approved_code {
            let tool = (kind, tool_name);
            let current = tokio::select! {
                catalog = self.read_tools(&link) => definition_of(&self.definition, catalog?.as_deref(), tool),
                () = context.cancellation.cancelled() => return Err(codes::cancelled_error()),
            };
            if current != *approved {
                return Err(changed_definition(tool_name));
            }
        }
        let answer = match kind {
            CatalogToolKind::Tool => self
                .call_tool(&link, context, tool_name, input)
                .await
                .map(|result| result::output(name, tool_name, result)),
            CatalogToolKind::Resources => {
                resources::call(name, &link, context, &input).await.map(Ok)
            }
        };
        let answer = match answer {
            Err(UnansweredCall::Failed(failure)) => {
                let missing = self.missing_tool(&link, tool_name, &failure).await;
                Err(missing.map_or(UnansweredCall::Failed(failure), UnansweredCall::Given))
            }
            answer => answer,
        };
        self.resolve_answer(&link, context, answer).await?
    }

    /// Gets the prompt `name`. `words` is the text after the chat command, with the arguments.
    pub(crate) async fn get_prompt(
        self: &Arc<Self>,
        name: &str,
        words: &str,
    ) -> Result<PromptInput, HandlerError> {
        let server = self.definition.name();
        let catalog = match self.known_catalog() {
            Some(catalog) => catalog,
            None => self.fetch_catalog().await?,
        };
        let Some(prompt) = catalog.prompts.iter().find(|prompt| prompt.name == name) else {
            let problem = format_args!("has no prompt `{}`", codes::escaped_error_text(name));
            return Err(error(Code::MCP_NO_TOOL, server, problem)
                .suggest("Type `/help` to see the prompts."));
        };
        let arguments = prompts::parse_arguments(server, prompt, words)?;
        let home = self.catalog_scope();
        let link = self.get_or_connect(&home, &Arc::default()).await?;
        let context = ElicitationContext::without_caller(home);
        let answer = prompts::get(server, &link, &context, name, arguments).await;
        self.resolve_answer(&link, &context, answer).await
    }

    /// Calls a tool. If the server requests input instead of answering, repeats the request with
    /// the input.
    async fn call_tool(
        &self,
        link: &McpConnection,
        context: &ElicitationContext,
        tool_name: &str,
        input: JsonObject,
    ) -> Result<CallToolResult, UnansweredCall> {
        let mut params = CallToolRequestParams::new(tool_name.to_owned());
        params.arguments = Some(input);
        params.meta = context.request_meta();
        for _ in 0..MAX_INPUT_ROUNDS {
            let request = CallToolRequest::new(params.clone());
            match send_request(link, context, ClientRequest::CallToolRequest(request)).await? {
                ServerResult::CallToolResult(result) => return Ok(result),
                ServerResult::EmptyResult(_) => return Ok(CallToolResult::default()),
                ServerResult::CustomResult(answer) => {
                    return result::repair_result(answer.0)
                        .ok_or_else(|| ServiceError::UnexpectedResponse.into());
                }
                ServerResult::InputRequiredResult(required) => {
                    self.fill_in(link, required, &mut params)?
                }
                _ => return Err(ServiceError::UnexpectedResponse.into()),
            }
        }
        Err(ServiceError::InputRequiredRoundsExceeded {
            max_rounds: MAX_INPUT_ROUNDS,
        }
        .into())
    }

    /// Answers the server's requests for input and adds the answers to `params`. Fails if a request
    /// cannot be answered.
    fn fill_in(
        &self,
        link: &McpConnection,
        required: InputRequiredResult,
        params: &mut CallToolRequestParams,
    ) -> Result<(), UnansweredCall> {
        let mut answers = std::collections::BTreeMap::new();
        for (key, request) in required.input_requests.unwrap_or_default() {
            let answer = link.handler.answer(request).ok_or_else(|| {
                let error = error(
                    Code::MCP_INPUT,
                    self.definition.name(),
                    "requests user input, but no user is available",
                );
                UnansweredCall::Given(error.suggest(
                    "Put the requested input into the arguments, if the tool has such arguments.",
                ))
            })?;
            answers.insert(key, answer);
        }
        params.input_responses = (!answers.is_empty()).then_some(answers);
        params.request_state = required.request_state;
        Ok(())
    }

    /// Returns the error for a call of a tool that the server no longer has. If the server does not
    /// know the tool, fetches the catalog to check that.
    async fn missing_tool(
        &self,
        link: &McpConnection,
        tool_name: &str,
        failure: &ServiceError,
    ) -> Option<HandlerError> {
        if let ServiceError::McpError(refusal) = failure
            && UNKNOWN_TOOL_CODES.contains(&refusal.code.0)
            && let Ok(catalog) = self.refresh_catalog(link).await
            && !catalog.tools.iter().any(|tool| tool.own == tool_name)
        {
            let problem = format_args!(
                "no longer has the tool `{}`",
                codes::escaped_error_text(tool_name)
            );
            let error = error(Code::MCP_NO_TOOL, self.definition.name(), problem);
            return Some(error.suggest("Use one of its current tools."));
        }
        None
    }

    /// Converts the answer to a request for the caller. An answer ends the series of failures.
    async fn resolve_answer<T>(
        &self,
        link: &McpConnection,
        context: &ElicitationContext,
        answer: Result<T, UnansweredCall>,
    ) -> Result<T, HandlerError> {
        let failure = match answer {
            Ok(answer) => {
                let shared = self.shared_connection(&context.scope);
                shared.state.lock().await.failures = 0;
                return Ok(answer);
            }
            Err(UnansweredCall::Given(error)) => return Err(error),
            Err(UnansweredCall::Failed(failure)) => failure,
        };
        if matches!(
            failure,
            ServiceError::TransportClosed | ServiceError::TransportSend(_)
        ) {
            // The description of the end arrives shortly after the connection closes.
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, link.wait_for_end()).await;
        }
        Err(link.to_tool_error(&self.definition, &failure))
    }

    /// Returns the entry for callers with the access `scope`. A new entry has no connection yet.
    fn shared_connection(&self, scope: &CallScope) -> Arc<SharedConnection> {
        let mut shared_connections = lock(&self.shared_connections);
        if let Some(shared) = shared_connections
            .iter()
            .find(|shared| shared.scope == *scope)
        {
            return Arc::clone(shared);
        }
        let shared = Arc::new(SharedConnection {
            scope: scope.clone(),
            state: tokio::sync::Mutex::default(),
        });
        shared_connections.push(Arc::clone(&shared));
        shared
    }

    /// Returns the open connection for callers with the access `scope`, or opens a connection.
    /// Fails during the pause after a failure.
    async fn get_or_connect(
        self: &Arc<Self>,
        scope: &CallScope,
        approved_files: &Arc<[ApprovedFile]>,
    ) -> Result<Arc<McpConnection>, HandlerError> {
        let shared = self.shared_connection(scope);
        let mut state = shared.state.lock().await;
        if let Some(link) = &state.link
            && !link.is_dead()
        {
            return Ok(Arc::clone(link));
        }
        if let Some(dead) = state.link.take() {
            state.failures = if dead.since.elapsed() > HEALTHY_LIFETIME {
                0
            } else {
                state.failures + 1
            };
            // The first failure may be an accident, so it causes no pause.
            let pause = pause_after(state.failures, 1, MAX_RECONNECT_DELAY);
            state.not_before = Some(Instant::now() + pause);
        }
        if let Some(left) = state
            .not_before
            .and_then(|at| at.checked_duration_since(Instant::now()))
        {
            return Err(self.backoff_error(&state, left));
        }
        let legacy = state.failures == 0 && self.is_known_as_legacy();
        let (definition, options) = (&self.definition, &self.options);
        match McpConnection::connect(definition, options, scope, approved_files, legacy).await {
            Ok(link) => {
                let link = Arc::new(link);
                state.link = Some(Arc::clone(&link));
                state.not_before = None;
                tokio::spawn(watch_catalog(Arc::downgrade(self), Arc::downgrade(&link)));
                Ok(link)
            }
            // The server did not fail: the next approval may start it at once.
            Err(error) if error.code.as_deref() == Some(Code::TOOL_DENIED.as_str()) => Err(error),
            Err(error) => {
                state.failures += 1;
                let pause = pause_after(state.failures, 0, MAX_RECONNECT_DELAY);
                state.not_before = Some(Instant::now() + pause);
                state.last = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Returns the identity of the server's current definition of a tool, for the process that serves
    /// callers with the access `scope`. `known`: the identity to use if there is no list.
    pub(crate) async fn current_definition(
        &self,
        scope: &CallScope,
        tool: (CatalogToolKind, &str),
        known: &str,
    ) -> String {
        let shared = self.shared_connection(scope);
        let state = shared.state.lock().await;
        let link = state.link.clone().filter(|link| !link.is_dead());
        drop(state);
        let catalog = match link {
            // If that fails, the call fails with the same error.
            Some(link) => self.read_tools(&link).await.ok().flatten(),
            None => lock(&self.catalog).clone(),
        };
        match catalog {
            Some(catalog) => definition_of(&self.definition, Some(&catalog), tool),
            None => known.to_owned(),
        }
    }

    /// Returns the tools of a connected server. If it has reported a change since the last list, waits
    /// for the new list.
    async fn read_tools(
        &self,
        link: &McpConnection,
    ) -> Result<Option<Arc<McpCatalog>>, HandlerError> {
        if link.handler.has_unread_tools() {
            let reading = tokio::time::timeout(MAX_LIST_WAIT, self.refresh_catalog(link));
            reading.await.unwrap_or_else(|_| {
                let problem = format_args!(
                    "reported changed tools, but did not list them within {} s",
                    MAX_LIST_WAIT.as_secs()
                );
                Err(error(Code::MCP_TIMEOUT, self.definition.name(), problem))
            })?;
        }
        Ok(lock(&self.catalog).clone())
    }

    /// Returns the content of the program's files at the start of the process that serves callers
    /// with the access `scope`. Without such a process, returns their current content.
    pub(crate) async fn program_contents(&self, scope: &CallScope) -> StartedFiles {
        let shared = self.shared_connection(scope);
        let state = shared.state.lock().await;
        if let Some(link) = state.link.as_ref().filter(|link| !link.is_dead()) {
            return link.program_contents.clone();
        }
        drop(state);
        contents_now(&self.definition).await
    }

    /// Returns true if the server used an older revision when its catalog was fetched.
    fn is_known_as_legacy(&self) -> bool {
        if let Some(catalog) = &*lock(&self.catalog) {
            return is_legacy(&catalog.protocol);
        }
        match self.cache.read(self.definition.fingerprint()) {
            CatalogCacheEntry::Catalog(catalog, _) => is_legacy(&catalog.protocol),
            CatalogCacheEntry::Unreachable | CatalogCacheEntry::Nothing => false,
        }
    }

    /// Returns the error for a server to which gdn connects again only after `remaining`.
    fn backoff_error(&self, state: &McpConnectionState, remaining: Duration) -> HandlerError {
        let why = state
            .last
            .as_ref()
            .map(|last| format!(": {}", last.message))
            .unwrap_or_default();
        let times = state.failures;
        let problem = format_args!("failed {times} times in a row and is not restarted yet{why}");
        error(Code::MCP_DOWN, self.definition.name(), problem)
            .suggest(format!("Retry in {} s.", remaining.as_secs() + 1))
    }

    /// Ends all connections, and waits until they have ended.
    pub(crate) async fn end(&self) {
        self.ending.cancel();
        let contact = lock(&self.contact).clone();
        if let Some(mut contact) = contact {
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, contact.wait_for(Option::is_some)).await;
        }
        let shared_connections: Vec<Arc<SharedConnection>> =
            lock(&self.shared_connections).drain(..).collect();
        let end = |shared: Arc<SharedConnection>| async move {
            // A connection attempt is not awaited: it is dropped together with its call.
            let link = shared
                .state
                .try_lock()
                .ok()
                .and_then(|mut state| state.link.take());
            if let Some(link) = link {
                link.end().await;
            }
        };
        futures::future::join_all(shared_connections.into_iter().map(end)).await;
    }
}

/// Fetches the catalog after connecting, and each time the server reports a change.
async fn watch_catalog(server: Weak<McpServerHandle>, link: Weak<McpConnection>) {
    let Some((handler, ended, mut subscription)) = begin_to_follow(&link).await else {
        return;
    };
    let mut is_first = true;
    loop {
        {
            let (Some(server), Some(link)) = (server.upgrade(), link.upgrade()) else {
                return;
            };
            if let Err(error) = server.refresh_catalog(&link).await {
                tracing::debug!(
                    %error,
                    "could not list the tools of an MCP server; the known tools stay in use"
                );
            }
        }
        // A first report is handled at once; continuous reports are limited in frequency.
        if !std::mem::take(&mut is_first) {
            tokio::time::sleep(MIN_FETCH_INTERVAL).await;
        }
        let tools_changed = async {
            match &mut subscription {
                Some(open) => {
                    if !matches!(open.next().await, Ok(Some(_))) {
                        subscription = None;
                    }
                }
                None => std::future::pending().await,
            }
        };
        let mut ended = ended.clone();
        tokio::select! {
            () = handler.list_changed() => {}
            () = tools_changed => {}
            _ = ended.wait_for(Option::is_some) => return,
        }
    }
}

/// Parts of a connection that [`follow`] waits for.
type Followed = (
    crate::handler::McpClientHandler,
    watch::Receiver<Option<String>>,
    Option<rmcp::service::Subscription>,
);

/// Returns the parts that [`follow`] waits for; `None` if the connection is gone.
async fn begin_to_follow(link: &Weak<McpConnection>) -> Option<Followed> {
    let link = link.upgrade()?;
    let subscription = link.listen().await;
    Some((link.handler.clone(), link.end_receiver(), subscription))
}

/// Returns the identity of a tool's definition; an empty one if the server does not have the tool.
fn definition_of(
    server: &McpServerDefinition,
    catalog: Option<&McpCatalog>,
    (kind, name): (CatalogToolKind, &str),
) -> String {
    let mut tools = catalog.into_iter().flat_map(|catalog| &catalog.tools);
    let listed = tools.find(|tool| tool.kind == kind && tool.own == name);
    listed.map_or_else(String::new, |listed| listed.identity(server))
}

/// Returns the error for a call whose approval was for another definition of the tool.
fn changed_definition(tool_name: &str) -> HandlerError {
    let tool_name = codes::escaped_error_text(tool_name);
    let message = format!("the server changed the tool `{tool_name}` after the call was approved");
    HandlerError::new(message)
        .code(Code::TOOL_DENIED)
        .suggest("Repeat the call. It then needs an approval of the changed tool.")
}

/// Returns true if the revision begins with a handshake.
fn is_legacy(protocol: &str) -> bool {
    !protocol.is_empty() && protocol < "2026-07-28"
}

/// Locks a mutex, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
