//! Reloading: the bundle is read again, planned beside the running generation, and swapped in, or nothing changes (rules R2
//! to R5).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use goondan_runtime::event::RuntimeEventKind;
use goondan_runtime::plan::{Generation, PlanPorts, plan};
use goondan_spec::kinds::Swarm as SwarmSpec;
use goondan_spec::source::Sources;
use goondan_spec::{Bundle, Diagnostic, Environment, ReloadPlan, Resource, ResourceId, Snapshot, diff, render};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::contents::Contents;
use crate::generation::LastGeneration;
use crate::project::{self, Project};
use crate::swarm::{Inner, Swarm};
use crate::watch::trace::{Recorder, Trace};

/// Of so many diagnostics the event of a failed reload has the text.
const TOLD_DIAGNOSTICS: usize = 5;

/// What came of a reload.
#[derive(Debug, Clone)]
pub struct ReloadOutcome {
    /// The number of the generation that serves from now on, or the errors that kept the old one in place.
    pub result: Result<u64, Vec<Diagnostic>>,
    /// What has changed; empty where the reload failed.
    pub plan: ReloadPlan,
    /// Warnings about a bundle that was taken.
    pub warnings: Vec<Diagnostic>,
    /// The texts that diagnostics point into.
    pub sources: Sources,
    /// How long it took.
    pub timing: ReloadTiming,
}

/// How long the parts of a reload took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReloadTiming {
    /// When the first file was noticed that had changed; `None` where somebody asked for the reload.
    pub noticed: Option<Instant>,
    /// From then on until all files had come to rest.
    pub settle: Duration,
    /// Reading and checking the bundle and its environment files.
    pub load: Duration,
    /// Binding models and tools; opening libraries.
    pub plan: Duration,
    /// Putting the new generation in place.
    pub swap: Duration,
}

impl ReloadTiming {
    /// The work, without the time in which files came to rest.
    pub fn total(&self) -> Duration {
        self.load + self.plan + self.swap
    }

    /// [`ReloadTiming::total`] in whole milliseconds.
    pub fn total_ms(&self) -> u64 {
        u64::try_from(self.total().as_millis()).unwrap_or(u64::MAX)
    }
}

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
}

impl ReloadState {
    pub(crate) fn new(bundle: &Bundle, swarm: &ResourceId, contents: &Contents, environment: &Environment) -> Self {
        let snapshot = Snapshot::of(bundle, swarm, &contents.of(bundle), Some(environment));
        ReloadState { snapshot, is_broken: false }
    }
}

/// Everybody who wants to hear of reloads.
#[derive(Default)]
pub(crate) struct ReloadListeners(Mutex<Vec<UnboundedSender<Arc<ReloadOutcome>>>>);

impl ReloadListeners {
    fn tell(&self, outcome: &Arc<ReloadOutcome>) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(Arc::clone(outcome)).is_ok());
    }
}

/// Everything that was read for a reload.
struct Read {
    project: Project,
    environment: Result<Environment, Diagnostic>,
    trace: Trace,
}

impl Swarm {
    /// Reads the bundle's folder and its environment files again and swaps the new generation in, or changes nothing (rules
    /// R2, R3).
    pub async fn reload(&self) -> ReloadOutcome {
        let (outcome, _) = self.reload_once(Cause::Asked).await;
        Arc::unwrap_or_clone(outcome)
    }

