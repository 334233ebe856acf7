//! What happens in a swarm, sent to a receiver of OpenTelemetry.

use std::sync::Arc;

use goondan_core::event::SwarmEvent;
use goondan_core::ports::clock::Clock;
use goondan_core::ports::tracing::{PassOn, Tracing};
use goondan_engine::policy::redact::Redactor;
use goondan_spec::Resource;
use goondan_spec::kinds::Swarm;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub use goondan_core::caller::{Caller, TraceParent};
pub use goondan_telemetry::{
    Assembler, Endpoint, Identity, PostError, Poster, Protocol, Sampler, Settings, Telemetry, otlp,
    requests,
};

/// Who sends.
pub fn identity(swarm: Option<&str>, clock: &dyn Clock) -> Identity {
    Identity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        swarm: swarm.map(str::to_owned),
        instance: clock.hex(32),
    }
}

/// What a swarm has of telemetry.
pub(crate) struct Begun {
    /// What sends; `None` where nothing is sent.
    pub(crate) telemetry: Option<Telemetry>,
    /// Must get the events for it.
    pub(crate) watchers: Vec<UnboundedSender<SwarmEvent>>,
    /// Decides what servers are told.
    pub(crate) tracing: Arc<dyn Tracing>,
}

/// Begins to send, where anything is sent at all.
pub(crate) fn begin(
    settings: Option<Settings>,
    swarm: &Resource<Swarm>,
    redactor: &Redactor,
    clock: &dyn Clock,
) -> Begun {
    let nothing = Begun {
        telemetry: None,
        watchers: Vec::new(),
        tracing: Arc::new(PassOn),
    };
    let Some(settings) = settings else {
        return nothing;
    };
    redactor.learn(settings.secrets());
    let (sender, receiver) = unbounded_channel();
    match Telemetry::start(
        settings.clone(),
        &identity(Some(&swarm.id.name), clock),
        receiver,
    ) {
        Some(telemetry) => Begun {
            telemetry: Some(telemetry),
            watchers: vec![sender],
            tracing: Arc::new(settings),
        },
        None => nothing,
    }
}
