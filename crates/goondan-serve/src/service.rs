//! A swarm with the state that its clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goondan::event::SwarmEvent;
use goondan::{ApprovalBroker, Swarm};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::a2a::ShownRequests;
use crate::approvals::GivenAnswers;
use crate::hub::EventHub;
use crate::metrics::SwarmMetrics;
use crate::openai::{self, ConversationIndex};
use crate::reloads::ReloadLog;

/// A swarm with the state that its clients share. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) inner: Arc<ServiceState>,
}

pub(crate) struct ServiceState {
    pub(crate) swarm: Swarm,
    pub(crate) broker: ApprovalBroker,
    pub(crate) hub: Arc<EventHub>,
    pub(crate) metrics: Arc<SwarmMetrics>,
    pub(crate) version: String,
    pub(crate) reloads: ReloadLog,
    /// Responses that the OpenAI protocol kept, and the time in seconds since which it keeps them.
    pub(crate) openai: Arc<ConversationIndex>,
    pub(crate) openai_began: u64,
    /// Approval requests that A2A clients were last shown.
    pub(crate) a2a: ShownRequests,
    /// Answers to approval requests.
    pub(crate) given: GivenAnswers,
    is_draining: AtomicBool,
    /// Cancelled at the end of the swarm; ends all streams.
    pub(crate) ended: CancellationToken,
}

/// Background work of a service. Dropping it ends the service's streams.
pub struct ServiceGuard {
    reloads: JoinHandle<()>,
    ended: CancellationToken,
}

impl Service {
    /// Serves `swarm`, whose approval requests go to `broker`. `version` is the program's version.
    pub fn begin(
        swarm: Swarm,
        broker: ApprovalBroker,
        version: impl Into<String>,
    ) -> (Service, ServiceGuard) {
        Service::with_hub(
            EventHub::after(swarm.sequence_at_start()),
            swarm,
            broker,
            version.into(),
        )
    }

    /// Same as [`Service::begin`], with the given hub.
    pub(crate) fn with_hub(
        hub: EventHub,
        swarm: Swarm,
        broker: ApprovalBroker,
        version: String,
    ) -> (Service, ServiceGuard) {
        let ended = CancellationToken::new();
        let (hub, metrics) = (Arc::new(hub), Arc::new(SwarmMetrics::new(&version)));
        // Runs inside the swarm's own task: waking a separate task for each event would keep a
        // second processor busy.
        swarm.observe(observer(
            Arc::clone(&hub),
            Arc::clone(&metrics),
            ended.clone(),
        ));
        let inner = ServiceState {
            swarm,
            broker,
            hub,
            metrics,
            version,
            reloads: ReloadLog::default(),
            openai: Arc::default(),
            openai_began: openai::now(),
            a2a: ShownRequests::default(),
            given: GivenAnswers::default(),
            is_draining: AtomicBool::new(false),
            ended: ended.clone(),
        };
        let mut reloads_receiver = inner.swarm.reload_news();
        let service = Service {
            inner: Arc::new(inner),
        };
        let reload_service = service.clone();
        let reloads = tokio::spawn(async move {
            reload_service
                .inner
                .reloads
                .follow(reload_service.swarm(), &mut reloads_receiver)
                .await
        });
        (service, ServiceGuard { reloads, ended })
    }

    /// Returns the swarm.
    pub fn swarm(&self) -> &Swarm {
        &self.inner.swarm
    }

    /// Refuses new inputs from now on. Streams continue.
    pub fn drain(&self) {
        self.inner.is_draining.store(true, Ordering::Release);
    }

    /// Returns true if the service refuses new inputs.
    pub(crate) fn is_draining(&self) -> bool {
        self.inner.is_draining.load(Ordering::Acquire)
    }
}

impl Drop for ServiceGuard {
    fn drop(&mut self) {
        self.reloads.abort();
        self.ended.cancel();
    }
}

/// Returns the observer that counts and publishes events until the end.
fn observer(
    hub: Arc<EventHub>,
    metrics: Arc<SwarmMetrics>,
    ended: CancellationToken,
) -> impl FnMut(&SwarmEvent) -> bool + Send {
    move |event| {
        if let SwarmEvent::Runtime(event) = event {
            metrics.count(event);
        }
        hub.publish(event);
        !ended.is_cancelled()
    }
}
