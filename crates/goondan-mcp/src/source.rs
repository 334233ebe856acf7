//! The tool source for MCP servers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{Notify, watch};

use crate::cache::CatalogCache;
use crate::call_scope::CallScope;
use crate::catalog::{CatalogTool, CatalogToolKind, McpCatalog};
use crate::codes::error;
use crate::connection::McpConnection;
use crate::definition::McpServerDefinition;
use crate::elicitation::ElicitationContext;
use crate::list_changes::ListChanges;
use crate::oauth::{self, ConsentBrowser, TokenFile};
use crate::prepared_servers::PreparedServers;
use crate::prompts::{self, PromptInput, ServerPrompt};
use crate::server::McpServerHandle;
use crate::session::McpSession;
use crate::spawn_port::{ServerConnectOptions, ServerMocks, ServerSpawner};
use crate::tool_names::MAX_TOOL_NAME_LENGTH;
use goondan_core::JsonObject;
use goondan_core::ports::tool::{
    EntryOpenError, HandlerError, ToolContext, ToolHandler, ToolOutput, ToolSet, ToolSource,
};
use goondan_core::private_files;
use goondan_core::redact::SecretRedactor;
use goondan_core::started_files::StartedFiles;
use goondan_spec::kinds::{Agent, ExportSpec, Swarm, Tool, ToolEntry};
use goondan_spec::value::Environment;
use goondan_spec::{Bundle, Code, Diagnostic, Resource, ResourceId};

/// Maximum time that a reload waits for all new servers together. The running swarm would get the
/// other changes only after the wait.
const RELOAD_CONTACT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time after which a start reports that it waits for a server.
const WAIT_NOTICE_DELAY: Duration = Duration::from_secs(2);

const CACHE_FOLDER: &str = "mcp";

/// Directory below [`CACHE_FOLDER`], in which a sandboxed server is queried for its tools.
const EMPTY_FOLDER: &str = "empty";

/// Opens tools with `spec.mcp`. It exists as long as its swarm; a server exists as long as a
/// generation uses it.
pub struct McpTools {
    options: ServerConnectOptions,
    cache: CatalogCache,
    environment: Mutex<Environment>,
    servers: Mutex<HashMap<String, Weak<McpServerHandle>>>,
    prepared: Mutex<PreparedServers>,
    /// Time until which a reload waits for new servers. A start waits for the deadline of each.
    patience: Mutex<Option<Instant>>,
    is_quiet: AtomicBool,
    changes: ListChanges,
}

/// The result of querying a server.
#[derive(Debug, Clone)]
pub struct CatalogLookup {
    pub catalog: McpCatalog,
    /// Time to start the server and fetch its tools.
    pub took: Duration,
}

impl McpTools {
    /// Creates a source without connections. Catalogs are cached below `state_root`.
    pub fn new(
        state_root: &Path,
        spawner: Arc<dyn ServerSpawner>,
        environment: Environment,
    ) -> Self {
        let cache = CatalogCache::new(state_root.join(CACHE_FOLDER));
        McpTools {
            options: ServerConnectOptions {
                folder: state_root.join(CACHE_FOLDER),
                redactor: cache.redactor().clone(),
                spawner,
                mocks: None,
            },
            cache,
            environment: Mutex::new(environment),
            servers: Mutex::default(),
            prepared: Mutex::default(),
            patience: Mutex::default(),
            is_quiet: AtomicBool::new(false),
            changes: ListChanges::default(),
        }
    }

    /// Replaces servers with mocks.
    #[must_use]
    pub fn mocks(mut self, mocks: Option<Arc<dyn ServerMocks>>) -> Self {
        self.options.mocks = mocks;
        self
    }

    /// Masks the secrets of `redactor` in the servers' lists of tools and prompts. Adds the tokens
    /// of logins to `redactor`.
    #[must_use]
    pub fn redactor(mut self, redactor: SecretRedactor) -> Self {
        self.options.redactor = redactor.clone();
        self.cache.set_redactor(redactor);
        self
    }

    /// Replaces the environment of value sources.
    pub fn set_environment(&self, environment: Environment) {
        *lock(&self.environment) = environment;
    }

