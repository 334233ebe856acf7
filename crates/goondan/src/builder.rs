//! Settings of a swarm, and its start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use goondan_core::event::SwarmEvent;
use goondan_core::ports::approval::{ApprovalBook, ApproveAll, Approver, Headless};
use goondan_core::ports::clock::{Clock, SystemClock};
use goondan_core::ports::cluster::Crew;
use goondan_core::ports::model::ModelFactory;
use goondan_core::ports::store::Store;
use goondan_core::ports::tool::{InstanceObserver, ToolSource};
use goondan_core::ports::tracing::Tracing;
use goondan_dylib::HostCommand;
use goondan_engine::plan::{Generation, PlanPorts};
use goondan_engine::policy::redact::Redactor;
use goondan_engine::runtime::{NodeParts, Runtime, RuntimeParts};
use goondan_mcp::StandIns;
use goondan_models::Providers;
use goondan_spec::{Bundle, Environment, OsFiles, ResourceId};
use goondan_store::jsonl::{JsonlStore, OpenWorkspaceError};
use goondan_telemetry::{Settings, Telemetry};
use goondan_tools::HelperCommand;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::adapters::ToolSources;
use crate::approvals::ApprovalFile;
use crate::database::{Database, Node, Standby, mark_of, serve_letters};
use crate::generation::Notebook;
use crate::identity::Owner;
use crate::reload::{
    FIRST_GENERATION, ReadBefore, ReloadCheck, ReloadListeners, ToolReloads, follow_servers,
    plan_swarm, take_stock,
};
use crate::secrets;
use crate::stand_ins::{StoodIn, ToolStandIns};
use crate::start_error::StartError;
use crate::swarm::{Inner, Swarm};
use crate::telemetry::{self, Begun};
use crate::variables::Variables;
use crate::workspace::{StateRoot, Workspace};

/// Settings of a swarm that is about to start.
pub struct SwarmBuilder {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) swarm: Option<String>,
    pub(crate) state_root: Option<PathBuf>,
    pub(crate) workspace: Option<Workspace>,
    pub(crate) variables: Variables,
    pub(crate) models: Arc<dyn ModelFactory>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) database: Option<Database>,
    pub(crate) tools: Option<Arc<dyn ToolSource>>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) approvals: Option<Arc<dyn ApprovalBook>>,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) workdir: Option<PathBuf>,
    pub(crate) tool_host: Option<HostCommand>,
    pub(crate) sandbox_helper: Option<HelperCommand>,
    pub(crate) mcp_stand_ins: Option<Arc<dyn StandIns>>,
    pub(crate) tool_stand_ins: Option<Arc<dyn ToolStandIns>>,
    pub(crate) reloads_at_hangup: bool,
    pub(crate) reload_check: Option<ReloadCheck>,
    pub(crate) telemetry: Option<Settings>,
}

impl SwarmBuilder {
    /// The defaults; see [`Swarm::builder`].
    pub(crate) fn new(bundle: Arc<Bundle>) -> Self {
        SwarmBuilder {
            bundle,
            swarm: None,
            state_root: None,
            workspace: None,
            variables: Variables::OfProject { env_file: None },
            models: Arc::new(Providers::default()),
            store: None,
            database: None,
            tools: None,
            approver: Arc::new(Headless),
            approvals: None,
            redactor: Redactor::new(),
            clock: Arc::new(SystemClock),
            workdir: None,
            tool_host: None,
            sandbox_helper: None,
            mcp_stand_ins: None,
            tool_stand_ins: None,
            reloads_at_hangup: false,
            reload_check: None,
            telemetry: None,
        }
    }

    /// Runs the Swarm resource of that name.
    #[must_use]
    pub fn swarm(mut self, name: impl Into<String>) -> Self {
        self.swarm = Some(name.into());
        self
    }

