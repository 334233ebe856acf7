//! State shared by all parts of a running swarm.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use goondan_spec::kinds::{AgentWorkdir, BudgetLimits};
use tokio::sync::mpsc::UnboundedSender;

use crate::activity::ActivityRegistry;
use crate::cluster::{LeaderClient, WorkerPool};
use crate::delivery::bus::EventBus;
use crate::delivery::conversation_titles::ConversationTitles;
use crate::delivery::orchestrator::OrchestratorCommand;
use crate::delivery::schedule::JobTable;
use crate::plan::{AgentPlan, Generation};
use crate::policy::redact::SecretRedactor;
use crate::turn::budget::UsageTotals;
use crate::turn::rate_limiter::RateLimiter;
use crate::usage_increment::UsageIncrement;
use goondan_core::event::TurnError;
use goondan_core::ids::InstanceId;
use goondan_core::model_calls::{ExchangeRecorder, ModelCallLog};
use goondan_core::ports::approval::{
    ApprovalAnswer, ApprovalRequest, ApprovalStore, SharedApprover,
};
use goondan_core::ports::clock::Clock;
use goondan_core::ports::reload::ProjectReloader;
use goondan_core::ports::store::Store;
use goondan_core::ports::tool::InstanceObserver;
use goondan_core::ports::tracing::TracePolicy;
use goondan_core::real_path::real_path;

/// Ports of a running swarm and its current generation.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) approver: SharedApprover,
    /// Removes secrets from everything that is persisted.
    pub(crate) redactor: SecretRedactor,
    /// Remembered approvals.
    pub(crate) approvals: Arc<dyn ApprovalStore>,
    /// True if this system can sandbox the programs of a call.
    pub(crate) has_sandbox: bool,
    pub(crate) bus: EventBus,
    pub(crate) generation: ArcSwap<Generation>,
    pub(crate) activity: ActivityRegistry,
    /// Usage of all turns of this run.
    pub(crate) spent: UsageTotals,
    /// Rate limiter for the model calls of all agents.
    pub(crate) rate_limiter: RateLimiter,
    /// Decides which trace headers model and tool servers receive.
    pub(crate) tracing: Arc<dyn TracePolicy>,
    /// Latest model calls of this node, if a client can inspect them.
    pub(crate) model_calls: ModelCallLog,
    /// Prompts that are sent on schedule.
    pub(crate) timetable: Arc<JobTable>,
    /// Titles of conversations. Only the leader uses them.
    pub(crate) titles: ConversationTitles,
    /// Notified when an instance is evicted.
    pub(crate) observer: Arc<dyn InstanceObserver>,
    /// Working directory of all tools; overrides the agents' own.
    pub(crate) workdir: Option<PathBuf>,
    pub(crate) reloader: Option<Arc<dyn ProjectReloader>>,
    /// Set by a kill. No result that arrives afterwards is recorded.
    pub(crate) dead: AtomicBool,
    /// Set when the swarm begins to stop. Approval requests then stay open for the next start.
    pub(crate) stopping: AtomicBool,
    /// Connection to the leader, on a worker.
    pub(crate) leader_client: Option<Arc<LeaderClient>>,
    /// Worker nodes, on a leader that accepts workers.
    pub(crate) worker_pool: Option<Arc<WorkerPool>>,
    /// Mailbox of the orchestrator. Unbounded: its senders are turns, whose number is limited, and
    /// inputs, whose queues are limited.
    pub(crate) commands: UnboundedSender<OrchestratorCommand>,
}

impl Engine {
    /// Fails if `policy.runBudget` allows no further step. Workers ask the leader, which has the
    /// totals of all nodes.
    pub(crate) async fn check_budget(&self, budget: &BudgetLimits) -> Result<(), TurnError> {
        match self
            .leader_client
            .as_ref()
            .filter(|_| *budget != BudgetLimits::default())
        {
            None => self.spent.check(budget, "policy.runBudget"),
            Some(leader_client) => leader_client.check_budget().await,
        }
    }

    /// Records usage; a worker reports it to the leader.
    pub(crate) fn record_usage(&self, spending: UsageIncrement) {
        match &self.leader_client {
            None => self.spent.add(&spending),
            Some(leader_client) => leader_client.report_usage(spending),
        }
    }

    /// Releases everything that belongs to an evicted instance, on this node and on its worker.
    pub(crate) fn release_instance(&self, instance: &InstanceId) {
        self.observer.on_instance_end(instance);
        if let Some(worker_pool) = &self.worker_pool {
            worker_pool.release_instance(instance);
        }
    }

    /// Returns the output of `work`, or never returns once the swarm was killed. I/O fails while
    /// the runtime shuts down, and such a failure must not be recorded as an outcome.
    pub(crate) async fn outcome_of<T>(&self, work: impl Future<Output = T>) -> T {
        let value = work.await;
        if self.dead.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        value
    }

    /// Returns a recorder for a model call, or `None` if calls are not recorded.
    pub(crate) fn exchange_recorder(&self) -> Option<Arc<ExchangeRecorder>> {
        let is_recorded =
            self.model_calls.is_on() && self.generation.load().policy.recorded_model_calls > 0;
        is_recorded.then(Arc::default)
    }

    /// Requests an approval. Once the swarm stops, clients disconnect. That is not an answer, so the
    /// request stays open, and the next start sends it again.
    pub(crate) async fn request_approval(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let answer = self.approver.ask(request).await;
        if answer == ApprovalAnswer::NobodyThere && self.stopping.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        answer
    }

    /// Returns an agent of the current generation; `None` if it has no such agent.
    pub(crate) fn agent(&self, name: &str) -> Option<Arc<AgentPlan>> {
        self.generation.load().agent(name).cloned()
    }

    /// Returns the working directory of `instance`. The run's setting wins over the spawn's, and
    /// the spawn's over the agent's.
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
            AgentWorkdir::Instance => self.store.workdir(instance),
            AgentWorkdir::Project => root(),
            AgentWorkdir::Path(path) => root().join(path),
            AgentWorkdir::Repository(folder) => folder.clone(),
        }
    }

    /// Returns the directory that must contain the working directory even if links in its path
    /// change. The directory of a spawn was already free of links when it was set.
    pub(crate) fn workdir_anchor(&self, agent: &AgentPlan, cwd: Option<&Path>) -> Option<PathBuf> {
        if self.workdir.is_some() {
            return None;
        }
        match (cwd, &agent.workdir) {
            (Some(cwd), _) => Some(cwd.to_owned()),
            (None, AgentWorkdir::Instance | AgentWorkdir::Project) => None,
            (None, AgentWorkdir::Path(_)) => {
                let project = &self.generation.load().project;
                Some(real_path(project).unwrap_or_else(|_| project.clone()))
            }
            (None, AgentWorkdir::Repository(folder)) => Some(folder.clone()),
        }
    }
}
