//! A swarm with everything that its clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goondan::event::SwarmEvent;
use goondan::{Broker, Swarm};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::a2a::Told;
use crate::asking::Given;
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::openai::{self, Memory};
use crate::reloads::Reloads;

/// A swarm with everything that its clients share. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) swarm: Swarm,
    pub(crate) broker: Broker,
    pub(crate) hub: Arc<Hub>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) version: String,
    /// What reloads have changed.
    pub(crate) reloads: Reloads,
    /// What the OpenAI-compatible door remembers, and since when.
    pub(crate) openai: Arc<Memory>,
    pub(crate) openai_began: u64,
    /// What clients of A2A were asked last.
    pub(crate) a2a: Told,
    /// What clients have answered.
    pub(crate) given: Given,
    is_draining: AtomicBool,
    /// Streams end with it.
    pub(crate) ended: CancellationToken,
}

/// What keeps a service going. Dropping it ends its streams.
pub struct Serving {
    reloads: JoinHandle<()>,
    ended: CancellationToken,
}

impl Service {
    /// Serves `swarm`, whose questions go to `broker`. `version` is the program's.
    pub fn begin(swarm: Swarm, broker: Broker, version: impl Into<String>) -> (Service, Serving) {
        Service::with_hub(
            Hub::after(swarm.sequence_at_start()),
            swarm,
            broker,
            version.into(),
        )
    }

    pub(crate) fn with_hub(
        hub: Hub,
        swarm: Swarm,
        broker: Broker,
        version: String,
    ) -> (Service, Serving) {
        let ended = CancellationToken::new();
        let (hub, metrics) = (Arc::new(hub), Arc::new(Metrics::new(&version)));
        // A task that is woken by every event would keep a second processor busy with nothing but waking up.
        swarm.observe(note(Arc::clone(&hub), Arc::clone(&metrics), ended.clone()));
        let inner = Inner {
            swarm,
            broker,
            hub,
            metrics,
            version,
            reloads: Reloads::default(),
            openai: Arc::default(),
            openai_began: openai::now(),
            a2a: Told::default(),
            given: Given::default(),
            is_draining: AtomicBool::new(false),
            ended: ended.clone(),
        };
        let mut news = inner.swarm.reload_news();
        let service = Service {
            inner: Arc::new(inner),
        };
        let told = service.clone();
        let reloads =
            tokio::spawn(async move { told.inner.reloads.follow(told.swarm(), &mut news).await });
        (service, Serving { reloads, ended })
    }

    /// The swarm.
    pub fn swarm(&self) -> &Swarm {
        &self.inner.swarm
    }

    /// Takes no more inputs from now on. Streams go on.
    pub fn drain(&self) {
        self.inner.is_draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.inner.is_draining.load(Ordering::Acquire)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.reloads.abort();
        self.ended.cancel();
    }
}

/// Counts what happens and passes it on, until the end.
fn note(
    hub: Arc<Hub>,
    metrics: Arc<Metrics>,
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
