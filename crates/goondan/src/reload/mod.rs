//! Reload: reads the bundle again, plans it next to the running generation and swaps it in. On any
//! error, nothing changes (rules R2 to R5).

pub(crate) mod file_fingerprints;
pub mod preview;

mod notifications;
mod outcome;
mod server_changes;
mod tool_requests;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Instant;

use goondan_engine::plan::{Generation, PlanPorts, ServingGeneration, plan};
use goondan_engine::policy::redact::SecretRedactor;
use goondan_spec::kinds::Swarm as SwarmSpec;
use goondan_spec::{
    Bundle, BundleSnapshot, Diagnostic, Environment, KnownFiles, Resource, SnapshotBasis, diff,
};
use tokio::task::JoinHandle;

pub(crate) use self::notifications::ReloadListeners;
pub use self::notifications::ReloadNews;
pub(crate) use self::outcome::ReloadCause;
pub use self::outcome::{ReloadOutcome, ReloadTiming};
pub(crate) use self::server_changes::follow_servers;
pub(crate) use self::tool_requests::ToolReloads;
use crate::blocking::run_blocking;
use crate::build::ToolBuilds;
use crate::start::checks;
use crate::start::package_copies::copy_packages;
use crate::start::project::{self, Project};
use crate::start::secrets;
use crate::start::swarm::{Swarm, SwarmInner};
use crate::watch::file_cache::FileContentCache;
use crate::watch::load_trace::{LoadTrace, RecordingFiles};
use crate::workspace::database::generation_digest;
use crate::workspace::running_record::LastReload;

/// Check that accepts a project for a reload or returns the reasons against it.
pub type ReloadCheck = Arc<dyn Fn(&Project) -> Result<(), Vec<Diagnostic>> + Send + Sync>;

/// Number of a swarm's first generation.
pub(crate) const FIRST_GENERATION: u64 = 1;

/// State that a reload compares with.
#[derive(Default)]
pub(crate) struct ReloadState {
    /// Basis of the current generation, including secrets. It is computed during the first turns.
    basis: Option<Arc<SnapshotBasis>>,
    /// Variables of the current generation.
    environment: Environment,
    /// True if the last reload failed.
    is_broken: bool,
    /// Number of reported reloads.
    reported_count: u64,
}

impl ReloadState {
    /// Returns the variables of the current generation.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }
}

/// Caches of earlier reloads, so that the cost of a reload depends on the size of the edit.
#[derive(Debug, Default)]
pub(crate) struct ReloadCache {
    texts: FileContentCache,
    files: KnownFiles,
}

/// Everything read for a reload.
struct ReloadSource {
    project: Project,
    environment: Result<Environment, Diagnostic>,
    looked: ReloadInputs,
}

/// Files and builds that a reload depends on.
pub(crate) struct ReloadInputs {
    /// Files that were read.
    pub(crate) trace: LoadTrace,
    /// Builds of the project's tools.
    pub(crate) builds: ToolBuilds,
}

