//! A running swarm.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use goondan_dylib::HostCommand;
use goondan_models::Providers;
use goondan_runtime::event::{RuntimeEventKind, SwarmEvent, TurnResult};
use goondan_runtime::ids::InstanceId;
use goondan_runtime::message::Message;
use goondan_runtime::orchestrator::Refusal;
use goondan_runtime::plan::{Generation, PlanPorts, plan};
use goondan_runtime::policy::{ApprovalBook, ApproveAll, Approver, Headless};
use goondan_runtime::ports::clock::{Clock, SystemClock};
use goondan_runtime::ports::model::{ModelFactory, ToolDefinition};
use goondan_runtime::ports::store::{InstanceMeta, StoreError};
use goondan_runtime::ports::tool::{ToolCallResult, ToolSource};
use goondan_runtime::redact::Redactor;
use goondan_runtime::runtime::{ExternalInput, Runtime, RuntimeParts};
use goondan_runtime::store::jsonl::{JsonlJournal, JsonlStore, LockError, OpenWorkspaceError};
use goondan_spec::diff::diff;
use goondan_spec::kinds::Swarm as SwarmSpec;
use goondan_spec::{Bundle, Diagnostic, Environment, Resource, ResourceId};
use goondan_tools::HelperCommand;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::adapters::ToolSources;
use crate::approvals::ApprovalFile;
use crate::project;
use crate::secrets;
use crate::workspace::StateRoot;

/// The conversation of an input that names none.
pub const DEFAULT_INSTANCE_KEY: &str = "main";

/// Settings of a swarm that is about to start.
pub struct SwarmBuilder {
    bundle: Arc<Bundle>,
    swarm: Option<String>,
    state_root: Option<PathBuf>,
    environment: Option<Environment>,
    models: Arc<dyn ModelFactory>,
    approver: Arc<dyn Approver>,
    approvals: Option<Arc<dyn ApprovalBook>>,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
    workdir: Option<PathBuf>,
    tool_host: Option<HostCommand>,
    sandbox_helper: Option<HelperCommand>,
}

/// A running swarm. Cheap to clone. It ends with [`Swarm::shutdown`]; its workspace is free once every clone is dropped.
#[derive(Clone)]
pub struct Swarm {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Runtime,
    ports: PlanPorts,
    tools: Arc<ToolSources>,
    environment: Environment,
    redactor: Redactor,
    workspace: PathBuf,
    swarm: ResourceId,
    /// One reload at a time.
    reloading: tokio::sync::Mutex<()>,
}

/// An input from outside.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// The text.
    pub text: String,
    /// The agent; the swarm's entry agent by default.
    pub agent: Option<String>,
    /// The conversation; `main` by default.
    pub instance_key: Option<String>,
    /// The same id twice starts one turn.
    pub id: Option<String>,
}

impl Input {
    /// An input for the entry agent's main conversation.
    pub fn text(text: impl Into<String>) -> Self {
        Input { text: text.into(), ..Input::default() }
    }
}

/// An accepted input: it is on disk.
pub struct Turn {
    /// The id of the event.
    pub event_id: String,
    /// The instance that handles it.
    pub instance: InstanceId,
    result: oneshot::Receiver<TurnResult>,
}

impl Turn {
    /// Waits until the turn is over. `None` where the swarm ended first; the turn then resumes at the next start.
    pub async fn result(self) -> Option<TurnResult> {
        self.result.await.ok()
    }
}

/// Why a swarm could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The bundle can't run as it is: no such swarm, a missing variable, a tool that does not open.
    #[error("{} problem(s) keep the swarm from starting", .0.len())]
    Diagnostics(Vec<Diagnostic>),
    /// Another process holds the workspace, or its folder can't be used.
    #[error("{message}")]
    Workspace {
        /// A sentence that stands alone.
        message: String,
        /// What to do about it.
        suggestion: Option<String>,
    },
}

/// Why the swarm did not take an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    /// Such as `AGENT_NOT_FOUND`.
    pub code: String,
    /// A sentence that stands alone.
    pub message: String,
    /// What to do about it.
    pub suggestion: Option<String>,
}

