//! Context of a test case: its directories, its models and its observations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use goondan::spec::kinds::AgentWorkdir;
use goondan::spec::{Bundle, Diagnostic, Environment};
use goondan::workspace::database::{self, PostgresOpenError, SharedDatabase};
use goondan::{HostCommand, StartError, StateRoot, Workspace};
use serde_json::Value;
use tempfile::TempDir;

use super::approval::ScriptedApprover;
use super::clock::CaseClock;
use super::cluster::{CaseCluster, StepError};
use super::events::CaseEvents;
use super::logs::CaseLogs;
use super::mcp_mocks::McpServers;
use super::models::CaseModels;
use super::project::ProjectFolder;
use super::substitute::Saved;
use super::swarm_process::{MODEL_CALL_DELAY, OutOfTime, SwarmProcess};
use super::tool_mocks::ToolMocks;
use super::web::WebServer;
use crate::case::read::LocatedCase;
use crate::case::{ConformanceCase, StepAction};
use crate::live::LiveCase;

/// Time that a killed swarm has to release the workspace, and the interval of checks.
const WORKSPACE_RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Conditions of a run.
#[derive(Clone)]
pub(crate) struct RunConditions {
    /// Time limit.
    pub(crate) time_limit: Duration,
    /// Database for conversations, instead of files.
    pub(crate) database: Option<SharedDatabase>,
    /// Number of nodes.
    pub(crate) nodes: usize,
    /// Live options, for a run with the real models of the project.
    pub(crate) live: Option<LiveCase>,
    /// Command that starts processes for libraries.
    pub(crate) tool_host: Option<HostCommand>,
}

/// Context of one test case. Everything except the running swarm survives `kill` and `restart`.
pub(crate) struct CaseContext<'c> {
    pub(crate) case: &'c ConformanceCase,
    pub(crate) project: ProjectFolder,
    pub(crate) events: CaseEvents,
    pub(crate) logs: CaseLogs,
    pub(crate) saved: Saved,
    pub(crate) process: Option<SwarmProcess>,
    /// A swarm was running at some time.
    pub(crate) started: bool,
    /// Working directories of the agents' tools, from the last valid bundle.
    pub(crate) workdirs: BTreeMap<String, AgentWorkdir>,
    /// Diagnostics of the last load and start.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// A kill, or turns that still ran at the end. Events may lack their end.
    pub(crate) cut_off: bool,
    pub(super) answers: ScriptedApprover,
    pub(super) models: Arc<CaseModels>,
    pub(super) mcp: Arc<McpServers>,
    pub(super) tools: Arc<ToolMocks>,
    /// Live options, for a run with the real models of the project.
    pub(super) live: Option<LiveCase>,
    pub(super) clock: CaseClock,
    /// Server for the pages of the test case, if any.
    _web: Option<WebServer>,
    deadline: Instant,
    folder: TempDir,
    /// Database for conversations, instead of files.
    pub(super) database: Option<SharedDatabase>,
    /// Number of nodes.
    pub(super) nodes: usize,
    /// Command that starts processes for libraries.
    pub(super) tool_host: Option<HostCommand>,
}