    /// Adds the secrets of a project to those that are masked. The first contact with its servers may
    /// precede the plan, which adds them for all other purposes.
    pub fn mask_secrets_of(&self, bundle: &Bundle) {
        let environment = lock(&self.environment);
        let redactor = self.cache.redactor();
        redactor.add_environment(&environment);
        redactor.add_secrets(bundle.secrets(&environment));
    }

    /// Does the same as [`McpTools::prepare`] for a reload, which waits for a shorter time.
    pub fn prepare_reload(&self, bundle: &Bundle, swarm: &Resource<Swarm>) {
        *lock(&self.patience) = Some(Instant::now() + RELOAD_CONTACT_TIMEOUT);
        self.prepare(bundle, swarm);
    }

    /// Holds the servers of `swarm`, and begins to contact the new ones concurrently.
    /// [`McpTools::accept_prepared`] or [`McpTools::reject_prepared`] follows.
    pub fn prepare(&self, bundle: &Bundle, swarm: &Resource<Swarm>) {
        self.mask_secrets_of(bundle);
        // Servers end outside of the lock.
        let released = lock(&self.prepared).begin();
        drop(released);
        let agents = swarm
            .spec
            .agents
            .iter()
            .filter_map(|id| bundle.agents().get(id));
        let used = agents
            .flat_map(|agent| &agent.spec.tools)
            .filter_map(|used| bundle.tools().get(&used.tool));
        for tool in used.filter(|tool| matches!(tool.spec.entry, ToolEntry::Mcp(_))) {
            // Opening the tool reports the error.
            let Ok(definition) = self.resolve_definition(tool, bundle.root()) else {
                continue;
            };
            let server = self.server(definition);
            let home = self.catalog_scope(tool, bundle, swarm);
            lock(&self.prepared).add_server(Arc::clone(&server), home);
            if server.known_catalog().is_none() {
                server.start_contact();
            }
        }
    }

    /// Makes the prepared generation the serving one. Servers that it does not use end with the
    /// turns that use them.
    pub fn accept_prepared(&self) {
        let prompts_before = self.prompts();
        let released = lock(&self.prepared).accept_generation();
        drop(released);
        if self.prompts() != prompts_before {
            self.changes.prompts.send_replace(());
        }
    }

    /// Keeps the servers of the serving generation, because the prepared one has errors.
    pub fn reject_prepared(&self) {
        let released = lock(&self.prepared).reject_generation();
        drop(released);
    }

