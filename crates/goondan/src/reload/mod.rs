//! Reloading: the bundle is read again, planned beside the running generation, and swapped in, or nothing changes (rules R2
//! to R5).

mod news;
mod outcome;
mod servers;
mod tools;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Instant;

use goondan_engine::plan::{Generation, PlanPorts, Serving, plan};
use goondan_engine::policy::redact::Redactor;
use goondan_spec::kinds::Swarm as SwarmSpec;
use goondan_spec::{
    Basis, Bundle, Code, Diagnostic, Environment, KnownFiles, Resource, Snapshot, diff,
};
use tokio::task::JoinHandle;

pub(crate) use self::news::ReloadListeners;
pub use self::news::ReloadNews;
pub use self::outcome::{ReloadOutcome, ReloadTiming};
pub(crate) use self::servers::follow_servers;
pub(crate) use self::tools::ToolReloads;
use crate::beside::beside;
use crate::build::Builds;
use crate::database::mark;
use crate::generation::LastReload;
use crate::project::{self, Project};
use crate::secrets;
use crate::swarm::{Inner, Swarm};
use crate::watch::texts::Texts;
use crate::watch::trace::{Recorder, Trace};

/// Says whether a project may be taken up, or why not.
pub type ReloadCheck = Arc<dyn Fn(&Project) -> Result<(), Vec<Diagnostic>> + Send + Sync>;

/// The number of the generation that a swarm starts with.
pub(crate) const FIRST_GENERATION: u64 = 1;

/// Why the swarm reloads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause {
    /// Somebody wants it: a new generation is made although nothing may have changed.
    Asked,
    /// A file has changed.
    Watch {
        /// Files may not have come to rest: what does not load is no failure yet, and nobody is told.
        is_hasty: bool,
        /// When that was noticed.
        noticed: Instant,
        /// When it had come to rest.
        settled: Instant,
    },
}

/// What a reload compares with.
#[derive(Default)]
pub(crate) struct ReloadState {
    /// What the generation that serves is made from; secrets count. Made beside the first turns.
    basis: Option<Arc<Basis>>,
    /// The variables that it was planned with.
    environment: Environment,
    /// The last reload failed.
    is_broken: bool,
    /// How many reloads were told of.
    told: u64,
}

impl ReloadState {
    /// The variables of the generation that serves.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }
}

/// What was read for earlier reloads, so that an edit costs as much as what it changes.
#[derive(Debug, Default)]
pub(crate) struct ReadBefore {
    texts: Texts,
    files: KnownFiles,
}

/// Everything that was read for a reload.
struct Read {
    project: Project,
    environment: Result<Environment, Diagnostic>,
    looked: Looked,
}

/// What a reload has looked at.
pub(crate) struct Looked {
    /// The files.
    pub(crate) trace: Trace,
    /// How its tools are built.
    pub(crate) builds: Builds,
}

/// Makes what the first reload compares with, and writes down what runs: neither has to be there for the first turn. Reloads
/// wait for it.
pub(crate) fn take_stock(swarm: &Swarm, environment: Environment) -> JoinHandle<()> {
    let inner = swarm.inner();
    let state = Arc::clone(&inner.reloading)
        .try_lock_owned()
        .expect("nobody has the swarm yet");
    let (notebook, contents) = (inner.notebook.clone(), Arc::clone(&inner.contents));
    // It must not keep a swarm that is dropped meanwhile, and its workspace with it.
    let (bundle, alive) = (swarm.bundle(), swarm.downgrade());
    tokio::task::spawn_blocking(move || {
        let mut state = state;
        let basis = Basis::new(
            Arc::clone(&bundle),
            &notebook.swarm,
            contents.of(&bundle),
            &environment,
            None,
        );
        if alive.strong_count() > 0 {
            notebook.write(FIRST_GENERATION, &basis, None);
        }
        state.basis = Some(Arc::new(basis));
        state.environment = environment;
    })
}

impl Swarm {
    /// Reads the bundle's folder and its environment files again and swaps the new generation in, or changes nothing (rules
    /// R2, R3).
    pub async fn reload(&self) -> ReloadOutcome {
        let (outcome, _) = self.reload_once(Cause::Asked).await;
        Arc::unwrap_or_clone(outcome)
    }

    /// As [`Swarm::reload`], with what was looked at, and whether the project could be taken up.
    pub(crate) async fn reload_for(&self, cause: Cause) -> (Looked, bool) {
        let (outcome, looked) = self.reload_once(cause).await;
        (looked, outcome.result.is_ok())
    }

