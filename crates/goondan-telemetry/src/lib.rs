//! Exports runtime events of a swarm as OpenTelemetry spans.
//!
//! [`TelemetrySettings`] are the standard `OTEL_*` variables. [`SpanAssembler`] builds a span from the two
//! runtime events that begin and end a turn, a step or a tool call. A model call has a single
//! event. [`TelemetryExporter`] exports the spans to an OTLP endpoint while the swarm runs, without
//! blocking it. Spans that the endpoint does not accept in time are dropped and counted.
//!
//! The protocol is OTLP over HTTP, with own message types ([`otlp`]) and the HTTP client of the
//! workspace. The SDK would add its own pipeline, a second set of types for the runtime events, and
//! gRPC.
//!
//! Deliberately excluded: swarms, terminals, and the storage of events.

mod attributes;
mod backfill;
mod exporter;
mod message_attributes;
mod names;
pub mod otlp;
mod otlp_client;
mod resource;
mod settings;
mod span_queue;
mod spans;

pub use backfill::requests;
pub use exporter::TelemetryExporter;
pub use otlp_client::{ExportError, OtlpClient};
pub use resource::ProcessIdentity;
pub use settings::{OtlpEndpoint, OtlpProtocol, TelemetrySettings, TraceSampler};
pub use spans::SpanAssembler;
