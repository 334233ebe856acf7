//! What a node brings along that works for another one. Its project follows the one that serves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use goondan_engine::plan::{Generation, PlanPorts, Serving};
use goondan_engine::policy::redact::Redactor;
use goondan_spec::{Bundle, Environment, OsFiles, ResourceId};
use goondan_store_postgres::PostgresLeader;
use tokio::sync::mpsc::UnboundedSender;

use super::mark_of;
use crate::adapters::ToolSources;
use crate::project::{self, Project};
use crate::reload::{ReloadCheck, plan_swarm};
use crate::secrets;
use crate::variables::Variables;

/// How soon a node looks again into its folder for the project that serves; later each time, as far as [`LAST`].
const FIRST: Duration = Duration::from_millis(500);
const LAST: Duration = Duration::from_secs(15);

/// A node that would work for another one, or lead.
pub(crate) struct Standby<'a> {
    /// What it runs turns of.
    pub(crate) generation: Arc<Generation>,
    /// The variables that this was planned with.
    pub(crate) environment: Environment,
    /// What its project amounts to.
    pub(crate) mark: String,
    pub(crate) swarm: ResourceId,
    pub(crate) ports: &'a PlanPorts,
    pub(crate) tools: &'a ToolSources,
    pub(crate) variables: &'a Variables,
    pub(crate) reload_check: Option<&'a ReloadCheck>,
    pub(crate) redactor: &'a Redactor,
}

/// A project that was read again.
struct ReadAgain {
    bundle: Arc<Bundle>,
    environment: Environment,
}

impl Standby<'_> {
    /// Takes up what the node that leads serves, wherever its own folder holds that by now. Never ends.
    pub(crate) async fn follow(
        &mut self,
        leader: &PostgresLeader,
        generations: &UnboundedSender<Arc<Generation>>,
    ) {
        let mut pause = FIRST;
        loop {
            leader.is_left_out().await;
            match leader.serves().await {
                Ok(Some(serves)) if serves == self.mark => {
                    pause = FIRST;
                    if let Err(error) = leader.set_generation(&self.mark).await {
                        tracing::debug!(%error, "the node that leads can't be told of this node's project");
                    }
                }
                Ok(Some(serves)) if self.take_up(&serves).await => {
                    tracing::info!(
                        project = self.mark,
                        "this node has taken up the project that serves"
                    );
                    // Whoever does not listen any more runs no turns.
                    let _ = generations.send(Arc::clone(&self.generation));
                    continue;
                }
                Ok(_) => pause = (pause * 2).min(LAST),
                Err(error) => tracing::debug!(%error, "it is not known which project serves"),
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Takes up the project of the folder, where that amounts to `wanted`.
    async fn take_up(&mut self, wanted: &str) -> bool {
        let Some(ReadAgain {
            bundle,
            environment,
        }) = self.read().await
        else {
            return false;
        };
        if mark_of(&bundle, &self.swarm).await != wanted {
            return false;
        }
        let Ok(swarm) = bundle.choose_swarm(Some(&self.swarm.name)) else {
            return false;
        };
        self.tools.set_environment(environment.clone());
        self.tools.mcp().prepare(&bundle, swarm);
        let number = self.generation.number + 1;
        let beside = Serving {
            generation: &self.generation,
            unchanged: &Default::default(),
        };
        let planned = plan_swarm(
            &bundle,
            swarm,
            number,
            self.ports,
            &environment,
            Some(beside),
            self.redactor,
        )
        .await;
        match planned {
            Ok(generation) => {
                (self.generation, self.environment) = (Arc::new(generation), environment);
                wanted.clone_into(&mut self.mark);
                true
            }
            Err(problems) => {
                for problem in problems {
                    tracing::warn!(
                        problem = problem.message,
                        "the project that serves can't be taken up on this node"
                    );
                }
                false
            }
        }
    }

    /// Reads the folder; `None` where it holds nothing that may be taken up, which may be so because somebody writes to it.
    async fn read(&self) -> Option<ReadAgain> {
        let root = self.generation.bundle.root().to_owned();
        let (folder, check) = (root.clone(), self.reload_check.cloned());
        let bundle = tokio::task::spawn_blocking(move || read_project(&folder, check))
            .await
            .ok()??;
        let environment = self.variables.read(&OsFiles, &root).ok()?;
        let environment = secrets::complete(&bundle, &self.swarm, environment)
            .await
            .ok()?;
        Some(ReadAgain {
            bundle,
            environment,
        })
    }
}

fn read_project(folder: &Path, check: Option<ReloadCheck>) -> Option<Arc<Bundle>> {
    let project: Project = project::load(folder);
    let may_run = check.is_none_or(|check| check(&project).is_ok());
    project.bundle.filter(|_| may_run)
}