/// What came of a reload.
#[derive(Debug, Clone)]
pub struct ReloadOutcome {
    /// The new generation's number, or the diagnostics that kept the old one in place.
    pub result: Result<u64, Vec<Diagnostic>>,
    /// Resources (`Kind/name`) that are new.
    pub added: Vec<String>,
    /// Resources that differ.
    pub changed: Vec<String>,
    /// Resources that are gone.
    pub removed: Vec<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl ReloadOutcome {
    fn event(&self) -> RuntimeEventKind {
        match &self.result {
            Ok(generation) => RuntimeEventKind::ReloadCompleted {
                generation: *generation,
                added: self.added.clone(),
                changed: self.changed.clone(),
                removed: self.removed.clone(),
                duration: self.duration_ms,
            },
            Err(diagnostics) => {
                RuntimeEventKind::ReloadFailed { diagnostics: diagnostics.len(), duration: self.duration_ms }
            }
        }
    }
}

impl Swarm {
    /// Begins with the defaults: the bundle's only swarm (or `default`), the process environment with the bundle's `.env`
    /// files, state under `~/.goondan`.
    pub fn builder(bundle: Arc<Bundle>) -> SwarmBuilder {
        SwarmBuilder {
            bundle,
            swarm: None,
            state_root: None,
            environment: None,
            models: Arc::new(Providers::default()),
            approver: Arc::new(Headless),
            approvals: None,
            redactor: Redactor::new(),
            clock: Arc::new(SystemClock),
            workdir: None,
            tool_host: None,
            sandbox_helper: None,
        }
    }

    /// Hands in an input; returns once it is accepted.
    pub async fn send(&self, input: Input) -> Result<Turn, SendError> {
        let instance = self.instance(input.agent.as_deref(), input.instance_key.as_deref());
        let external = ExternalInput { target: instance.clone(), text: input.text, id: input.id };
        let accepted = self.inner.runtime.send(external).await?;
        Ok(Turn { event_id: accepted.event_id, instance, result: accepted.result })
    }

    /// Starts an event again whose turn failed, as a new event, and takes it off the list of dead letters.
    pub async fn retry(&self, instance: &InstanceId, event_id: &str) -> Result<Turn, SendError> {
        let accepted = self.inner.runtime.retry(instance, event_id).await?;
        Ok(Turn { event_id: accepted.event_id, instance: instance.clone(), result: accepted.result })
    }

    /// Calls one tool through the same dispatch as a model's call, without a model. `agent` and `instance_key` as in [`Input`].
    pub async fn call_tool(
        &self,
        agent: Option<&str>,
        instance_key: Option<&str>,
        tool: &str,
        arguments: Value,
    ) -> Result<ToolCallResult, SendError> {
        let instance = self.instance(agent, instance_key);
        let result = self.inner.runtime.call_tool(instance.clone(), tool, arguments).await;
        result.ok_or_else(|| SendError {
            code: "AGENT_NOT_FOUND".to_owned(),
            message: format!("the swarm {} has no agent `{}`", self.name(), instance.agent),
            suggestion: Some(format!("its agents are: {}", self.agents().join(", "))),
        })
    }

    /// Cancels the running turn of `instance`; false where none runs.
    pub async fn cancel(&self, instance: &InstanceId) -> bool {
        self.inner.runtime.cancel(instance).await
    }

    /// What `agent`'s model is offered at the first step of a turn.
    pub fn catalog(&self, agent: &str) -> Option<Vec<ToolDefinition>> {
        let generation = self.inner.runtime.generation();
        generation.agent(agent).map(|agent| agent.catalog.definitions().to_vec())
    }

    /// Everything that happens from now on. Unbounded: a subscriber that stops reading should drop the receiver.
    pub fn subscribe(&self) -> UnboundedReceiver<SwarmEvent> {
        self.inner.runtime.subscribe()
    }

    /// The conversation of `instance` as it stands.
    pub async fn conversation(&self, instance: &InstanceId) -> Result<Vec<Arc<Message>>, StoreError> {
        self.inner.runtime.conversation(instance).await
    }

    /// What is known of all instances, oldest first.
    pub async fn instances(&self) -> Vec<InstanceMeta> {
        self.inner.runtime.instances().await
    }

