//! What a case has around it: its folders, its models, what it has seen so far.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use goondan::database::{self, Database, OpenError};
use goondan::spec::kinds::Workdir;
use goondan::spec::{Bundle, Diagnostic, Environment};
use goondan::{HostCommand, StartError, StateRoot, Workspace};
use serde_json::Value;
use tempfile::TempDir;

use super::approval::Answers;
use super::clock::CaseClock;
use super::cluster::{Broken, Cluster};
use super::events::EventLog;
use super::life::{Life, OutOfTime, TO_ASK};
use super::logs::Logs;
use super::mcp::McpServers;
use super::models::CaseModels;
use super::project::ProjectFolder;
use super::substitute::Saved;
use super::tools::PlayedTools;
use super::web::WebServer;
use crate::case::read::Located;
use crate::case::{Action, Case};
use crate::live::LiveCase;

/// How long a life that was killed may hold the workspace, and how often that is looked at.
const TO_LET_GO: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// Under which conditions a case is run.
#[derive(Clone)]
pub(crate) struct Conditions {
    /// How long it may take.
    pub(crate) time_limit: Duration,
    /// The database that keeps the conversations, instead of files.
    pub(crate) database: Option<Database>,
    /// How many nodes run it.
    pub(crate) nodes: usize,
    /// With the real models of its project.
    pub(crate) live: Option<LiveCase>,
    /// What starts processes for libraries.
    pub(crate) tool_host: Option<HostCommand>,
}

/// The surroundings of one case. Everything in it survives `kill` and `restart`, the life excepted.
pub(crate) struct World<'c> {
    pub(crate) case: &'c Case,
    pub(crate) project: ProjectFolder,
    pub(crate) events: EventLog,
    pub(crate) logs: Logs,
    pub(crate) saved: Saved,
    pub(crate) life: Option<Life>,
    /// Whether there ever was a life.
    pub(crate) started: bool,
    /// Where agents have their tools work, as the last good version of the bundle says.
    pub(crate) workdirs: BTreeMap<String, Workdir>,
    /// Of loading and starting, the last time that the case did so.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// A kill, or turns that were still running in the end: what was started need not have ended.
    pub(crate) cut_off: bool,
    /// Answers to approval requests.
    pub(super) answers: Answers,
    pub(super) models: Arc<CaseModels>,
    pub(super) mcp: Arc<McpServers>,
    pub(super) tools: Arc<PlayedTools>,
    /// How it is run with the real models of its project, if it is.
    pub(super) live: Option<LiveCase>,
    pub(super) clock: CaseClock,
    /// Gives the case's pages, if it has some.
    _web: Option<WebServer>,
    deadline: Instant,
    folder: TempDir,
    /// Keeps the conversations, instead of files.
    pub(super) database: Option<Database>,
    /// How many nodes run it.
    pub(super) nodes: usize,
    /// What starts processes for libraries.
    pub(super) tool_host: Option<HostCommand>,
}