impl<'c> CaseContext<'c> {
    /// Creates new directories with the project of the test case.
    pub(crate) fn create(
        located: &'c LocatedCase,
        RunConditions {
            time_limit,
            database,
            nodes,
            live,
            tool_host,
        }: RunConditions,
    ) -> Result<Self, String> {
        let case = &located.case;
        let mut builder = tempfile::Builder::new();
        builder.prefix("goondan-case-");
        // The project can contain keys, and other users can read the directory of temporary files.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir().map_err(|error| error.to_string())?;
        let web = match &case.web {
            none if none.is_empty() => None,
            pages => Some(
                WebServer::start(pages.clone())
                    .map_err(|error| format!("the web server can't start: {error}"))?,
            ),
        };
        Ok(CaseContext {
            case,
            project: create_project(located, folder.path().join("project"))?,
            events: CaseEvents::new(),
            logs: CaseLogs::default(),
            saved: web
                .iter()
                .map(|web| ("web".to_owned(), web.template_values()))
                .collect(),
            process: None,
            started: false,
            workdirs: BTreeMap::new(),
            diagnostics: Vec::new(),
            cut_off: false,
            answers: ScriptedApprover::default(),
            models: Arc::new(CaseModels::for_case(case, live.as_ref())),
            mcp: Arc::new(McpServers::new(&case.mcp)),
            tools: Arc::new(ToolMocks::for_case(case, live.is_some())),
            live,
            clock: CaseClock::new(case.clock),
            _web: web,
            deadline: Instant::now() + time_limit,
            database: database
                .map(|database| database.prefixed(&format!("case-{}-", database::new_id()))),
            nodes: if stays_on_one_node(case) { 1 } else { nodes },
            tool_host,
            folder,
        })
    }

    /// Returns the directory that replaces `~/.goondan`.
    pub(crate) fn state_root(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Creates a fresh copy of the initial project, which the caller may change. Returns the new
    /// directory `name`, which contains the copy in `project`.
    pub(crate) fn copy_initial_project(
        &self,
        located: &LocatedCase,
        name: &str,
    ) -> Result<PathBuf, String> {
        let root = self.folder.path().join(name);
        create_project(located, root.join("project"))?;
        Ok(root)
    }

    /// Returns the variables for value sources: those of the test case, and in live runs those of
    /// its project.
    pub(crate) fn environment(&self) -> Environment {
        let project_variables = self
            .live
            .iter()
            .filter_map(|live| live.environment.as_ref());
        let project_variables = project_variables
            .flat_map(Environment::iter)
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        project_variables.chain(self.case.env.clone()).collect()
    }

    /// Runs `work` within the time limit of the test case.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, OutOfTime> {
        tokio::time::timeout_at(self.deadline.into(), work)
            .await
            .map_err(|_| OutOfTime)
    }