    /// The folder of an instance that its tools work in by default.
    pub fn workdir(&self, instance: &InstanceId) -> PathBuf {
        self.inner.runtime.workdir(instance)
    }

    /// Reads the bundle's folder again and swaps the new generation in, or changes nothing (rules R2, R3).
    pub async fn reload(&self) -> ReloadOutcome {
        let _one_at_a_time = self.inner.reloading.lock().await;
        let started = Instant::now();
        let old = self.inner.runtime.generation();
        let root = old.bundle.root().to_owned();
        let loaded = tokio::task::spawn_blocking(move || project::load(&root)).await;
        let mut outcome = ReloadOutcome {
            result: Err(Vec::new()),
            added: Vec::new(),
            changed: Vec::new(),
            removed: Vec::new(),
            duration_ms: 0,
        };
        outcome.result = match loaded {
            Ok(project) => self.swap_in(&old, project, &mut outcome).await,
            Err(_) => Err(Vec::new()),
        };
        outcome.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.inner.runtime.announce(outcome.event());
        outcome
    }

    async fn swap_in(
        &self,
        old: &Generation,
        project: project::Project,
        outcome: &mut ReloadOutcome,
    ) -> Result<u64, Vec<Diagnostic>> {
        let inner = &self.inner;
        let bundle = project.bundle.ok_or(project.diagnostics)?;
        let swarm = bundle.choose_swarm(Some(&inner.swarm.name)).map_err(|problem| vec![problem])?;
        inner.redactor.learn(bundle.secrets(&inner.environment));
        let generation = plan_swarm(&bundle, swarm, old.number + 1, &inner.ports, &inner.environment).await?;
        let difference = diff(&old.bundle, &bundle);
        let names = |ids: &[ResourceId]| ids.iter().map(ResourceId::to_string).collect();
        outcome.added = names(&difference.added);
        outcome.changed = names(&difference.changed);
        outcome.removed = names(&difference.removed);
        let number = generation.number;
        inner.runtime.swap(generation);
        Ok(number)
    }

    /// The name of the running Swarm resource.
    pub fn name(&self) -> String {
        self.inner.swarm.name.clone()
    }

    /// The entry agent's name.
    pub fn entry_agent(&self) -> String {
        self.inner.runtime.generation().entry_agent.clone()
    }

    /// The names of all agents, sorted.
    pub fn agents(&self) -> Vec<String> {
        self.inner.runtime.generation().agents().map(|agent| agent.name.clone()).collect()
    }

    /// Where this swarm keeps its state.
    pub fn workspace_dir(&self) -> PathBuf {
        self.inner.workspace.clone()
    }

    /// Takes no more inputs, waits for running turns within the policy's grace period, and ends.
    pub async fn shutdown(&self) {
        let grace = self.inner.runtime.generation().policy.shutdown_grace;
        self.inner.runtime.shutdown(grace).await;
        self.inner.tools.shutdown().await;
    }

    /// Ends as if the process had died: turns are dropped where they stand and resume at the next start. For tests of
    /// recovery; dropping the last clone does the same.
    pub fn kill(&self) {
        self.inner.runtime.kill();
    }

    fn instance(&self, agent: Option<&str>, instance_key: Option<&str>) -> InstanceId {
        let agent = agent.map_or_else(|| self.entry_agent(), str::to_owned);
        InstanceId::new(agent, instance_key.unwrap_or(DEFAULT_INSTANCE_KEY))
    }
}

impl From<Refusal> for SendError {
    fn from(refusal: Refusal) -> Self {
        SendError { code: refusal.code.to_owned(), message: refusal.message, suggestion: refusal.suggestion }
    }
}

impl SwarmBuilder {
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

    /// What value sources see, instead of the process environment with `.env` files.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Makes the model clients, instead of the providers that the bundle names.
    #[must_use]
    pub fn models(mut self, factory: Arc<dyn ModelFactory>) -> Self {
        self.models = factory;
        self
    }

    /// Answers what a policy asks. By default nobody is there, and every ask is a denial.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = approver;
        self
    }

