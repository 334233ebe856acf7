//! A swarm with the state that its clients share.

use std::sync::Arc;

use goondan::event::SwarmEvent;
use goondan::gateway::SwarmGateway;
use goondan::{ApprovalBroker, Swarm};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::a2a::ShownRequests;
use crate::metrics::SwarmMetrics;
use crate::openai::{self, ConversationIndex};
use crate::reloads::ReloadLog;

/// A swarm with the state that its clients share. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) inner: Arc<ServiceState>,
}

pub(crate) struct ServiceState {
    pub(crate) gateway: SwarmGateway,
    pub(crate) broker: ApprovalBroker,
    pub(crate) metrics: Arc<SwarmMetrics>,
    pub(crate) version: String,
    pub(crate) reloads: ReloadLog,
    /// Responses that the OpenAI protocol kept, and the time in seconds since which it keeps them.
    pub(crate) openai: Arc<ConversationIndex>,
    pub(crate) openai_began: u64,
    /// Approval requests that A2A clients were last shown.
    pub(crate) a2a: ShownRequests,
}

/// Background work of a service. Dropping it ends the service's streams.
pub struct ServiceGuard {
    reloads: JoinHandle<()>,
    gateway: SwarmGateway,
    _counting: DropGuard,
}

impl Service {
    /// Serves `swarm`, whose approval requests go to `broker`. `version` is the program's version.
    pub fn begin(
        swarm: Swarm,
        broker: ApprovalBroker,
        version: impl Into<String>,
    ) -> (Service, ServiceGuard) {
        Service::begin_with(swarm, broker, version.into(), SwarmGateway::open)
    }

    /// Starts a service like [`Service::begin`], with the gateway that `open` opens.
    pub(crate) fn begin_with(
        swarm: Swarm,
        broker: ApprovalBroker,
        version: String,
        open: impl FnOnce(Swarm, ApprovalBroker) -> SwarmGateway,
    ) -> (Service, ServiceGuard) {
        let metrics = Arc::new(SwarmMetrics::new(&version));
        let counting = CancellationToken::new();
        // An event is counted before clients receive it.
        count_events(&swarm, Arc::clone(&metrics), counting.clone());
        let gateway = open(swarm, broker.clone());
        let inner = ServiceState {
            gateway: gateway.clone(),
            broker,
            metrics,
            version,
            reloads: ReloadLog::default(),
            openai: Arc::default(),
            openai_began: openai::now(),
            a2a: ShownRequests::default(),
        };
        let mut reloads_receiver = gateway.swarm().reload_news();
        let service = Service {
            inner: Arc::new(inner),
        };
        let reload_service = service.clone();
        let reloads = tokio::spawn(async move {
            reload_service
                .inner
                .reloads
                .record_from(reload_service.swarm(), &mut reloads_receiver)
                .await
        });
        let guard = ServiceGuard {
            reloads,
            gateway,
            _counting: counting.drop_guard(),
        };
        (service, guard)
    }

    /// Returns the swarm.
    pub fn swarm(&self) -> &Swarm {
        self.inner.gateway.swarm()
    }

    /// Returns the gateway to the swarm.
    pub fn gateway(&self) -> &SwarmGateway {
        &self.inner.gateway
    }

    /// Returns true if the service refuses new inputs.
    pub(crate) fn is_draining(&self) -> bool {
        self.inner.gateway.is_draining()
    }

    /// Refuses new inputs from now on. Streams continue.
    pub fn drain(&self) {
        self.inner.gateway.drain();
    }
}

impl Drop for ServiceGuard {
    fn drop(&mut self) {
        self.reloads.abort();
        self.gateway.close();
    }
}

/// Counts the events of the swarm until the end.
fn count_events(swarm: &Swarm, metrics: Arc<SwarmMetrics>, ended: CancellationToken) {
    swarm.observe(move |event| {
        if let SwarmEvent::Runtime(event) = event {
            metrics.count(event);
        }
        !ended.is_cancelled()
    });
}