    /// Keeps state below that folder.
    #[must_use]
    pub fn state_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_root = Some(path.into());
        self
    }

    /// Keeps conversations in that workspace, instead of in the project's own.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// What value sources see, instead of the process environment with `.env` files. It stays that way: a reload reads no
    /// environment files.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.variables = Variables::Given(environment);
        self
    }

    /// Reads this environment file before `.env.local` and `.env` (`--env-file`). A reload reads all of them again.
    #[must_use]
    pub fn env_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.variables = Variables::OfProject {
            env_file: Some(path.into()),
        };
        self
    }

    /// Makes the model clients, instead of the providers that the bundle names.
    #[must_use]
    pub fn models(mut self, factory: Arc<dyn ModelFactory>) -> Self {
        self.models = factory;
        self
    }

    /// Keeps conversations and accepted events there, instead of in files of the workspace.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Keeps conversations and accepted events in that database, which other nodes may use, too: one at a time works in the
    /// workspace.
    #[must_use]
    pub fn database(mut self, database: Database) -> Self {
        self.database = Some(database);
        self
    }

    /// Opens the tools, instead of what their entries say. A source that has no such tool may hand it on to others.
    #[must_use]
    pub fn tools(mut self, tools: Arc<dyn ToolSource>) -> Self {
        self.tools = Some(tools);
        self
    }

    /// Answers what a policy asks. By default nobody is there, and every ask is a denial.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = approver;
        self
    }

    /// Keeps approvals that hold always there, instead of in [`crate::approvals::FILE`] of the workspace.
    #[must_use]
    pub fn approvals(mut self, book: Arc<dyn ApprovalBook>) -> Self {
        self.approvals = Some(book);
        self
    }

    /// Teaches `redactor` the secrets of this run, so that a log that was made before keeps them out, too.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Answers every approval with yes (`--yes`).
    #[must_use]
    pub fn approve_all(self, yes: bool) -> Self {
        if yes {
            self.approver(Arc::new(ApproveAll))
        } else {
            self
        }
    }

    /// Takes time and ids from there.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Lets tools work there, whatever the agents say.
    #[must_use]
    pub fn workdir(mut self, path: impl Into<PathBuf>) -> Self {
        self.workdir = Some(path.into());
        self
    }

    /// Runs libraries with `isolation: process` in processes of that command; see [`crate::tool_host`].
    #[must_use]
    pub fn tool_host(mut self, host: HostCommand) -> Self {
        self.tool_host = Some(host);
        self
    }

    /// Notes for other processes that this one reloads the swarm when it gets SIGHUP. Whoever says so must see to it.
    #[must_use]
    pub fn reloads_at_hangup(mut self, yes: bool) -> Self {
        self.reloads_at_hangup = yes;
        self
    }

    /// Asks that before a reload takes up a project, and before a watch builds its tools. The project that it starts with has
    /// been looked at by whoever starts it.
    #[must_use]
    pub fn reload_check(mut self, check: ReloadCheck) -> Self {
        self.reload_check = Some(check);
        self
    }

    /// Contains programs of tools with the help of that command, which must call [`crate::enter_sandbox`] before it starts
    /// a thread.
    #[must_use]
    pub fn sandbox_helper(mut self, helper: HelperCommand) -> Self {
        self.sandbox_helper = Some(helper);
        self
    }

    /// Lets others stand in for MCP servers.
    #[must_use]
    pub fn mcp_stand_ins(mut self, stand_ins: Arc<dyn StandIns>) -> Self {
        self.mcp_stand_ins = Some(stand_ins);
        self
    }

    /// Lets others stand in for the handlers of tools.
    #[must_use]
    pub fn tool_stand_ins(mut self, stand_ins: Arc<dyn ToolStandIns>) -> Self {
        self.tool_stand_ins = Some(stand_ins);
        self
    }

    /// Sends what happens to a receiver of telemetry, by those settings. By default nothing is sent anywhere.
    #[must_use]
    pub fn telemetry(mut self, settings: Settings) -> Self {
        self.telemetry = Some(settings);
        self
    }

    /// Plans the first generation, opens the workspace, resumes what was left, and runs.
    pub async fn start(self) -> Result<Swarm, StartError> {
        self.start_watched().await.map(|(swarm, _)| swarm)
    }

    /// Where tools and extensions come from.
    pub(crate) fn tool_sources(
        &self,
        root: &StateRoot,
        environment: &Environment,
    ) -> Arc<ToolSources> {
        let (host, helper, stand_ins) =
            (&self.tool_host, &self.sandbox_helper, &self.mcp_stand_ins);
        let sources = ToolSources::new(
            &root.0,
            host.clone(),
            helper.clone(),
            stand_ins.clone(),
            environment.clone(),
        );
        Arc::new(sources)
    }

    /// As [`SwarmBuilder::start`], with a subscription that misses nothing, not even what resumes at once.
    pub async fn start_watched(
        mut self,
    ) -> Result<(Swarm, UnboundedReceiver<SwarmEvent>), StartError> {
        let mut first = self.first_generation().await?;
        let workspace = self.workspace_to_run(&first)?;
        let swarm = self.bundle.choose_swarm(Some(&first.swarm.name))?;
        let Begun {
            telemetry,
            watchers,
            tracing,
        } = telemetry::begin(self.telemetry.take(), swarm, &self.redactor, &*self.clock);
        let (store, node) = self.opened_store(&mut first, &workspace, &tracing).await?;
        let bundle = Arc::clone(&first.generation.bundle);
        workspace.claim(&Owner::of(
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
                .map(|node| Arc::clone(&node.crew) as Arc<dyn Crew>),
            node: self.node_parts(&first.tools, &tracing)(Arc::clone(&first.generation), store),
            watchers,
            approvals,
            approver: Arc::clone(&self.approver),
            reloader: Some(Arc::clone(&reloader) as _),
        };
        let (runtime, events) = Runtime::start(parts)
            .await
            .map_err(OpenWorkspaceError::from)?;
        let environment = first.environment.clone();
        let swarm = Swarm::of(Arc::new(
            self.inner(first, workspace, runtime, node, telemetry),
        ));
        let stocktaking = take_stock(&swarm, environment);
        *swarm
            .inner()
            .stocktaking
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(stocktaking);
        reloader.serve(&swarm);
        follow_servers(&swarm);
        serve_letters(&swarm);
        Ok((swarm, events))
    }

    /// Plans the first generation of the swarm.
    async fn first_generation(&mut self) -> Result<First, StartError> {
        let environment = self.variables.read(&OsFiles, self.bundle.root())?;
        let swarm = self.bundle.choose_swarm(self.swarm.as_deref())?;
        let environment = secrets::complete(&self.bundle, &swarm.id, environment).await?;
        let root = StateRoot::find(self.state_root.as_deref());
        root.prepare_or_warn();
        let tools = self.tool_sources(&root, &environment);
        let source = self
            .tools
            .take()
            .unwrap_or_else(|| Arc::clone(&tools) as Arc<dyn ToolSource>);
        let source = match self.tool_stand_ins.take() {
            Some(stand_ins) => Arc::new(StoodIn { source, stand_ins }) as Arc<dyn ToolSource>,
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
        generation
            .warnings
            .extend(tools.mcp().notices(&self.bundle));
        Ok(First {
            swarm: swarm.id.clone(),
            root,
            environment,
            tools,
            ports,
            generation: Arc::new(generation),
        })
    }

    /// The workspace that was stated, or the project's own.
    fn workspace_to_run(&mut self, first: &First) -> Result<Workspace, StartError> {
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

    /// The store of the workspace. With a database, that takes until this node leads there; what it leads with may be another
    /// generation than the one that it came with.
    async fn opened_store(
        &mut self,
        first: &mut First,
        workspace: &Workspace,
        tracing: &Arc<dyn Tracing>,
    ) -> Result<(Arc<dyn Store>, Option<Node>), StartError> {
        if let Some(store) = self.store.take() {
            return Ok((store, None));
        }
        let Some(database) = self.database.take() else {
            return Ok((open_store(workspace).await?, None));
        };
        let mut standby = Standby {
            mark: mark_of(&self.bundle, &first.swarm).await,
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
        let Standby {
            generation,
            environment,
            ..
        } = standby;
        (first.generation, first.environment) = (generation, environment);
        Ok((Arc::clone(&node.store) as Arc<dyn Store>, Some(node)))
    }

    /// What a node runs with, behind a generation and a store.
    fn node_parts(
        &self,
        tools: &Arc<ToolSources>,
        tracing: &Arc<dyn Tracing>,
    ) -> impl Fn(Arc<Generation>, Arc<dyn Store>) -> NodeParts + use<> {
        let (clock, redactor, workdir) = (
            Arc::clone(&self.clock),
            self.redactor.clone(),
            self.workdir.as_deref().map(absolute),
        );
        let (tools, tracing) = (Arc::clone(tools), Arc::clone(tracing));
        move |generation, store| NodeParts {
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

    fn inner(
        self,
        first: First,
        workspace: Workspace,
        runtime: Runtime,
        node: Option<Node>,
        telemetry: Option<Telemetry>,
    ) -> Inner {
        let notebook = Notebook {
            swarm: first.swarm,
            root: self.bundle.root().to_owned(),
            workspace,
            reloads_at_hangup: self.reloads_at_hangup,
        };
        Inner {
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
            read_before: ReadBefore::default(),
            reload_listeners: ReloadListeners::default(),
        }
    }
}

/// What a swarm begins with.
struct First {
    swarm: ResourceId,
    root: StateRoot,
    environment: Environment,
    tools: Arc<ToolSources>,
    ports: PlanPorts,
    generation: Arc<Generation>,
}

async fn open_store(workspace: &Workspace) -> Result<Arc<dyn Store>, StartError> {
    let dir = workspace.dir.clone();
    Ok(Arc::new(
        tokio::task::spawn_blocking(move || JsonlStore::open(&dir))
            .await
            .map_err(io::Error::from)??,
    ))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