    /// Returns the sandbox and the working directory in which the server lists its tools. Has a
    /// sandbox if every agent that uses the server has one: that of the first agent.
    fn catalog_scope(
        &self,
        tool: &Resource<Tool>,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> CallScope {
        let mut sandboxes = Vec::new();
        for id in &swarm.spec.agents {
            let Some(agent) = bundle.agents().get(id) else {
                continue;
            };
            let uses_server = agent.spec.tools.iter().any(|used| used.tool == tool.id);
            if !uses_server {
                continue;
            }
            let permissions = agent.spec.permissions.as_ref();
            match permissions.and_then(|permissions| permissions.sandbox.clone()) {
                Some(sandbox) => sandboxes.push(sandbox),
                // This agent may use the server without a sandbox.
                None => return CallScope::default(),
            }
        }
        let Some(first_sandbox) = sandboxes.into_iter().next() else {
            return CallScope::default();
        };
        let workdir = self.options.folder.join(EMPTY_FOLDER);
        if let Err(error) = private_files::create_directory(&workdir) {
            tracing::debug!(
                %error,
                "could not create the working directory of MCP servers; they may not start"
            );
        }
        CallScope {
            sandboxes: vec![first_sandbox],
            workdir,
        }
    }

    /// Stops contacting servers for their catalogs.
    pub fn keep_quiet(&self) {
        self.is_quiet.store(true, Ordering::Relaxed);
    }

    /// Returns a signal for changed tools of a server. It also fires when this source is dropped.
    pub fn changes(&self) -> Arc<Notify> {
        Arc::clone(&self.changes.tools)
    }

    /// Returns a receiver that changes when the swarm has other prompts.
    pub fn prompt_changes(&self) -> watch::Receiver<()> {
        self.changes.prompts.subscribe()
    }

    /// Returns the Tools that have changed on their servers since they were opened.
    pub fn outdated(&self) -> Vec<ResourceId> {
        let servers = lock(&self.servers);
        let outdated = servers
            .values()
            .filter_map(Weak::upgrade)
            .filter(|server| server.is_outdated());
        let mut tools: Vec<ResourceId> = outdated
            .map(|server| server.definition.tool.clone())
            .collect();
        tools.sort();
        tools
    }

    /// Returns non-fatal problems of the servers in `bundle`.
    pub fn notices(&self, bundle: &Bundle) -> Vec<Diagnostic> {
        let mcp = bundle
            .tools()
            .values()
            .filter(|tool| matches!(tool.spec.entry, ToolEntry::Mcp(_)));
        mcp.flat_map(|tool| self.catalog_notices(tool, bundle))
            .collect()
    }

    /// Returns the warnings in the catalog of `tool`. If the catalog is unknown or the server lacks a
    /// variable, returns a warning about that. Returns nothing for a server that no generation uses.
    fn catalog_notices(&self, tool: &Resource<Tool>, bundle: &Bundle) -> Vec<Diagnostic> {
        let notice = |message, suggestion| catalog_warning(tool, bundle, message, suggestion);
        let Ok(definition) = self.resolve_definition(tool, bundle.root()) else {
            return self
                .missing_variable_error(tool, bundle)
                .into_iter()
                .collect();
        };
        let Some(server) = self.running_server(&definition) else {
            return Vec::new();
        };
        match server.known_catalog() {
            Some(catalog) => {
                let to_notice =
                    |note: &String| notice(format!("MCP server of {}: {note}", tool.id), None);
                catalog.notes.iter().map(to_notice).collect()
            }
            None => {
                let failure = server.first_contact_error();
                let why = failure.as_ref().map_or_else(
                    || "the server has not answered yet".to_owned(),
                    |failure| failure.message.clone(),
                );
                let message = format!(
                    "The tools of the MCP server of {} are unknown: {why}.",
                    tool.id
                );
                let suggestion = failure.and_then(|failure| failure.suggestion);
                let wait = || {
                    "run `gdn mcp list --connect` to wait for the server; until then, agents do \
                    not have its tools"
                };
                vec![notice(
                    message,
                    Some(suggestion.unwrap_or_else(|| wait().to_owned())),
                )]
            }
        }
    }

    /// Returns a diagnostic for each Tool of an agent whose server lacks a variable. The agents do not
    /// have the tools of such a server.
    pub fn undefined_servers(&self, bundle: &Bundle) -> Vec<Diagnostic> {
        let tools = bundle.tools().values();
        tools
            .filter(|tool| matches!(tool.spec.entry, ToolEntry::Mcp(_)))
            .filter_map(|tool| self.missing_variable_error(tool, bundle))
            .collect()
    }

    /// Returns a diagnostic if an agent uses the Tool and an environment variable of its server is
    /// missing.
    fn missing_variable_error(&self, tool: &Resource<Tool>, bundle: &Bundle) -> Option<Diagnostic> {
        let error = self.resolve_definition(tool, bundle.root()).err()?;
        let uses =
            |agent: &Resource<Agent>| agent.spec.tools.iter().any(|used| used.tool == tool.id);
        if !bundle.agents().values().any(|agent| uses(agent)) {
            return None;
        }
        let cause = error.message.trim_end_matches('.');
        let message = format!("The agents do not have the tools of {}: {cause}.", tool.id);
        Some(catalog_warning(tool, bundle, message, error.suggestion))
    }

    /// Returns the prompts of the swarm's servers whose catalogs are known, sorted by command.
    pub fn prompts(&self) -> Vec<ServerPrompt> {
        let servers = lock(&self.prepared).serving_servers();
        let of_server = |server: &Arc<McpServerHandle>| {
            let name = server.definition.name().to_owned();
            let catalog = server.known_catalog();
            let prompts = catalog.map(|catalog| catalog.prompts.clone());
            prompts
                .unwrap_or_default()
                .into_iter()
                .map(move |prompt| ServerPrompt {
                    server: name.clone(),
                    prompt,
                })
        };
        let mut prompts: Vec<ServerPrompt> = servers.iter().flat_map(of_server).collect();
        prompts.sort_by_key(ServerPrompt::command);
        prompts
    }

    /// Returns the input for a chat command such as `/git:review a.rs`. Returns `None` if no server
    /// of the swarm has the name before the colon.
    ///
    /// # Errors
    ///
    /// Fails if the server has no such prompt, an argument is missing, or the server does not answer
    /// within its `connectTimeoutMs`.
    pub async fn expand_prompt(&self, line: &str) -> Option<Result<PromptInput, HandlerError>> {
        let (server_name, name, words) = prompts::command_parts(line)?;
        let servers = lock(&self.prepared).serving_servers();
        let mut servers = servers.into_iter();
        let server = servers.find(|server| server.definition.name() == server_name)?;
        let limit = server.definition.connect_timeout;
        let answer = tokio::time::timeout(limit, server.get_prompt(name, words)).await;
        Some(answer.unwrap_or_else(|_| {
            let what = format_args!("did not answer within {} s", limit.as_secs());
            Err(error(Code::MCP_TIMEOUT, server_name, what))
        }))
    }

    /// Starts the server of `tool`, fetches its tools, and ends it.
    ///
    /// # Errors
    ///
    /// Fails if the server is unreachable or does not answer.
    pub async fn query_server(
        &self,
        tool: &Resource<Tool>,
        root: &Path,
    ) -> Result<CatalogLookup, HandlerError> {
        let begun = Instant::now();
        let session = self.session(tool, root)?;
        let catalog = session.catalog().await;
        let took = begun.elapsed();
        session.end().await;
        Ok(CatalogLookup {
            catalog: Arc::unwrap_or_clone(catalog?),
            took,
        })
    }

    /// Opens a session with the server of `tool`, outside of a swarm.
    ///
    /// # Errors
    ///
    /// Fails if a variable that the definition names is not set.
    pub fn session(&self, tool: &Resource<Tool>, root: &Path) -> Result<McpSession, HandlerError> {
        let definition = self.resolve_definition(tool, root)?;
        Ok(McpSession::new(McpServerHandle::new(
            definition,
            self.options.clone(),
            self.cache.clone(),
            ListChanges::default(),
        )))
    }

    /// Logs the user in to the server of `tool`, and stores the tokens.
    ///
    /// # Errors
    ///
    /// Fails if the server has no URL, does not support logins, or the user did not complete the
    /// login.
    pub async fn login(
        &self,
        tool: &Resource<Tool>,
        root: &Path,
        visitor: &dyn ConsentBrowser,
    ) -> Result<(), HandlerError> {
        let definition = self.resolve_definition(tool, root)?;
        let challenge = McpConnection::login_challenge(&definition).await;
        let tokens = self.tokens(&definition)?;
        oauth::login(&definition, &tokens, challenge, visitor).await?;
        // An authenticated client may get an answer where an anonymous one did not.
        self.cache.clear_unreachable(definition.fingerprint());
        Ok(())
    }

    /// Deletes the tokens of a login; returns false if the user was not logged in.
    ///
    /// # Errors
    ///
    /// Fails if the server has no URL, or if the file cannot be deleted.
    pub fn logout(&self, tool: &Resource<Tool>, root: &Path) -> Result<bool, HandlerError> {
        let definition = self.resolve_definition(tool, root)?;
        let forgotten = self.tokens(&definition)?.delete();
        forgotten.map_err(|cause| {
            error(
                Code::MCP_AUTH,
                definition.name(),
                format_args!("cannot be logged out: {cause}"),
            )
        })
    }

    /// Returns true if the user is logged in at the server of `tool`; `None` if it has no URL.
    pub fn is_logged_in(&self, tool: &Resource<Tool>, root: &Path) -> Option<bool> {
        let definition = self.resolve_definition(tool, root).ok()?;
        TokenFile::for_server(&self.options, &definition).map(|tokens| tokens.exists())
    }

    /// Returns the token file of a web server; fails for a server without `url`.
    fn tokens(&self, definition: &McpServerDefinition) -> Result<TokenFile, HandlerError> {
        TokenFile::for_server(&self.options, definition).ok_or_else(|| {
            let error = error(
                Code::MCP_AUTH,
                definition.name(),
                "has no `url`, so a login is not possible",
            );
            error.suggest("Set its credentials in `env` of `spec.mcp`.")
        })
    }

    /// Returns the cached catalog of `tool` without contacting its server.
    pub fn cached_catalog(&self, tool: &Resource<Tool>, root: &Path) -> Option<McpCatalog> {
        let definition = self.resolve_definition(tool, root).ok()?;
        match self.cache.read(definition.fingerprint()) {
            crate::cache::CatalogCacheEntry::Catalog(catalog, _) => Some(catalog),
            _ => None,
        }
    }

    /// Ends all servers, and waits until they have ended.
    pub async fn shutdown(&self) {
        let released = lock(&self.prepared).release_all();
        let servers: Vec<Arc<McpServerHandle>> = lock(&self.servers)
            .drain()
            .filter_map(|(_, server)| server.upgrade())
            .collect();
        futures::future::join_all(servers.iter().map(|server| server.end())).await;
        drop(released);
    }

    /// Resolves the configuration of `tool`.
    fn resolve_definition(
        &self,
        tool: &Resource<Tool>,
        root: &Path,
    ) -> Result<McpServerDefinition, HandlerError> {
        McpServerDefinition::new(tool, root, &lock(&self.environment))
    }

    /// Returns the running server with this configuration, if any.
    fn running_server(&self, definition: &McpServerDefinition) -> Option<Arc<McpServerHandle>> {
        lock(&self.servers)
            .get(definition.fingerprint())
            .and_then(Weak::upgrade)
    }

    /// Returns the server with this configuration; creates it if needed.
    fn server(&self, definition: McpServerDefinition) -> Arc<McpServerHandle> {
        let mut servers = lock(&self.servers);
        servers.retain(|_, server| server.strong_count() > 0);
        let fingerprint = definition.fingerprint().to_owned();
        if let Some(running) = servers.get(&fingerprint).and_then(Weak::upgrade) {
            return running;
        }
        let server = McpServerHandle::new(
            definition,
            self.options.clone(),
            self.cache.clone(),
            self.changes.clone(),
        );
        servers.insert(fingerprint, Arc::downgrade(&server));
        server
    }

    /// Returns the catalog of a possibly new server. Waits once: at a start until the deadline of the
    /// server, at a reload for a shorter time.
    async fn first_contact(&self, server: &Arc<McpServerHandle>) -> Option<Arc<McpCatalog>> {
        lock(&self.prepared).hold_unprepared(server);
        let was_unreachable = server.was_unreachable();
        let contact = server.start_contact();
        let mut waiting = contact.clone();
        let connect_timeout = server.definition.connect_timeout;
        let limit = lock(&self.patience).map_or(connect_timeout, |until| {
            until.saturating_duration_since(Instant::now())
        });
        let answered = async move {
            let mut answer = std::pin::pin!(waiting.wait_for(Option::is_some));
            if tokio::time::timeout(WAIT_NOTICE_DELAY, &mut answer)
                .await
                .is_err()
            {
                server.report_wait(limit);
                let _ = answer.await;
            }
        };
        if !was_unreachable && tokio::time::timeout(limit, answered).await.is_err() {
            // The next start does not wait for this server.
            server.record_unreachable();
        }
        contact.borrow().as_ref()?.as_ref().ok().cloned()
    }
}

impl Drop for McpTools {
    fn drop(&mut self) {
        self.changes.tools.notify_one();
    }
}

#[async_trait]
impl ToolSource for McpTools {
    async fn open(
        &self,
        tool: &Resource<Tool>,
        bundle_root: &Path,
    ) -> Result<ToolSet, EntryOpenError> {
        if tool.id.name.len() > MAX_TOOL_NAME_LENGTH {
            let message = format!(
                "its name has {} characters, which leaves too little room for tool names",
                tool.id.name.len()
            );
            let suggestion = format!("use a name of at most {MAX_TOOL_NAME_LENGTH} characters");
            return Err(EntryOpenError::new(&tool.id, message).suggest(suggestion));
        }
        let definition = match self.resolve_definition(tool, bundle_root) {
            Ok(definition) => definition,
            // A missing variable costs only the tools of this server; `notices` reports it.
            Err(undefined) => {
                return Ok(ToolSet {
                    exports: Vec::new(),
                    unavailable: Some(undefined.message),
                });
            }
        };
        let server = self.server(definition);
        let catalog = match server.known_catalog() {
            Some(catalog) => Some(catalog),
            None if self.is_quiet.load(Ordering::Relaxed) => None,
            None => self.first_contact(&server).await,
        };
        server.announce_catalog(catalog.clone());
        let tools = catalog
            .as_ref()
            .map(|catalog| catalog.tools.as_slice())
            .unwrap_or_default();
        Ok(ToolSet {
            exports: tools
                .iter()
                .map(|listed| build_export(&server, listed))
                .collect(),
            unavailable: match catalog {
                Some(_) => None,
                None => {
                    Some(unavailability_reason(server.first_contact_error().as_ref()).to_owned())
                }
            },
        })
    }
}

/// Returns a fixed reason why a server's catalog is missing. It becomes a part of the system prompt,
/// so it contains no text from the server and changes rarely. Other errors count as no answer yet.
fn unavailability_reason(error: Option<&HandlerError>) -> &'static str {
    let code = error.and_then(|error| error.code.as_deref());
    let known = [
        (Code::MCP_START, "the MCP server cannot be started"),
        (
            Code::TOOL_SANDBOX,
            "the MCP server cannot be started in its sandbox",
        ),
        (
            Code::MCP_CONNECT,
            "the MCP server cannot be reached or ends at once",
        ),
        (Code::MCP_TIMEOUT, "the MCP server did not answer in time"),
        (Code::MCP_AUTH, "the MCP server requires a login"),
    ];
    known
        .into_iter()
        .find(|(known, _)| code == Some(known.as_str()))
        .map_or("the MCP server has not answered yet", |(_, reason)| reason)
}