    /// Loads the project and starts a swarm. If the swarm cannot start, `diagnostics` contains the
    /// reasons.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let project = goondan::load(self.project.root());
        self.diagnostics = project.diagnostics;
        let Some(bundle) = project.bundle else {
            return Ok(());
        };
        self.record_workdirs(&bundle);
        match self.begin(&bundle) {
            Ok(Ok(process)) => {
                self.process = Some(process);
                self.started = true;
            }
            Ok(Err(StartError::Diagnostics(more))) => self.diagnostics.extend(more),
            Ok(Err(error)) => return Err(format!("the swarm failed to start: {error}")),
            Err(OutOfTime) => {
                return Err("the swarm did not start within the case's time limit".to_owned());
            }
        }
        Ok(())
    }

    /// Starts a swarm. Retries while a killed swarm still holds the workspace, until its last
    /// thread has ended.
    fn begin(&self, bundle: &Arc<Bundle>) -> Result<Result<SwarmProcess, StartError>, OutOfTime> {
        let deadline = Instant::now() + WORKSPACE_RELEASE_TIMEOUT;
        loop {
            match SwarmProcess::start(self, Arc::clone(bundle))? {
                Err(StartError::Workspace(_) | StartError::Database(_))
                    if self.started && Instant::now() < deadline =>
                {
                    std::thread::sleep(RELEASE_POLL_INTERVAL);
                }
                begun => return Ok(begun),
            }
        }
    }

    /// Records the working directory setting of each agent.
    fn record_workdirs(&mut self, bundle: &Bundle) {
        let agents = bundle.agents().values();
        self.workdirs
            .extend(agents.map(|agent| (agent.id.name.clone(), agent.spec.workdir.clone())));
    }

    /// Reloads the bundle and records the working directories of new agents.
    pub(crate) fn refresh_workdirs(&mut self) {
        if let Some(bundle) = goondan::load(self.project.root()).bundle {
            self.record_workdirs(&bundle);
        }
    }

    /// Shuts down the swarm.
    pub(crate) fn end(&mut self) {
        if let Some(process) = self.process.take() {
            self.cut_off |= !process.shut_down(&self.logs);
        }
    }

    /// Kills the swarm like a crashed process.
    ///
    /// A step's start event precedes its model call. A test case that kills at that event expects
    /// that the call uses up its reply. The kill therefore waits a short time for the call.
    pub(crate) fn kill_swarm(&mut self) {
        if let Some(process) = self.process.take() {
            let model_call = self
                .models
                .wait_for_requests(self.events.count("step.started", None));
            // A step without a model call times out.
            let _ = process.run(self, async {
                tokio::time::timeout(MODEL_CALL_DELAY, model_call).await
            });
            process.kill();
            self.cut_off = true;
        }
    }

    /// Runs `fault`, such as a kill or a partition, on the nodes of the test case. Fails if the
    /// test case has no nodes. Running turns can be interrupted, so later checks allow gaps.
    pub(crate) fn with_cluster<T>(
        &mut self,
        fault: impl FnOnce(&mut CaseCluster, &Self) -> Result<T, StepError>,
    ) -> Result<T, StepError> {
        let mut process = self.process.take().ok_or("the swarm did not start")?;
        let result = process.cluster().map(|cluster| fault(cluster, self));
        self.process = Some(process);
        self.cut_off = true;
        result.unwrap_or_else(|| Err("the case has no nodes".to_owned()))
    }

    /// Returns all workspaces that swarms left on disk.
    pub(crate) fn workspaces(&self) -> Vec<Workspace> {
        StateRoot(self.state_root())
            .workspaces()
            .unwrap_or_default()
    }

    /// Deletes the test case's workspaces in the database.
    pub(crate) fn delete_workspaces(&self) {
        let Some(database) = &self.database else {
            return;
        };
        let forgotten = run_detached(async {
            for workspace in self.workspaces() {
                database.forget(&workspace.id).await?;
            }
            Ok::<_, PostgresOpenError>(())
        });
        if let Err(error) = forgotten {
            tracing::warn!(%error, case = self.case.case, "failed to delete the data of a case \
                from the database");
        }
    }

    /// Saves the result of a step under `name`, for references in later steps.
    pub(crate) fn save(&mut self, name: Option<&str>, view: &Value) {
        if let Some(name) = name {
            self.saved.insert(name.to_owned(), view.clone());
        }
    }
}

/// Returns true if a test case acts on the leader process in a way that does not reach turns on
/// other nodes. Examples are a reload and a direct tool call.
fn stays_on_one_node(case: &ConformanceCase) -> bool {
    case.watch
        || case.steps.iter().any(|step| match &step.action {
            StepAction::Call(_) | StepAction::Reload | StepAction::AwaitReload(_) => true,
            StepAction::Await(awaited) => awaited.event == "reload.completed",
            _ => false,
        })
}

/// Runs a future that needs no running swarm.
pub(super) fn run_detached<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .expect("the system lets us open a file descriptor or two")
        .block_on(work)
}

/// Creates the project directory of a test case: copies the project that the case names, then
/// writes the files that the case declares.
fn create_project(located: &LocatedCase, root: PathBuf) -> Result<ProjectFolder, String> {
    let mut project = ProjectFolder::create(root).map_err(|error| error.to_string())?;
    if let Some(path) = &located.case.project {
        let source = located.file.parent().unwrap_or(Path::new(".")).join(path);
        let copied = project.copy_from(&source);
        copied.map_err(|error| {
            format!("the project {} can't be copied: {error}", source.display())
        })?;
    }
    for (path, content) in &located.case.files {
        let written = project.write(path, content);
        written.map_err(|error| format!("the file {} can't be written: {error}", path.as_str()))?;
    }
    Ok(project)
}