    /// What comes of every reload from now on, whoever caused it. One that a changed file has caused and that found nothing
    /// different is not told, unless the one before had failed.
    pub fn reloads(&self) -> UnboundedReceiver<Arc<ReloadOutcome>> {
        let (sender, receiver) = unbounded_channel();
        self.inner().reload_listeners.0.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    /// As [`Swarm::reload`], with what was looked at.
    pub(crate) async fn reload_for(&self, cause: Cause) -> Trace {
        self.reload_once(cause).await.1
    }

    async fn reload_once(&self, cause: Cause) -> (Arc<ReloadOutcome>, Trace) {
        let inner = self.inner();
        let mut state = inner.reloading.lock().await;
        let mut timing = ReloadTiming::default();
        if let Cause::Watch { noticed, settled } = cause {
            timing.noticed = Some(noticed);
            timing.settle = settled - noticed;
        }
        let started = Instant::now();
        let mut outcome = ReloadOutcome {
            result: Err(Vec::new()),
            plan: ReloadPlan::default(),
            warnings: Vec::new(),
            sources: Sources::default(),
            timing,
        };
        let read = self.read().await;
        outcome.timing.load = started.elapsed();
        outcome.sources = read.project.sources;
        let (wanted, trace) = (matches!(cause, Cause::Asked) || state.is_broken, read.trace);
        let bundle = checked(read.project.bundle, read.project.diagnostics, read.environment, &mut outcome.warnings);
        let before = inner.runtime.generation().number;
        outcome.result = match bundle {
            Ok((bundle, environment)) => {
                self.plan_and_swap(bundle, &environment, cause, &mut state, &mut outcome).await
            }
            Err(diagnostics) => Err(diagnostics),
        };
        state.is_broken = outcome.result.is_err();
        let is_new = outcome.result.as_ref().is_ok_and(|number| *number != before);
        let outcome = Arc::new(outcome);
        if is_new || wanted || outcome.result.is_err() {
            inner.runtime.announce(event(&outcome));
            inner.reload_listeners.tell(&outcome);
        }
        if is_new {
            self.write_down_generation().await;
        }
        drop(state);
        (outcome, trace)
    }

    async fn read(&self) -> Read {
        let (swarm, root) = (Arc::clone(self.inner()), self.root());
        let read = tokio::task::spawn_blocking(move || {
            let recorder = Recorder::default();
            let project = project::load_from(&root, &recorder);
            let environment = swarm.variables.read(&recorder, &root);
            let mut trace = recorder.into_trace();
            if let Some(bundle) = &project.bundle {
                trace.note_plan(bundle);
            }
            Read { project, environment, trace }
        });
        read.await.expect("reading a bundle does not panic, and nobody cancels it")
    }

    async fn plan_and_swap(
        &self,
        bundle: Arc<Bundle>,
        environment: &Environment,
        cause: Cause,
        state: &mut ReloadState,
        outcome: &mut ReloadOutcome,
    ) -> Result<u64, Vec<Diagnostic>> {
        let inner = self.inner();
        let started = Instant::now();
        let swarm = bundle.choose_swarm(Some(&inner.swarm.name)).map_err(|problem| vec![problem])?;
        let snapshot = self.snapshot(&bundle, Some(environment)).await;
        let changes = diff(&state.snapshot, &snapshot);
        let number = inner.runtime.generation().number;
        if changes.is_empty() && matches!(cause, Cause::Watch { .. }) {
            return Ok(number);
        }
        let generation = plan_swarm(&bundle, swarm, number + 1, &inner.ports, environment).await?;
        outcome.timing.plan = started.elapsed();
        let swapping = Instant::now();
        let number = generation.number;
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
    pub(crate) async fn write_down_generation(&self) {
        let inner = self.inner();
        let generation = inner.runtime.generation();
        let snapshot = self.snapshot(&generation.bundle, None).await;
        let root = std::path::absolute(self.root()).unwrap_or_else(|_| self.root());
        let last = LastGeneration::new(generation.number, &inner.swarm.name, root, snapshot);
        if let Err(error) = last.write(&inner.workspace) {
            tracing::warn!(%error, "what runs now was not written down; `gdn reload --dry-run` compares with what ran before");
        }
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

fn event(outcome: &ReloadOutcome) -> RuntimeEventKind {
    let duration = outcome.timing.total_ms();
    match &outcome.result {
        Ok(generation) => RuntimeEventKind::ReloadCompleted {
            generation: *generation,
            added: outcome.plan.added.clone(),
            changed: outcome.plan.changed.clone(),
            removed: outcome.plan.removed.clone(),
            agents: outcome.plan.agents.clone(),
            limits: outcome.plan.limits,
            duration,
        },
        Err(diagnostics) => {
            let errors: Vec<&Diagnostic> = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).collect();
            let told = errors.iter().take(TOLD_DIAGNOSTICS);
            let messages = told.map(|one| render::short(std::slice::from_ref(*one)).trim_end().to_owned()).collect();
            RuntimeEventKind::ReloadFailed { diagnostics: errors.len(), messages, duration }
        }
    }
}

/// Plans `swarm` once its variables are there.
pub(crate) async fn plan_swarm(
    bundle: &Arc<Bundle>,
    swarm: &Resource<SwarmSpec>,
    number: u64,
    ports: &PlanPorts,
    environment: &Environment,
) -> Result<Generation, Vec<Diagnostic>> {
    let missing = bundle.missing_environment(&swarm.id, environment);
    if missing.is_empty() { plan(bundle, swarm, number, ports, environment).await } else { Err(missing) }
}