    async fn reload_once(&self, cause: Cause) -> (Arc<ReloadOutcome>, Looked) {
        let inner = self.inner();
        let mut state = inner.reloading.lock().await;
        let started = Instant::now();
        let mut outcome = ReloadOutcome::begin(cause);
        let read = self.read(cause).await;
        outcome.timing.load = started.elapsed();
        outcome.sources = read.project.sources;
        let wanted = matches!(cause, Cause::Asked) || state.is_broken;
        let bundle = checked(
            read.project.bundle,
            read.project.diagnostics,
            read.environment,
            &mut outcome.warnings,
        );
        let before = inner.runtime.generation().number;
        outcome.result = match bundle {
            Ok((bundle, environment)) => {
                self.plan_and_swap(bundle, environment, cause, &mut state, &mut outcome)
                    .await
            }
            Err(diagnostics) => Err(diagnostics),
        };
        if matches!(cause, Cause::Watch { is_hasty: true, .. }) && outcome.result.is_err() {
            return (Arc::new(outcome), read.looked);
        }
        state.is_broken = outcome.result.is_err();
        let is_new = outcome
            .result
            .as_ref()
            .is_ok_and(|number| *number != before);
        let outcome = Arc::new(outcome);
        let is_told = is_new || wanted || outcome.result.is_err();
        if is_told {
            self.tell(ReloadNews::Reloaded(Arc::clone(&outcome)));
            state.told += 1;
            self.write_down(&state, news::last_reload(state.told, &outcome))
                .await;
        }
        drop(state);
        (outcome, read.looked)
    }

    async fn read(&self, cause: Cause) -> Read {
        let (swarm, root) = (Arc::clone(self.inner()), self.root());
        beside(move || {
            let recorder = match cause {
                Cause::Asked => Recorder::default(),
                Cause::Watch { .. } => Recorder::with_texts(&swarm.read_before.texts),
            };
            let project = project::load_again(&root, &recorder, &swarm.read_before.files);
            let environment = swarm.variables.read(&recorder, &root);
            let mut trace = recorder.into_trace();
            if let Some(bundle) = &project.bundle {
                trace.note_plan(bundle);
            }
            match swarm
                .reload_check
                .as_ref()
                .map_or(Ok(()), |check| check(&project))
            {
                Ok(()) => {
                    let builds = Builds::of_project(&project);
                    Read {
                        project,
                        environment,
                        looked: Looked { trace, builds },
                    }
                }
                Err(refusals) => {
                    let looked = Looked {
                        trace,
                        builds: Builds::none_of(&project),
                    };
                    Read {
                        project: refused(project, refusals),
                        environment,
                        looked,
                    }
                }
            }
        })
        .await
    }

    async fn plan_and_swap(
        &self,
        bundle: Arc<Bundle>,
        environment: Environment,
        cause: Cause,
        state: &mut ReloadState,
        outcome: &mut ReloadOutcome,
    ) -> Result<u64, Vec<Diagnostic>> {
        let inner = self.inner();
        let started = Instant::now();
        let swarm = bundle
            .choose_swarm(Some(&inner.notebook.swarm.name))
            .map_err(|problem| vec![problem])?;
        let environment = secrets::complete(&bundle, &swarm.id, environment)
            .await
            .map_err(|problem| vec![problem])?;
        let basis = self.basis(&bundle, &environment, state.basis.clone()).await;
        let none = Snapshot::default();
        let changes = diff(
            state
                .basis
                .as_ref()
                .map_or(&none, |before| before.snapshot()),
            basis.snapshot(),
        );
        let serving = inner.runtime.generation();
        if changes.is_empty() && matches!(cause, Cause::Watch { .. }) {
            // It means the same and is nearer to what comes next.
            state.basis = Some(Arc::new(basis));
            return Ok(serving.number);
        }
        inner.tools.set_environment(environment.clone());
        let unchanged = match &state.basis {
            Some(before) if environment == state.environment => basis.unchanged_tools(before),
            _ => HashSet::new(),
        };
        let number = serving.number + 1;
        let beside = Some(Serving {
            generation: &serving,
            unchanged: &unchanged,
        });
        inner.tools.mcp().prepare(&bundle, swarm);
        let mut generation = plan_swarm(
            &bundle,
            swarm,
            number,
            &inner.ports,
            &environment,
            beside,
            &inner.redactor,
        )
        .await?;
        generation
            .warnings
            .extend(inner.tools.mcp().notices(&bundle));
        outcome.timing.plan = started.elapsed();
        let swapping = Instant::now();
        let is_new = |warning: &&Diagnostic| {
            warning.code != Code::SHORT_SECRET || !serving.warnings.contains(warning)
        };
        let warnings = generation.warnings.iter().filter(is_new);
        outcome.warnings.extend(warnings.cloned());
        inner.runtime.swap(generation);
        if let Some(node) = &inner.node {
            node.crew
                .set_generation(&mark(&basis, &inner.notebook.swarm));
        }
        let basis_before = state.basis.replace(Arc::new(basis));
        state.environment = environment;
        outcome.plan = changes;
        outcome.timing.swap = swapping.elapsed();
        // Giving back what a large generation held takes a while, and nobody has to wait for it.
        tokio::task::spawn_blocking(move || drop((serving, basis_before)));
        Ok(number)
    }

