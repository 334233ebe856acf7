//! Settings and start of a swarm.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use goondan_core::event::SwarmEvent;
use goondan_core::ports::approval::{ApprovalStore, ApproveAll, Approver, HeadlessApprover};
use goondan_core::ports::clock::{Clock, SystemClock};
use goondan_core::ports::cluster::ClusterMembership;
use goondan_core::ports::model::ModelFactory;
use goondan_core::ports::store::Store;
use goondan_core::ports::tool::{InstanceObserver, ToolSource};
use goondan_core::ports::tracing::TracePolicy;
use goondan_dylib::HostCommand;
use goondan_engine::plan::{Generation, PlanPorts};
use goondan_engine::policy::redact::SecretRedactor;
use goondan_engine::runtime::{EngineNodeParts, RuntimeParts, SwarmRuntime};
use goondan_mcp::ServerMocks;
use goondan_models::ModelProviders;
use goondan_spec::{Bundle, Environment, OsFiles, ResourceId};
use goondan_store::jsonl::{JsonlStore, LostLogPolicy, OpenWorkspaceError};
use goondan_telemetry::{TelemetryExporter, TelemetrySettings};
use goondan_tools::HelperCommand;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::adapters::EntryToolSource;
use crate::adapters::embedded_tools::{EmbeddedTool, EmbeddedTools};
use crate::adapters::tool_stubs::{StubbedToolSource, ToolStubs};
use crate::approvals::ApprovalFile;
use crate::reload::{
    FIRST_GENERATION, ReloadCache, ReloadCheck, ReloadListeners, ToolReloads, compute_reload_basis,
    follow_servers, plan_swarm,
};
use crate::start::environment::VariableSource;
use crate::start::package_copies::copy_packages;
use crate::start::secrets;
use crate::start::start_error::StartError;
use crate::start::swarm::{Swarm, SwarmInner};
use crate::start::telemetry::{self, StartedTelemetry};
use crate::workspace::database::{
    LeadingNode, SharedDatabase, StandbyNode, project_digest, serve_queued_inputs,
};
use crate::workspace::identity::WorkspaceOwner;
use crate::workspace::running_record::GenerationRecorder;
use crate::workspace::{StateRoot, Workspace};

/// Settings of a swarm.
pub struct SwarmBuilder {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) swarm: Option<String>,
    pub(crate) state_root: Option<PathBuf>,
    pub(crate) workspace: Option<Workspace>,
    pub(crate) variables: VariableSource,
    pub(crate) models: Arc<dyn ModelFactory>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) database: Option<SharedDatabase>,
    pub(crate) tools: Option<Arc<dyn ToolSource>>,
    embedded: EmbeddedTools,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) approvals: Option<Arc<dyn ApprovalStore>>,
    pub(crate) redactor: SecretRedactor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) workdir: Option<PathBuf>,
    pub(crate) tool_host: Option<HostCommand>,
    pub(crate) sandbox_helper: Option<HelperCommand>,
    pub(crate) mcp_mocks: Option<Arc<dyn ServerMocks>>,
    pub(crate) tool_stubs: Option<Arc<dyn ToolStubs>>,
    pub(crate) reloads_at_hangup: bool,
    pub(crate) reload_check: Option<ReloadCheck>,
    pub(crate) telemetry: Option<TelemetrySettings>,
    pub(crate) lost_log: LostLogPolicy,
}

impl SwarmBuilder {
    /// Creates the default settings; see [`Swarm::builder`].
    pub(crate) fn new(bundle: Arc<Bundle>) -> Self {
        SwarmBuilder {
            bundle,
            swarm: None,
            state_root: None,
            workspace: None,
            variables: VariableSource::OfProject { env_file: None },
            models: Arc::new(ModelProviders::default()),
            store: None,
            database: None,
            tools: None,
            embedded: EmbeddedTools::default(),
            approver: Arc::new(HeadlessApprover),
            approvals: None,
            redactor: SecretRedactor::new(),
            clock: Arc::new(SystemClock),
            workdir: None,
            tool_host: None,
            sandbox_helper: None,
            mcp_mocks: None,
            tool_stubs: None,
            reloads_at_hangup: false,
            reload_check: None,
            telemetry: None,
            lost_log: LostLogPolicy::Refuse,
        }
    }

    /// Selects the Swarm resource by name. Default: the only one, or the one named `default`.
    #[must_use]
    pub fn swarm(mut self, name: impl Into<String>) -> Self {
        self.swarm = Some(name.into());
        self
    }

