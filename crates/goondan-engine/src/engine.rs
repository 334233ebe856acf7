//! What all parts of a running swarm share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use goondan_spec::kinds::{Budget, Workdir};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use crate::cluster::{Roster, Uplink};
use crate::delivery::bus::EventBus;
use crate::delivery::orchestrator::Command;
use crate::delivery::schedule::Timetable;
use crate::life::Lives;
use crate::plan::{AgentPlan, Generation};
use crate::policy::redact::Redactor;
use crate::turn::budget::Spent;
use crate::turn::pace::Pace;
use goondan_core::event::{Cost, TurnError};
use goondan_core::ids::InstanceId;
use goondan_core::ports::approval::{ApprovalBook, SharedApprover};
use goondan_core::ports::clock::Clock;
use goondan_core::ports::model::TokenUsage;
use goondan_core::ports::reload::Reloader;
use goondan_core::ports::store::Store;
use goondan_core::ports::tool::InstanceObserver;
use goondan_core::ports::tracing::Tracing;
use goondan_core::real_path::real_path;

/// The ports of a running swarm, and its current generation.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) approver: SharedApprover,
    /// Keeps secrets out of what is written down.
    pub(crate) redactor: Redactor,
    /// Approvals that hold always.
    pub(crate) approvals: Arc<dyn ApprovalBook>,
    /// Whether this system contains the programs of a call.
    pub(crate) has_sandbox: bool,
    pub(crate) bus: EventBus,
    pub(crate) generation: ArcSwap<Generation>,
    /// Who is at work, and where a person is asked.
    pub(crate) lives: Lives,
    /// What all turns of this run have used up.
    pub(crate) spent: Spent,
    /// What all agents have asked models in the last minute.
    pub(crate) pace: Pace,
    /// Decides what servers are told of the trace.
    pub(crate) tracing: Arc<dyn Tracing>,
    /// Prompts that come by the clock.
    pub(crate) timetable: Arc<Timetable>,
    /// Is told which instances were put away.
    pub(crate) observer: Arc<dyn InstanceObserver>,
    /// Lets tools work there, whatever the agents say.
    pub(crate) workdir: Option<PathBuf>,
    /// Reads the project again.
    pub(crate) reloader: Option<Arc<dyn Reloader>>,
    /// Set by a kill: nothing that ends from then on is recorded.
    pub(crate) dead: AtomicBool,
    /// The node that leads, where this one works for it.
    pub(crate) uplink: Option<Arc<Uplink>>,
    /// The nodes that work for this one, where there may be some.
    pub(crate) roster: Option<Arc<Roster>>,
    /// The orchestrator. Unbounded: its senders are turns, whose number is limited, and inputs, whose queues are.
    pub(crate) commands: UnboundedSender<Command>,
}

/// Something that was used up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spending {
    pub(crate) usage: TokenUsage,
    /// It was a step.
    pub(crate) is_step: bool,
    pub(crate) cost: Option<Cost>,
}

impl Engine {
    /// Whether `policy.budget` allows another step. The node that leads knows what all have used up.
    pub(crate) async fn check_budget(&self, budget: &Budget) -> Result<(), TurnError> {
        match self
            .uplink
            .as_ref()
            .filter(|_| *budget != Budget::default())
        {
            None => self.spent.check(budget, "policy.budget"),
            Some(uplink) => uplink.check_budget().await,
        }
    }

    /// Something was used up.
    pub(crate) fn spend(&self, spending: Spending) {
        match &self.uplink {
            None => self.spent.add(&spending),
            Some(uplink) => uplink.spent(spending),
        }
    }

    /// An instance was put away: what belongs to it ends, wherever it is.
    pub(crate) fn put_away(&self, instance: &InstanceId) {
        self.observer.ended(instance);
        if let Some(roster) = &self.roster {
            roster.put_away(instance);
        }
    }

    /// What comes of `work`; never, once the swarm was killed. A dying runtime makes I/O fail, and a failure that only came
    /// from that must not be taken for an outcome.
    pub(crate) async fn outcome_of<T>(&self, work: impl Future<Output = T>) -> T {
        let value = work.await;
        if self.dead.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        value
    }

    /// The agent as it is planned now.
    pub(crate) fn agent(&self, name: &str) -> Option<Arc<AgentPlan>> {
        self.generation.load().agent(name).cloned()
    }

    /// Where the tools of `instance` work: what the run says, what its spawn said, what its agent says.
    pub(crate) fn workdir(
        &self,
        agent: &AgentPlan,
        instance: &InstanceId,
        cwd: Option<&Path>,
    ) -> PathBuf {
        let root = || self.generation.load().project.clone();
        if let Some(workdir) = &self.workdir {
            return workdir.clone();
        }
        if let Some(cwd) = cwd {
            return cwd.to_owned();
        }
        match &agent.workdir {
            Workdir::Instance => self.store.workdir(instance),
            Workdir::Project => root(),
            Workdir::Path(path) => root().join(path),
            Workdir::Repository(folder) => folder.clone(),
        }
    }

    /// What that folder must lie in, free of links, however the links in its path change. What a spawn said was free of links then.
    pub(crate) fn anchor(&self, agent: &AgentPlan, cwd: Option<&Path>) -> Option<PathBuf> {
        if self.workdir.is_some() {
            return None;
        }
        match (cwd, &agent.workdir) {
            (Some(cwd), _) => Some(cwd.to_owned()),
            (None, Workdir::Instance | Workdir::Project) => None,
            (None, Workdir::Path(_)) => {
                let project = &self.generation.load().project;
                Some(real_path(project).unwrap_or_else(|_| project.clone()))
            }
            (None, Workdir::Repository(folder)) => Some(folder.clone()),
        }
    }
}