    async fn basis(
        &self,
        bundle: &Arc<Bundle>,
        environment: &Environment,
        before: Option<Arc<Basis>>,
    ) -> Basis {
        let (inner, bundle, environment) = (
            Arc::clone(self.inner()),
            Arc::clone(bundle),
            environment.clone(),
        );
        beside(move || {
            let contents = inner.contents.of(&bundle);
            Basis::new(
                bundle,
                &inner.notebook.swarm,
                contents,
                &environment,
                before.as_deref(),
            )
        })
        .await
    }

    /// Writes down what runs now, for other processes.
    async fn write_down(&self, state: &ReloadState, last_reload: LastReload) {
        let Some(basis) = state.basis.clone() else {
            return;
        };
        let (notebook, generation) = (
            self.inner().notebook.clone(),
            self.inner().runtime.generation().number,
        );
        beside(move || notebook.write(generation, &basis, Some(last_reload))).await;
    }

    /// The project as the generation that serves was made from it.
    pub fn bundle(&self) -> Arc<Bundle> {
        Arc::clone(&self.inner().runtime.generation().bundle)
    }

    /// The project's folder, as it was given.
    pub(crate) fn root(&self) -> PathBuf {
        self.inner().runtime.generation().bundle.root().to_owned()
    }

    pub(crate) fn state_root(&self) -> PathBuf {
        self.inner().state_root.0.clone()
    }

    pub(crate) fn downgrade(&self) -> Weak<Inner> {
        Arc::downgrade(self.inner())
    }
}

/// A project that is not taken up.
fn refused(project: Project, refusals: Vec<Diagnostic>) -> Project {
    let diagnostics = project.diagnostics.into_iter().chain(refusals).collect();
    Project {
        bundle: None,
        diagnostics,
        ..project
    }
}

/// The bundle with its environment, or everything that is wrong with them.
fn checked(
    bundle: Option<Arc<Bundle>>,
    diagnostics: Vec<Diagnostic>,
    environment: Result<Environment, Diagnostic>,
    warnings: &mut Vec<Diagnostic>,
) -> Result<(Arc<Bundle>, Environment), Vec<Diagnostic>> {
    match (bundle, environment) {
        (Some(bundle), Ok(environment)) => {
            *warnings = diagnostics;
            Ok((bundle, environment))
        }
        (_, environment) => Err(diagnostics.into_iter().chain(environment.err()).collect()),
    }
}

/// Plans `swarm` if its variables are there; `environment` has the secrets that are kept elsewhere.
pub(crate) async fn plan_swarm(
    bundle: &Arc<Bundle>,
    swarm: &Resource<SwarmSpec>,
    number: u64,
    ports: &PlanPorts,
    environment: &Environment,
    serving: Option<Serving<'_>>,
    redactor: &Redactor,
) -> Result<Generation, Vec<Diagnostic>> {
    // Before anything is done with them.
    redactor.learn_environment(environment);
    redactor.learn(bundle.secrets(environment));
    redactor.learn_guesses(bundle.settings(environment));
    let missing = bundle.missing_environment(&swarm.id, environment);
    match missing.is_empty() {
        true => {
            let mut generation = plan(bundle, swarm, number, ports, environment, serving).await?;
            generation
                .warnings
                .extend(bundle.short_secrets(environment));
            Ok(generation)
        }
        false => Err(missing),
    }
}