impl<'c> World<'c> {
    /// Fresh folders with the case's project in them.
    pub(crate) fn create(
        located: &'c Located,
        Conditions {
            time_limit,
            database,
            nodes,
            live,
            tool_host,
        }: Conditions,
    ) -> Result<Self, String> {
        let case = &located.case;
        let folder = tempfile::Builder::new()
            .prefix("goondan-case-")
            .tempdir()
            .map_err(|error| error.to_string())?;
        let web = match &case.web {
            none if none.is_empty() => None,
            pages => Some(
                WebServer::start(pages.clone())
                    .map_err(|error| format!("no pages can be given: {error}"))?,
            ),
        };
        Ok(World {
            case,
            project: lay_out(located, folder.path().join("project"))?,
            events: EventLog::new(),
            logs: Logs::default(),
            saved: web
                .iter()
                .map(|web| ("web".to_owned(), web.view()))
                .collect(),
            life: None,
            started: false,
            workdirs: BTreeMap::new(),
            diagnostics: Vec::new(),
            cut_off: false,
            answers: Answers::default(),
            models: Arc::new(CaseModels::of(case, live.as_ref())),
            mcp: Arc::new(McpServers::new(&case.mcp)),
            tools: Arc::new(PlayedTools::of(case, live.is_some())),
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

    /// The folder that stands for `~/.goondan`.
    pub(crate) fn state_root(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A fresh copy of the project as the case begins with it, for whoever changes it.
    pub(crate) fn another_project(&self, located: &Located, name: &str) -> Result<PathBuf, String> {
        let root = self.folder.path().join(name);
        lay_out(located, root.join("project"))?;
        Ok(root)
    }

    /// What value sources see: the variables of the case, and live those of its project.
    pub(crate) fn environment(&self) -> Environment {
        let of_project = self
            .live
            .iter()
            .filter_map(|live| live.environment.as_ref());
        let of_project = of_project
            .flat_map(Environment::iter)
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        of_project.chain(self.case.env.clone()).collect()
    }

    /// `work`, unless it takes longer than the case may.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, OutOfTime> {
        tokio::time::timeout_at(self.deadline.into(), work)
            .await
            .map_err(|_| OutOfTime)
    }

    /// Reads the project and starts a swarm where that is possible. What kept it from starting is in `diagnostics`.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let project = goondan::load(self.project.root());
        self.diagnostics = project.diagnostics;
        let Some(bundle) = project.bundle else {
            return Ok(());
        };
        self.note_workdirs(&bundle);
        match self.begin(&bundle) {
            Ok(Ok(life)) => {
                self.life = Some(life);
                self.started = true;
            }
            Ok(Err(StartError::Diagnostics(more))) => self.diagnostics.extend(more),
            Ok(Err(error)) => return Err(format!("the swarm does not start: {error}")),
            Err(OutOfTime) => {
                return Err("the swarm does not start within the case's time limit".to_owned());
            }
        }
        Ok(())
    }

    /// Starts a life. One that was killed lets go of the workspace once its last thread has ended, which may be a moment later.
    fn begin(&self, bundle: &Arc<Bundle>) -> Result<Result<Life, StartError>, OutOfTime> {
        let until = Instant::now() + TO_LET_GO;
        loop {
            match Life::start(self, Arc::clone(bundle))? {
                Err(StartError::Workspace(_) | StartError::Database(_))
                    if self.started && Instant::now() < until =>
                {
                    std::thread::sleep(LOOK);
                }
                begun => return Ok(begun),
            }
        }
    }

    fn note_workdirs(&mut self, bundle: &Bundle) {
        let agents = bundle.agents().values();
        self.workdirs
            .extend(agents.map(|agent| (agent.id.name.clone(), agent.spec.workdir.clone())));
    }

    /// Reads the bundle once more after a reload: agents may be new.
    pub(crate) fn reloaded(&mut self) {
        if let Some(bundle) = goondan::load(self.project.root()).bundle {
            self.note_workdirs(&bundle);
        }
    }

    /// Ends the life as a user would.
    pub(crate) fn end(&mut self) {
        if let Some(life) = self.life.take() {
            self.cut_off |= !life.end(&self.logs);
        }
    }

    /// Ends the life as if the process had died.
    ///
    /// A step tells that it starts just before it asks its model. A case that kills then means the call to be under way,
    /// so that it has used its reply: the call gets the time to begin.
    pub(crate) fn kill(&mut self) {
        if let Some(life) = self.life.take() {
            let asked = self.models.asked(self.events.count("step.started", None));
            // Where a step asks nobody there is nothing to wait for.
            let _ = life.run(self, async { tokio::time::timeout(TO_ASK, asked).await });
            life.kill();
            self.cut_off = true;
        }
    }

    /// Does something to the nodes, which cuts off what runs there.
    pub(crate) fn trouble<T>(
        &mut self,
        trouble: impl FnOnce(&mut Cluster, &Self) -> Result<T, Broken>,
    ) -> Result<T, Broken> {
        let mut life = self.life.take().ok_or("the swarm did not start")?;
        let done = life.cluster().map(|cluster| trouble(cluster, self));
        self.life = Some(life);
        self.cut_off = true;
        done.unwrap_or_else(|| Err("the case has no nodes".to_owned()))
    }

    /// Everything that swarms have left on disk.
    pub(crate) fn workspaces(&self) -> Vec<Workspace> {
        StateRoot(self.state_root())
            .workspaces()
            .unwrap_or_default()
    }

    /// Deletes what the case has left in the database.
    pub(crate) fn forget(&self) {
        let Some(database) = &self.database else {
            return;
        };
        let forgotten = alone(async {
            for workspace in self.workspaces() {
                database.forget(&workspace.id).await?;
            }
            Ok::<_, OpenError>(())
        });
        if let Err(error) = forgotten {
            tracing::warn!(%error, case = self.case.case, "a case has left something in the database");
        }
    }

    /// Keeps what came of a step.
    pub(crate) fn save(&mut self, name: Option<&str>, view: &Value) {
        if let Some(name) = name {
            self.saved.insert(name.to_owned(), view.clone());
        }
    }
}

/// Whether a case does something to the process that leads, which does not reach turns on other nodes: it reloads the project
/// under them, or calls a tool without a turn.
fn stays_on_one_node(case: &Case) -> bool {
    case.watch
        || case.steps.iter().any(|step| match &step.action {
            Action::Call(_) | Action::Reload | Action::AwaitReload(_) => true,
            Action::Await(awaited) => awaited.event == "reload.completed",
            _ => false,
        })
}

/// Runs what belongs to no life.
pub(super) fn alone<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .expect("the system lets us open a file descriptor or two")
        .block_on(work)
}

fn lay_out(located: &Located, root: PathBuf) -> Result<ProjectFolder, String> {
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
