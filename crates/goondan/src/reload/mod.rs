//! Reloading: the bundle is read again, planned beside the running generation, and swapped in, or nothing changes (rules R2
//! to R5).

mod news;
mod outcome;
mod tools;

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Instant;

use goondan_runtime::plan::{Generation, PlanPorts, plan};
use goondan_runtime::redact::Redactor;
use goondan_spec::kinds::Swarm as SwarmSpec;
use goondan_spec::{Bundle, Diagnostic, Environment, KnownFiles, Resource, ResourceId, Snapshot, diff};

pub(crate) use self::news::ReloadListeners;
pub use self::news::ReloadNews;
pub use self::outcome::{ReloadOutcome, ReloadTiming};
pub(crate) use self::tools::ToolReloads;
use crate::build::Builds;
use crate::contents::Contents;
use crate::generation::{LastGeneration, LastReload};
use crate::project::{self, Project};
use crate::secrets;
use crate::swarm::{Inner, Swarm};
use crate::watch::texts::Texts;
use crate::watch::trace::{Recorder, Trace};

/// Why the swarm reloads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause {
    /// Somebody wants it: a new generation is made although nothing may have changed.
    Asked,
    /// A file has changed.
    Watch {
        /// When that was noticed.
        noticed: Instant,
        /// When it had come to rest.
        settled: Instant,
    },
}

/// What a reload compares with.
pub(crate) struct ReloadState {
    /// Of the generation that serves; secrets count.
    snapshot: Snapshot,
    /// The last reload failed.
    is_broken: bool,
    /// How many reloads were told of.
    told: u64,
}

impl ReloadState {
    pub(crate) fn new(bundle: &Bundle, swarm: &ResourceId, contents: &Contents, environment: &Environment) -> Self {
        let snapshot = Snapshot::of(bundle, swarm, &contents.of(bundle), Some(environment));
        ReloadState { snapshot, is_broken: false, told: 0 }
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

impl Swarm {
    /// Reads the bundle's folder and its environment files again and swaps the new generation in, or changes nothing (rules
    /// R2, R3).
    pub async fn reload(&self) -> ReloadOutcome {
        let (outcome, _) = self.reload_once(Cause::Asked).await;
        Arc::unwrap_or_clone(outcome)
    }

    /// As [`Swarm::reload`], with what was looked at.
    pub(crate) async fn reload_for(&self, cause: Cause) -> Looked {
        self.reload_once(cause).await.1
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
        let bundle = checked(read.project.bundle, read.project.diagnostics, read.environment, &mut outcome.warnings);
        let before = inner.runtime.generation().number;
        outcome.result = match bundle {
            Ok((bundle, environment)) => self.plan_and_swap(bundle, environment, cause, &mut state, &mut outcome).await,
            Err(diagnostics) => Err(diagnostics),
        };
        state.is_broken = outcome.result.is_err();
        let is_new = outcome.result.as_ref().is_ok_and(|number| *number != before);
        let outcome = Arc::new(outcome);
        let is_told = is_new || wanted || outcome.result.is_err();
        if is_told {
            self.tell(ReloadNews::Reloaded(Arc::clone(&outcome)));
            state.told += 1;
            self.write_down_generation(Some(news::last_reload(state.told, &outcome))).await;
        }
        drop(state);
        (outcome, read.looked)
    }

    async fn read(&self, cause: Cause) -> Read {
        let (swarm, root) = (Arc::clone(self.inner()), self.root());
        let read = tokio::task::spawn_blocking(move || {
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
            let builds = Builds::of_project(&project);
            Read { project, environment, looked: Looked { trace, builds } }
        });
        read.await.expect("reading a bundle does not panic, and nobody cancels it")
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
        let swarm = bundle.choose_swarm(Some(&inner.swarm.name)).map_err(|problem| vec![problem])?;
        let environment = secrets::complete(&bundle, &swarm.id, environment).await.map_err(|problem| vec![problem])?;
        let snapshot = self.snapshot(&bundle, Some(&environment)).await;
        let changes = diff(&state.snapshot, &snapshot);
        let number = inner.runtime.generation().number;
        if changes.is_empty() && matches!(cause, Cause::Watch { .. }) {
            return Ok(number);
        }
        inner.tools.set_environment(environment.clone());
        let generation = plan_swarm(&bundle, swarm, number + 1, &inner.ports, &environment, &inner.redactor).await?;
        outcome.timing.plan = started.elapsed();
        let swapping = Instant::now();
        let number = generation.number;
        outcome.warnings.extend(generation.warnings.iter().cloned());
        inner.runtime.swap(generation);
        state.snapshot = snapshot;
        outcome.plan = changes;
        outcome.timing.swap = swapping.elapsed();
        Ok(number)
    }

    async fn snapshot(&self, bundle: &Arc<Bundle>, environment: Option<&Environment>) -> Snapshot {
        let (inner, bundle, environment) = (Arc::clone(self.inner()), Arc::clone(bundle), environment.cloned());
        let made = tokio::task::spawn_blocking(move || {
            Snapshot::of(&bundle, &inner.swarm, &inner.contents.of(&bundle), environment.as_ref())
        });
        made.await.expect("making a snapshot does not panic, and nobody cancels it")
    }

    /// Writes down what runs now, for other processes.
    pub(crate) async fn write_down_generation(&self, last_reload: Option<LastReload>) {
        let inner = self.inner();
        let generation = inner.runtime.generation();
        let last = LastGeneration {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            generation: generation.number,
            swarm: inner.swarm.name.clone(),
            root: std::path::absolute(self.root()).unwrap_or_else(|_| self.root()),
            process: std::process::id(),
            reloads_at_hangup: inner.reloads_at_hangup,
            last_reload,
            snapshot: self.snapshot(&generation.bundle, None).await,
        };
        if let Err(error) = last.write(&inner.workspace) {
            tracing::warn!(%error, "what runs now was not written down; `gdn reload` can't tell");
        }
    }

    pub(crate) fn bundle(&self) -> Arc<Bundle> {
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
    redactor: &Redactor,
) -> Result<Generation, Vec<Diagnostic>> {
    // Before anything is done with them.
    redactor.learn_environment(environment);
    redactor.learn(bundle.secrets(environment));
    let missing = bundle.missing_environment(&swarm.id, environment);
    if missing.is_empty() { plan(bundle, swarm, number, ports, environment).await } else { Err(missing) }
}
