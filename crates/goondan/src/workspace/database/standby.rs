//! State of a standby node. Its project follows the project of the leading node.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use goondan_engine::plan::{Generation, PlanPorts, ServingGeneration};
use goondan_engine::policy::redact::SecretRedactor;
use goondan_spec::{Bundle, Environment, OsFiles, ResourceId};
use goondan_store_postgres::PostgresLeader;
use tokio::sync::mpsc::UnboundedSender;

use super::project_digest;
use crate::adapters::EntryToolSource;
use crate::reload::{ReloadCheck, plan_swarm};
use crate::start::environment::VariableSource;
use crate::start::package_copies::copy_packages;
use crate::start::project::{self, Project};
use crate::start::secrets;

/// Initial interval at which a node checks its directory for the leader's project. It grows up to
/// [`MAX_PROJECT_CHECK_DELAY`].
const FIRST_PROJECT_CHECK_DELAY: Duration = Duration::from_millis(500);
const MAX_PROJECT_CHECK_DELAY: Duration = Duration::from_secs(15);

/// Node that works for another one until it leads.
pub(crate) struct StandbyNode<'a> {
    /// Generation that the node runs turns with.
    pub(crate) generation: Arc<Generation>,
    /// Variables that the generation was planned with.
    pub(crate) environment: Environment,
    /// Digest of the project.
    pub(crate) mark: String,
    pub(crate) swarm: ResourceId,
    pub(crate) ports: &'a PlanPorts,
    pub(crate) tools: &'a EntryToolSource,
    pub(crate) variables: &'a VariableSource,
    pub(crate) reload_check: Option<&'a ReloadCheck>,
    pub(crate) redactor: &'a SecretRedactor,
}

/// Project that was read again.
struct RereadProject {
    bundle: Arc<Bundle>,
    environment: Environment,
}

impl StandbyNode<'_> {
    /// Applies the project of the leading node as soon as this node's directory contains it. Never
    /// returns.
    pub(crate) async fn follow(
        &mut self,
        leader: &PostgresLeader,
        generations: &UnboundedSender<Arc<Generation>>,
    ) {
        let mut delay = FIRST_PROJECT_CHECK_DELAY;
        loop {
            leader.is_left_out().await;
            match leader.serves().await {
                Ok(Some(leader_digest)) if leader_digest == self.mark => {
                    delay = FIRST_PROJECT_CHECK_DELAY;
                    if let Err(error) = leader.set_generation(&self.mark).await {
                        tracing::debug!(%error, "failed to report this node's project to the \
                            leader");
                    }
                }
                Ok(Some(leader_digest)) if self.apply_project(&leader_digest).await => {
                    tracing::info!(
                        project = self.mark,
                        "this node has loaded the leader's project"
                    );
                    // A closed channel means that the node runs no turns.
                    let _ = generations.send(Arc::clone(&self.generation));
                    continue;
                }
                Ok(_) => delay = (delay * 2).min(MAX_PROJECT_CHECK_DELAY),
                Err(error) => tracing::debug!(%error, "failed to read which project the leader \
                    serves"),
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Applies the project of the directory if its digest equals `leader_digest`. Returns true if it
    /// was applied.
    async fn apply_project(&mut self, leader_digest: &str) -> bool {
        let Some(RereadProject {
            bundle,
            environment,
        }) = self.read().await
        else {
            return false;
        };
        if project_digest(&bundle, &self.swarm).await != leader_digest {
            return false;
        }
        let Ok(swarm) = bundle.choose_swarm(Some(&self.swarm.name)) else {
            return false;
        };
        if let Err(problem) = copy_packages(&bundle, self.tools.state_root()).await {
            tracing::warn!(
                problem = problem.message,
                "the leader's project can't be loaded on this node"
            );
            return false;
        }
        self.tools.set_environment(environment.clone());
        self.tools.mcp().prepare_reload(&bundle, swarm);
        let number = self.generation.number + 1;
        let serving_generation = ServingGeneration {
            generation: &self.generation,
            unchanged: &Default::default(),
        };
        let plan_result = plan_swarm(
            &bundle,
            swarm,
            number,
            self.ports,
            &environment,
            Some(serving_generation),
            self.redactor,
        )
        .await;
        match plan_result {
            Ok(generation) => {
                self.tools.mcp().accept_prepared();
                (self.generation, self.environment) = (Arc::new(generation), environment);
                leader_digest.clone_into(&mut self.mark);
                true
            }
            Err(problems) => {
                self.tools.mcp().reject_prepared();
                for problem in problems {
                    tracing::warn!(
                        problem = problem.message,
                        "the leader's project can't be loaded on this node"
                    );
                }
                false
            }
        }
    }

    /// Reads the directory. Returns `None` if it has no usable project, for example during a write.
    async fn read(&self) -> Option<RereadProject> {
        let root = self.generation.bundle.root().to_owned();
        let (folder, check) = (root.clone(), self.reload_check.cloned());
        let bundle = tokio::task::spawn_blocking(move || read_project(&folder, check))
            .await
            .ok()??;
        let environment = self.variables.read(&OsFiles, &root).ok()?;
        let environment = secrets::complete(&bundle, &self.swarm, environment)
            .await
            .ok()?;
        Some(RereadProject {
            bundle,
            environment,
        })
    }
}

/// Loads the project in `folder`; `None` if it has errors or `check` rejects it.
fn read_project(folder: &Path, check: Option<ReloadCheck>) -> Option<Arc<Bundle>> {
    let project: Project = project::load(folder);
    let is_accepted = check.is_none_or(|check| check(&project).is_ok());
    project.bundle.filter(|_| is_accepted)
}