/// Computes the basis for the first reload and records the generation. The first turns do not wait
/// for it, but reloads do.
pub(crate) fn compute_reload_basis(swarm: &Swarm, environment: Environment) -> JoinHandle<()> {
    let inner = swarm.inner();
    let state = Arc::clone(&inner.reloading)
        .try_lock_owned()
        .expect("no other task has the swarm yet");
    let (notebook, contents) = (inner.notebook.clone(), Arc::clone(&inner.contents));
    // A weak handle, so that the task does not keep a dropped swarm and its workspace alive.
    let (bundle, alive) = (swarm.bundle(), swarm.downgrade());
    tokio::task::spawn_blocking(move || {
        let mut state = state;
        let basis = SnapshotBasis::new(
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
    /// Reads the bundle's directory and its environment files again and swaps in the new
    /// generation. On any error, nothing changes (rules R2, R3).
    pub async fn reload(&self) -> ReloadOutcome {
        let (outcome, _) = self.reload_once(ReloadCause::Asked).await;
        Arc::unwrap_or_clone(outcome)
    }

    /// Reloads like [`Swarm::reload`]. Returns the read files, and true if the reload succeeded.
    pub(crate) async fn reload_for(&self, cause: ReloadCause) -> (ReloadInputs, bool) {
        let (outcome, inputs) = self.reload_once(cause).await;
        (inputs, outcome.result.is_ok())
    }

    /// Reloads the swarm, and notifies subscribers if something changed, failed, or was requested.
    /// Returns the outcome, and the files and builds that the reload depends on.
    async fn reload_once(&self, cause: ReloadCause) -> (Arc<ReloadOutcome>, ReloadInputs) {
        let inner = self.inner();
        let mut state = inner.reloading.lock().await;
        let started = Instant::now();
        let mut outcome = ReloadOutcome::begin(cause);
        let source = self.read(cause).await;
        outcome.timing.load = started.elapsed();
        outcome.sources = source.project.sources;
        let is_requested = matches!(cause, ReloadCause::Asked) || state.is_broken;
        let bundle = usable_bundle(
            source.project.bundle,
            source.project.diagnostics,
            source.environment,
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
        if matches!(cause, ReloadCause::Watch { is_hasty: true, .. }) && outcome.result.is_err() {
            return (Arc::new(outcome), source.looked);
        }
        state.is_broken = outcome.result.is_err();
        let is_new = outcome
            .result
            .as_ref()
            .is_ok_and(|number| *number != before);
        let outcome = Arc::new(outcome);
        let is_reported = is_new || is_requested || outcome.result.is_err();
        if is_reported {
            self.publish_reload_news(ReloadNews::Reloaded(Arc::clone(&outcome)));
            state.reported_count += 1;
            self.record_reload(
                &state,
                notifications::last_reload(state.reported_count, &outcome),
            )
            .await;
        }
        drop(state);
        (outcome, source.looked)
    }

    /// Reads the project and its variables without planning them. A rejected project has no bundle.
    async fn read(&self, cause: ReloadCause) -> ReloadSource {
        let (swarm, root) = (Arc::clone(self.inner()), self.root());
        run_blocking(move || {
            let recorder = match cause {
                ReloadCause::Asked => RecordingFiles::default(),
                ReloadCause::Watch { .. } => RecordingFiles::with_texts(&swarm.read_before.texts),
            };
            let project = project::load_again(&root, &recorder, &swarm.read_before.files);
            let environment = swarm.variables.read(&recorder, &root);
            let mut trace = recorder.into_trace();
            if let Some(bundle) = &project.bundle {
                trace.record_plan(bundle);
            }
            match swarm
                .reload_check
                .as_ref()
                .map_or(Ok(()), |check| check(&project))
            {
                Ok(()) => {
                    let builds = ToolBuilds::of_project(&project);
                    ReloadSource {
                        project,
                        environment,
                        looked: ReloadInputs { trace, builds },
                    }
                }
                Err(refusals) => {
                    let looked = ReloadInputs {
                        trace,
                        builds: ToolBuilds::none_of(&project),
                    };
                    ReloadSource {
                        project: rejected_project(project, refusals),
                        environment,
                        looked,
                    }
                }
            }
        })
        .await
    }

    /// Plans the bundle and swaps in the new generation. Returns the number of the current
    /// generation, which stays the same if nothing changed.
    async fn plan_and_swap(
        &self,
        bundle: Arc<Bundle>,
        environment: Environment,
        cause: ReloadCause,
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
        let empty_snapshot = BundleSnapshot::default();
        let changes = diff(
            state
                .basis
                .as_ref()
                .map_or(&empty_snapshot, |before| before.snapshot()),
            basis.snapshot(),
        );
        let serving = inner.runtime.generation();
        if changes.is_empty() && matches!(cause, ReloadCause::Watch { .. }) {
            // Equal to the old basis, but it shares more data with the next version.
            state.basis = Some(Arc::new(basis));
            return Ok(serving.number);
        }
        copy_packages(&bundle, inner.tools.state_root())
            .await
            .map_err(|problem| vec![problem])?;
        inner.tools.set_environment(environment.clone());
        let unchanged = match &state.basis {
            Some(before) if environment == state.environment => basis.unchanged_tools(before),
            _ => HashSet::new(),
        };
        let number = serving.number + 1;
        let serving_generation = Some(ServingGeneration {
            generation: &serving,
            unchanged: &unchanged,
        });
        inner.tools.mcp().prepare_reload(&bundle, swarm);
        let planned = plan_swarm(
            &bundle,
            swarm,
            number,
            &inner.ports,
            &environment,
            serving_generation,
            &inner.redactor,
        )
        .await;
        let mut generation = planned.inspect_err(|_| inner.tools.mcp().reject_prepared())?;
        inner.tools.mcp().accept_prepared();
        generation
            .warnings
            .extend(inner.tools.mcp().notices(&bundle));
        outcome.timing.plan = started.elapsed();
        let swapping = Instant::now();
        let is_new = |warning: &&Diagnostic| {
            !checks::depends_on_project_only(warning.code) || !serving.warnings.contains(warning)
        };
        let warnings = generation.warnings.iter().filter(is_new);
        outcome.warnings.extend(warnings.cloned());
        inner.runtime.swap(generation);
        if let Some(node) = &inner.node {
            node.crew
                .set_generation(&generation_digest(&basis, &inner.notebook.swarm));
        }
        let basis_before = state.basis.replace(Arc::new(basis));
        state.environment = environment;
        outcome.plan = changes;
        outcome.timing.swap = swapping.elapsed();
        // Dropping a large generation takes a while, and no caller needs to wait for it.
        tokio::task::spawn_blocking(move || drop((serving, basis_before)));
        Ok(number)
    }

    /// Computes the basis of the bundle for comparisons. `before` is the previous basis, which
    /// shares unchanged data.
    async fn basis(
        &self,
        bundle: &Arc<Bundle>,
        environment: &Environment,
        before: Option<Arc<SnapshotBasis>>,
    ) -> SnapshotBasis {
        let (inner, bundle, environment) = (
            Arc::clone(self.inner()),
            Arc::clone(bundle),
            environment.clone(),
        );
        run_blocking(move || {
            let contents = inner.contents.of(&bundle);
            SnapshotBasis::new(
                bundle,
                &inner.notebook.swarm,
                contents,
                &environment,
                before.as_deref(),
            )
        })
        .await
    }

    /// Records the current generation for other processes.
    async fn record_reload(&self, state: &ReloadState, last_reload: LastReload) {
        let Some(basis) = state.basis.clone() else {
            return;
        };
        let (notebook, generation) = (
            self.inner().notebook.clone(),
            self.inner().runtime.generation().number,
        );
        run_blocking(move || notebook.write(generation, &basis, Some(last_reload))).await;
    }

    /// Returns the project of the current generation.
    pub fn bundle(&self) -> Arc<Bundle> {
        Arc::clone(&self.inner().runtime.generation().bundle)
    }

    /// Returns the project directory as configured.
    pub(crate) fn root(&self) -> PathBuf {
        self.inner().runtime.generation().bundle.root().to_owned()
    }

    /// Returns the directory for state.
    pub(crate) fn state_root(&self) -> PathBuf {
        self.inner().state_root.0.clone()
    }

    /// Returns a handle that does not keep the swarm alive.
    pub(crate) fn downgrade(&self) -> Weak<SwarmInner> {
        Arc::downgrade(self.inner())
    }
}

/// Replaces the bundle of a rejected project with the reasons.
fn rejected_project(project: Project, refusals: Vec<Diagnostic>) -> Project {
    let diagnostics = project.diagnostics.into_iter().chain(refusals).collect();
    Project {
        bundle: None,
        diagnostics,
        ..project
    }
}

/// Returns the bundle with its environment, or all errors of both.
fn usable_bundle(
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

/// Plans `swarm` if its variables are set; `environment` includes the secrets from other sources.
pub(crate) async fn plan_swarm(
    bundle: &Arc<Bundle>,
    swarm: &Resource<SwarmSpec>,
    number: u64,
    ports: &PlanPorts,
    environment: &Environment,
    serving: Option<ServingGeneration<'_>>,
    redactor: &SecretRedactor,
) -> Result<Generation, Vec<Diagnostic>> {
    // The redactor needs the secrets before any use.
    redactor.add_environment(environment);
    redactor.add_secrets(bundle.secrets(environment));
    redactor.add_likely_secrets(bundle.settings(environment));
    let missing = bundle.missing_environment(&swarm.id, environment);
    match missing.is_empty() {
        true => {
            let mut generation = plan(bundle, swarm, number, ports, environment, serving).await?;
            let warnings = checks::warnings_of_swarm(bundle, &swarm.id, environment);
            generation.warnings.extend(warnings);
            Ok(generation)
        }
        false => Err(missing),
    }
}
