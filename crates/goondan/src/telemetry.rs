//! What happens in a swarm, sent to a receiver of OpenTelemetry.

use goondan_core::event::SwarmEvent;
use goondan_core::ports::clock::Clock;
use goondan_engine::policy::redact::Redactor;
use goondan_spec::Resource;
use goondan_spec::kinds::Swarm;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub use goondan_core::caller::{Caller, TraceParent};
pub use goondan_telemetry::{
    Assembler, Endpoint, Identity, PostError, Poster, Protocol, Sampler, Settings, Telemetry, otlp, requests,
};

/// Who sends.
pub fn identity(swarm: Option<&str>, clock: &dyn Clock) -> Identity {
    Identity { version: env!("CARGO_PKG_VERSION").to_owned(), swarm: swarm.map(str::to_owned), instance: clock.hex(32) }
}

/// Begins to send, where anything is sent at all; and what must get the events for it.
pub(crate) fn begin(
    settings: Option<Settings>,
    swarm: &Resource<Swarm>,
    redactor: &Redactor,
    clock: &dyn Clock,
) -> (Option<Telemetry>, Vec<UnboundedSender<SwarmEvent>>) {
    let Some(settings) = settings else { return (None, Vec::new()) };
    redactor.learn(settings.secrets());
    let (sender, receiver) = unbounded_channel();
    let telemetry = Telemetry::start(settings, &identity(Some(&swarm.id.name), clock), receiver);
    // Where nothing is sent, nobody gets the events.
    let watchers = telemetry.iter().map(|_| sender.clone()).collect();
    (telemetry, watchers)
}
