//! Telemetry of a swarm, exported to an OpenTelemetry collector.

use std::sync::Arc;

use goondan_core::event::SwarmEvent;
use goondan_core::ports::clock::Clock;
use goondan_core::ports::tracing::{ForwardCallerTrace, TracePolicy};
use goondan_engine::policy::redact::SecretRedactor;
use goondan_spec::Resource;
use goondan_spec::kinds::Swarm;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub use goondan_core::caller::{CallerTrace, TraceParent};
pub use goondan_telemetry::{
    ExportError, OtlpClient, OtlpEndpoint, OtlpProtocol, ProcessIdentity, SpanAssembler,
    TelemetryExporter, TelemetrySettings, TraceSampler, otlp, requests,
};

/// Returns the identity for exported telemetry.
pub fn identity(swarm: Option<&str>, clock: &dyn Clock) -> ProcessIdentity {
    ProcessIdentity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        swarm: swarm.map(str::to_owned),
        instance: clock.random_hex(32),
    }
}

/// Started telemetry of a swarm.
pub(crate) struct StartedTelemetry {
    /// Exporter; `None` if telemetry is off.
    pub(crate) telemetry: Option<TelemetryExporter>,
    /// Subscribers that receive all events.
    pub(crate) watchers: Vec<UnboundedSender<SwarmEvent>>,
    /// Trace context for calls to servers.
    pub(crate) tracing: Arc<dyn TracePolicy>,
}

/// Starts telemetry, if it is configured.
pub(crate) fn begin(
    settings: Option<TelemetrySettings>,
    swarm: &Resource<Swarm>,
    redactor: &SecretRedactor,
    clock: &dyn Clock,
) -> StartedTelemetry {
    let nothing = StartedTelemetry {
        telemetry: None,
        watchers: Vec::new(),
        tracing: Arc::new(ForwardCallerTrace),
    };
    let Some(settings) = settings else {
        return nothing;
    };
    redactor.add_secrets(settings.secrets());
    let (sender, receiver) = unbounded_channel();
    match TelemetryExporter::start(
        settings.clone(),
        &identity(Some(&swarm.id.name), clock),
        receiver,
    ) {
        Some(telemetry) => StartedTelemetry {
            telemetry: Some(telemetry),
            watchers: vec![sender],
            tracing: Arc::new(settings),
        },
        None => nothing,
    }
}