    /// Sets the directory for state.
    #[must_use]
    pub fn state_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_root = Some(path.into());
        self
    }

    /// Starts even if the log of the workspace is lost. Default: such a start fails.
    #[must_use]
    pub fn accept_loss(mut self, is_accepted: bool) -> Self {
        self.lost_log = match is_accepted {
            true => LostLogPolicy::Accept,
            false => LostLogPolicy::Refuse,
        };
        self
    }

    /// Sets the workspace for conversations. Default: the project's own workspace.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// Sets the variables for value sources. Default: the process environment with `.env` files. A
    /// reload keeps these variables and reads no environment files.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.variables = VariableSource::Given(environment);
        self
    }

    /// Reads this environment file before `.env.local` and `.env` (`--env-file`). A reload reads
    /// all of them again.
    #[must_use]
    pub fn env_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.variables = VariableSource::OfProject {
            env_file: Some(path.into()),
        };
        self
    }

    /// Sets the factory of model clients. Default: the providers that the bundle names.
    #[must_use]
    pub fn models(mut self, factory: Arc<dyn ModelFactory>) -> Self {
        self.models = factory;
        self
    }

    /// Sets the store for conversations and accepted events. Default: files in the workspace.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Stores conversations and accepted events in a database that several nodes can share. One
    /// node at a time leads the workspace.
    #[must_use]
    pub fn database(mut self, database: SharedDatabase) -> Self {
        self.database = Some(database);
        self
    }

    /// Adds a tool whose functions are part of this program. A Tool resource with `entry: embedded`
    /// and the same name declares its exports. All other tools stay available.
    #[must_use]
    pub fn tool(mut self, tool: EmbeddedTool) -> Self {
        self.embedded.add(tool);
        self
    }

    /// Sets the source of tools. Default: the entries of the Tool resources. A source can delegate
    /// unknown tools to others.
    #[must_use]
    pub fn tools(mut self, tools: Arc<dyn ToolSource>) -> Self {
        self.tools = Some(tools);
        self
    }

    /// Sets the approver for calls that a policy asks about. Default: none, so every such call is
    /// denied.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = approver;
        self
    }

    /// Sets the store of permanent approvals. Default: [`crate::approvals::APPROVALS_FILE`] in the workspace.
    #[must_use]
    pub fn approvals(mut self, book: Arc<dyn ApprovalStore>) -> Self {
        self.approvals = Some(book);
        self
    }

    /// Adds the secrets of this run to `redactor`, so that an existing log also masks them.
    #[must_use]
    pub fn redactor(mut self, redactor: SecretRedactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Approves every approval request (`--yes`).
    #[must_use]
    pub fn approve_all(self, yes: bool) -> Self {
        if yes {
            self.approver(Arc::new(ApproveAll))
        } else {
            self
        }
    }

    /// Sets the source of times and IDs.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Overrides the working directory of all agents.
    #[must_use]
    pub fn workdir(mut self, path: impl Into<PathBuf>) -> Self {
        self.workdir = Some(path.into());
        self
    }

    /// Runs libraries with `isolation: process` in processes of this command; see
    /// [`crate::tool_host`].
    #[must_use]
    pub fn tool_host(mut self, host: HostCommand) -> Self {
        self.tool_host = Some(host);
        self
    }

    /// Records for other processes that this process reloads the swarm on SIGHUP. The caller must
    /// install the signal handler.
    #[must_use]
    pub fn reloads_at_hangup(mut self, yes: bool) -> Self {
        self.reloads_at_hangup = yes;
        self
    }

    /// Sets a check that runs before a reload applies a project and before a watch builds its
    /// tools. The caller checks the initial project itself.
    #[must_use]
    pub fn reload_check(mut self, check: ReloadCheck) -> Self {
        self.reload_check = Some(check);
        self
    }

    /// Runs tool programs in a sandbox with the help of this command. It must call
    /// [`crate::enter_sandbox`] before it starts a thread.
    #[must_use]
    pub fn sandbox_helper(mut self, helper: HelperCommand) -> Self {
        self.sandbox_helper = Some(helper);
        self
    }

    /// Replaces MCP servers with mocks.
    #[must_use]
    pub fn mcp_mocks(mut self, mocks: Arc<dyn ServerMocks>) -> Self {
        self.mcp_mocks = Some(mocks);
        self
    }

    /// Replaces the handlers of tools with stubs.
    #[must_use]
    pub fn tool_stubs(mut self, stubs: Arc<dyn ToolStubs>) -> Self {
        self.tool_stubs = Some(stubs);
        self
    }

    /// Exports telemetry with these settings. Default: nothing is exported.
    #[must_use]
    pub fn telemetry(mut self, settings: TelemetrySettings) -> Self {
        self.telemetry = Some(settings);
        self
    }

    /// Plans the first generation, opens the workspace, resumes unfinished turns and starts the
    /// swarm.
    pub async fn start(self) -> Result<Swarm, StartError> {
        self.start_watched().await.map(|(swarm, _)| swarm)
    }

    /// Returns the source of tools and extensions.
    pub(crate) fn tool_sources(
        &self,
        root: &StateRoot,
        environment: &Environment,
    ) -> Arc<EntryToolSource> {
        let (host, helper, mocks) = (&self.tool_host, &self.sandbox_helper, &self.mcp_mocks);
        let sources = EntryToolSource::new(
            &root.0,
            host.clone(),
            helper.clone(),
            mocks.clone(),
            environment.clone(),
        );
        let sources = sources.embedded(self.embedded.clone());
        Arc::new(sources.redactor(self.redactor.clone()))
    }

    /// Starts the swarm like [`SwarmBuilder::start`], with a subscription that includes every
    /// event, including the events of resumed turns.
    pub async fn start_watched(
        mut self,
    ) -> Result<(Swarm, UnboundedReceiver<SwarmEvent>), StartError> {
        let mut first = self.first_generation().await?;
        let workspace = self.workspace_to_run(&first)?;
        let swarm = self.bundle.choose_swarm(Some(&first.swarm.name))?;
        let StartedTelemetry {
            telemetry,
            watchers,
            tracing,
        } = telemetry::begin(self.telemetry.take(), swarm, &self.redactor, &*self.clock);
        let (store, node) = self.opened_store(&mut first, &workspace, &tracing).await?;
        let bundle = Arc::clone(&first.generation.bundle);
        workspace.claim(&WorkspaceOwner::of(
            &bundle,
            bundle.choose_swarm(Some(&first.swarm.name))?,
        ))?;
        let reloader = Arc::new(ToolReloads::default());
        let approvals = match self.approvals.take() {
            Some(book) => book,
            None => Arc::new(ApprovalFile::of(&workspace.dir, self.bundle.root())?),
        };
        let parts = RuntimeParts {
            crew: node
                .as_ref()
                .map(|node| Arc::clone(&node.crew) as Arc<dyn ClusterMembership>),
            node: self.node_parts(&first.tools, &tracing)(Arc::clone(&first.generation), store),
            watchers,
            approvals,
            approver: Arc::clone(&self.approver),
            reloader: Some(Arc::clone(&reloader) as _),
        };
        let (runtime, events) = SwarmRuntime::start(parts)
            .await
            .map_err(OpenWorkspaceError::from)?;
        let environment = first.environment.clone();
        let swarm = Swarm::of(Arc::new(
            self.inner(first, workspace, runtime, node, telemetry),
        ));
        let stocktaking = compute_reload_basis(&swarm, environment);
        *swarm
            .inner()
            .stocktaking
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(stocktaking);
        reloader.serve(&swarm);
        follow_servers(&swarm);
        serve_queued_inputs(&swarm);
        Ok((swarm, events))
    }

    /// Plans the first generation of the swarm.
    async fn first_generation(&mut self) -> Result<FirstGeneration, StartError> {
        let environment = self.variables.read(&OsFiles, self.bundle.root())?;
        let swarm = self.bundle.choose_swarm(self.swarm.as_deref())?;
        let environment = secrets::complete(&self.bundle, &swarm.id, environment).await?;
        let root = StateRoot::find(self.state_root.as_deref());
        root.prepare_or_warn();
        copy_packages(&self.bundle, &root).await?;
        let tools = self.tool_sources(&root, &environment);
        let source = self
            .tools
            .take()
            .unwrap_or_else(|| Arc::clone(&tools) as Arc<dyn ToolSource>);
        let source = match self.tool_stubs.take() {
            Some(stubs) => Arc::new(StubbedToolSource { source, stubs }) as Arc<dyn ToolSource>,
            None => source,
        };
        let ports = PlanPorts {
            tools: source,
            ..tools.ports(Arc::clone(&self.models))
        };
        tools.mcp().prepare(&self.bundle, swarm);
        let planned = plan_swarm(
            &self.bundle,
            swarm,
            FIRST_GENERATION,
            &ports,
            &environment,
            None,
            &self.redactor,
        );
        let mut generation = planned.await.map_err(StartError::Diagnostics)?;
        tools.mcp().accept_prepared();
        generation
            .warnings
            .extend(tools.mcp().notices(&self.bundle));
        Ok(FirstGeneration {
            swarm: swarm.id.clone(),
            root,
            environment,
            tools,
            ports,
            generation: Arc::new(generation),
        })
    }

    /// Returns the configured workspace, or the project's own.
    fn workspace_to_run(&mut self, first: &FirstGeneration) -> Result<Workspace, StartError> {
        if let Some(workspace) = self.workspace.take() {
            return Ok(workspace);
        }
        let swarm = self.bundle.choose_swarm(Some(&first.swarm.name))?;
        first
            .root
            .workspace_to_run(&self.bundle, swarm)?
            .map_err(|stranger| {
                StartError::BelongsToAnother(
                    first.root.workspace_of(&self.bundle, swarm),
                    Box::new(stranger),
                )
            })
    }

    /// Opens the store of the workspace. With a database, this waits until the node leads the
    /// workspace. The node can then have another generation than at the start.
    async fn opened_store(
        &mut self,
        first: &mut FirstGeneration,
        workspace: &Workspace,
        tracing: &Arc<dyn TracePolicy>,
    ) -> Result<(Arc<dyn Store>, Option<LeadingNode>), StartError> {
        if let Some(store) = self.store.take() {
            return Ok((store, None));
        }
        let Some(database) = self.database.take() else {
            return Ok((open_store(workspace, self.lost_log).await?, None));
        };
        let mut standby = StandbyNode {
            mark: project_digest(&self.bundle, &first.swarm).await,
            generation: Arc::clone(&first.generation),
            environment: first.environment.clone(),
            swarm: first.swarm.clone(),
            ports: &first.ports,
            tools: &first.tools,
            variables: &self.variables,
            reload_check: self.reload_check.as_ref(),
            redactor: &self.redactor,
        };
        let node = database
            .join(
                workspace,
                &mut standby,
                self.node_parts(&first.tools, tracing),
            )
            .await?;
        let StandbyNode {
            generation,
            environment,
            ..
        } = standby;
        (first.generation, first.environment) = (generation, environment);
        Ok((Arc::clone(&node.store) as Arc<dyn Store>, Some(node)))
    }

    /// Returns the components of a node for a generation and a store.
    fn node_parts(
        &self,
        tools: &Arc<EntryToolSource>,
        tracing: &Arc<dyn TracePolicy>,
    ) -> impl Fn(Arc<Generation>, Arc<dyn Store>) -> EngineNodeParts + use<> {
        let (clock, redactor, workdir) = (
            Arc::clone(&self.clock),
            self.redactor.clone(),
            self.workdir.as_deref().map(absolute),
        );
        let (tools, tracing) = (Arc::clone(tools), Arc::clone(tracing));
        move |generation, store| EngineNodeParts {
            generation,
            store,
            clock: Arc::clone(&clock),
            redactor: redactor.clone(),
            has_sandbox: goondan_tools::has_sandbox(),
            workdir: workdir.clone(),
            tracing: Arc::clone(&tracing),
            observer: Arc::clone(&tools) as Arc<dyn InstanceObserver>,
        }
    }

    /// Creates the state of the started swarm.
    fn inner(
        self,
        first: FirstGeneration,
        workspace: Workspace,
        runtime: SwarmRuntime,
        node: Option<LeadingNode>,
        telemetry: Option<TelemetryExporter>,
    ) -> SwarmInner {
        let notebook = GenerationRecorder {
            swarm: first.swarm,
            root: self.bundle.root().to_owned(),
            workspace,
            reloads_at_hangup: self.reloads_at_hangup,
        };
        SwarmInner {
            node,
            telemetry,
            redactor: self.redactor,
            runtime,
            ports: first.ports,
            tools: first.tools,
            variables: self.variables,
            contents: Arc::default(),
            reload_check: self.reload_check,
            state_root: first.root,
            notebook,
            reloading: Arc::default(),
            stocktaking: Mutex::default(),
            read_before: ReloadCache::default(),
            reload_listeners: ReloadListeners::default(),
        }
    }
}

/// Parts of a start that the first generation determines.
struct FirstGeneration {
    swarm: ResourceId,
    root: StateRoot,
    environment: Environment,
    tools: Arc<EntryToolSource>,
    ports: PlanPorts,
    generation: Arc<Generation>,
}

/// Opens the store in the files of the workspace. Fails if another process holds the workspace.
async fn open_store(
    workspace: &Workspace,
    lost_log: LostLogPolicy,
) -> Result<Arc<dyn Store>, StartError> {
    let dir = workspace.dir.clone();
    Ok(Arc::new(
        tokio::task::spawn_blocking(move || JsonlStore::open_with(&dir, lost_log))
            .await
            .map_err(io::Error::from)??,
    ))
}

/// Returns the absolute path, or the path itself if the current directory is unknown.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
