//! Parts that a leader and a worker node have in common.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::activity::ActivityRegistry;
use crate::cluster::leader_client::{GrantCache, LeaderApprover};
use crate::cluster::worker::TurnWorker;
use crate::cluster::{LeaderClient, WorkerPool};
use crate::delivery::bus::EventBus;
use crate::delivery::conversation_titles::ConversationTitles;
use crate::delivery::orchestrator::OrchestratorCommand;
use crate::delivery::schedule::JobTable;
use crate::engine::Engine;
use crate::plan::Generation;
use crate::policy::redact::SecretRedactor;
use crate::turn::budget::UsageTotals;
use crate::turn::rate_limiter::RateLimiter;
use goondan_core::model_calls::ModelCallLog;
use goondan_core::ports::approval::{ApprovalStore, SharedApprover};
use goondan_core::ports::clock::Clock;
use goondan_core::ports::cluster::LeaderChannel;
use goondan_core::ports::reload::ProjectReloader;
use goondan_core::ports::store::Store;
use goondan_core::ports::tool::InstanceObserver;
use goondan_core::ports::tracing::TracePolicy;

/// Parts of every node that runs turns, leader or worker.
pub struct EngineNodeParts {
    /// First generation.
    pub generation: Arc<Generation>,
    /// Stores conversations, accepted events, and side effects of running turns.
    pub store: Arc<dyn Store>,
    /// Supplies time and ids.
    pub clock: Arc<dyn Clock>,
    /// Removes secrets from everything that is persisted.
    pub redactor: SecretRedactor,
    /// True if this system can sandbox the programs of a call. Approvals of a program require a
    /// sandbox.
    pub has_sandbox: bool,
    /// Working directory of all tools; overrides the agents' own.
    pub workdir: Option<PathBuf>,
    /// Decides which trace headers are sent to model servers and tool servers.
    pub tracing: Arc<dyn TracePolicy>,
    /// Notified when an instance is evicted.
    pub observer: Arc<dyn InstanceObserver>,
}

/// Commands that a worker node receives from its process.
pub struct WorkerControl {
    /// Replacement generations.
    pub generations: UnboundedReceiver<Arc<Generation>>,
    /// Stops the node from accepting turns and lets it leave when its turns are over.
    pub leave: CancellationToken,
}

/// Parts that differ between a leader and a worker.
pub(super) struct NodeRole {
    pub(super) approver: SharedApprover,
    pub(super) approvals: Arc<dyn ApprovalStore>,
    pub(super) reloader: Option<Arc<dyn ProjectReloader>>,
    pub(super) timetable: Arc<JobTable>,
    pub(super) leader_client: Option<Arc<LeaderClient>>,
    pub(super) worker_pool: Option<Arc<WorkerPool>>,
    pub(super) commands: UnboundedSender<OrchestratorCommand>,
}

impl EngineNodeParts {
    /// Creates the engine of a node with this role.
    pub(super) fn build_engine(self, role: NodeRole) -> Arc<Engine> {
        let EngineNodeParts {
            generation,
            store,
            clock,
            redactor,
            has_sandbox,
            workdir,
            tracing,
            observer,
        } = self;
        let NodeRole {
            approver,
            approvals,
            reloader,
            timetable,
            leader_client,
            worker_pool,
            commands,
        } = role;
        let bus = EventBus::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            redactor.clone(),
            leader_client.clone(),
        );
        let activity = ActivityRegistry::default();
        Arc::new(Engine {
            bus,
            store,
            clock,
            approver,
            redactor,
            approvals,
            has_sandbox,
            generation: ArcSwap::new(generation),
            spent: UsageTotals::new(&activity.run),
            activity,
            rate_limiter: RateLimiter::default(),
            tracing,
            model_calls: ModelCallLog::default(),
            timetable,
            titles: ConversationTitles::default(),
            observer,
            workdir,
            reloader,
            dead: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            leader_client,
            worker_pool,
            commands,
        })
    }
}

/// Runs turns that the leader assigns, until this node leaves the cluster. If the future is
/// dropped, turns stop and resume on another node. New generations replace the first one.
pub async fn work(parts: EngineNodeParts, leader: Arc<dyn LeaderChannel>, orders: WorkerControl) {
    let leader_client = LeaderClient::new(leader);
    let grant_cache = GrantCache::new(&leader_client);
    let (commands, queue) = unbounded_channel();
    let engine = parts.build_engine(NodeRole {
        approver: Arc::new(LeaderApprover(Arc::clone(&leader_client))),
        approvals: Arc::clone(&grant_cache) as _,
        reloader: None,
        timetable: Arc::default(),
        leader_client: Some(Arc::clone(&leader_client)),
        worker_pool: None,
        commands,
    });
    TurnWorker::new(engine, leader_client, grant_cache)
        .run(queue, orders)
        .await;
}