    /// Keeps approvals that hold always there, instead of in [`crate::approvals::FILE`] of the project.
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
        if yes { self.approver(Arc::new(ApproveAll)) } else { self }
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

    /// Contains programs of tools with the help of that command, which must call [`crate::enter_sandbox`] before it starts
    /// a thread.
    #[must_use]
    pub fn sandbox_helper(mut self, helper: HelperCommand) -> Self {
        self.sandbox_helper = Some(helper);
        self
    }

    /// Plans the first generation, opens the workspace, resumes what was left, and runs.
    pub async fn start(self) -> Result<Swarm, StartError> {
        self.start_watched().await.map(|(swarm, _)| swarm)
    }

    /// As [`SwarmBuilder::start`], with a subscription that misses nothing, not even what resumes at once.
    pub async fn start_watched(self) -> Result<(Swarm, UnboundedReceiver<SwarmEvent>), StartError> {
        let environment = match self.environment {
            Some(environment) => environment,
            None => project::environment(self.bundle.root(), None).map_err(|d| StartError::Diagnostics(vec![d]))?,
        };
        let swarm = self.bundle.choose_swarm(self.swarm.as_deref()).map_err(|d| StartError::Diagnostics(vec![d]))?;
        let swarm_id = swarm.id.clone();
        let environment = secrets::complete(&self.bundle, &swarm_id, environment)
            .await
            .map_err(|problem| StartError::Diagnostics(vec![problem]))?;
        self.redactor.learn_environment(&environment);
        self.redactor.learn(self.bundle.secrets(&environment));
        let root = StateRoot::find(self.state_root.as_deref());
        let tools = Arc::new(ToolSources::new(&root.0.join("plugins"), self.tool_host, self.sandbox_helper));
        let ports = PlanPorts { tools: Arc::clone(&tools) as Arc<dyn ToolSource>, models: self.models };
        let generation =
            plan_swarm(&self.bundle, swarm, 1, &ports, &environment).await.map_err(StartError::Diagnostics)?;
        let workspace = root.workspace(&swarm.spec.instance_key).dir;
        let dir = workspace.clone();
        let store = tokio::task::spawn_blocking(move || JsonlStore::open(&dir)).await;
        let store = store.map_err(|panic| workspace_error(panic.to_string()))?.map_err(cannot_open)?;
        let approvals = match self.approvals {
            Some(book) => book,
            None => Arc::new(
                ApprovalFile::of(self.bundle.root()).map_err(|problem| StartError::Diagnostics(vec![problem]))?,
            ),
        };
        let parts = RuntimeParts {
            approvals,
            redactor: self.redactor.clone(),
            generation,
            store: Arc::new(store),
            journal: Arc::new(JsonlJournal::new(workspace.clone())),
            clock: self.clock,
            approver: self.approver,
            workdir: self.workdir.as_deref().map(absolute),
        };
        let (runtime, events) = Runtime::start(parts).map_err(|error| workspace_error(error.message))?;
        let reloading = tokio::sync::Mutex::new(());
        let inner = Inner {
            redactor: self.redactor,
            runtime,
            ports,
            tools,
            environment,
            workspace,
            swarm: swarm_id,
            reloading,
        };
        Ok((Swarm { inner: Arc::new(inner) }, events))
    }
}

async fn plan_swarm(
    bundle: &Arc<Bundle>,
    swarm: &Resource<SwarmSpec>,
    number: u64,
    ports: &PlanPorts,
    environment: &Environment,
) -> Result<Generation, Vec<Diagnostic>> {
    let missing = bundle.missing_environment(&swarm.id, environment);
    if missing.is_empty() { plan(bundle, swarm, number, ports, environment).await } else { Err(missing) }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn cannot_open(error: OpenWorkspaceError) -> StartError {
    let held = matches!(error, OpenWorkspaceError::Locked(LockError::Held { .. }));
    let suggestion = held
        .then(|| "send the input to that process, wait until it has ended, or use another `--state-root`".to_owned());
    StartError::Workspace { message: error.to_string(), suggestion }
}

fn workspace_error(message: String) -> StartError {
    StartError::Workspace { message, suggestion: None }
}