/// Creates a warning about the catalog of `tool`.
fn catalog_warning(
    tool: &Resource<Tool>,
    bundle: &Bundle,
    message: String,
    suggestion: Option<String>,
) -> Diagnostic {
    let diagnostic = Diagnostic::new(Code::MCP_CATALOG, message)
        .of(&tool.id)
        .field("spec.mcp");
    let diagnostic = Diagnostic {
        suggestion,
        ..diagnostic
    };
    match &tool.origin {
        Some((file, at)) => diagnostic
            .in_file(file.clone())
            .at(bundle.place(&tool.id, "spec.mcp").unwrap_or(*at)),
        None => diagnostic,
    }
}

/// Creates the export and the handler of a listed tool.
fn build_export(
    server: &Arc<McpServerHandle>,
    listed: &CatalogTool,
) -> (ExportSpec, Arc<dyn ToolHandler>) {
    let code = listed.identity(&server.definition);
    let handler = RemoteTool {
        server: Arc::clone(server),
        own: listed.own.clone(),
        kind: listed.kind,
        code,
    };
    (listed.export.clone(), Arc::new(handler))
}

/// Handler of one tool of a server.
struct RemoteTool {
    server: Arc<McpServerHandle>,
    /// The server's name of the tool.
    own: String,
    kind: CatalogToolKind,
    /// Hash of the server configuration and the tool definition.
    code: String,
}

#[async_trait]
impl ToolHandler for RemoteTool {
    async fn call(&self, ctx: &ToolContext, input: JsonObject) -> Result<ToolOutput, HandlerError> {
        self.server
            .call(
                &ElicitationContext::from_context(ctx),
                self.kind,
                &self.own,
                input,
            )
            .await
    }

    /// Identifies the tool's definition, so that an approval does not cover a changed tool.
    fn code(&self) -> Option<&str> {
        Some(&self.code)
    }

    async fn current_code(&self, ctx: &ToolContext) -> Option<String> {
        let (scope, tool) = (CallScope::from_context(ctx), (self.kind, &*self.own));
        let current = self.server.current_definition(&scope, tool, &self.code);
        Some(current.await)
    }

    async fn started_files(&self, ctx: &ToolContext) -> StartedFiles {
        self.server
            .program_contents(&CallScope::from_context(ctx))
            .await
    }
}

/// Locks a mutex, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
