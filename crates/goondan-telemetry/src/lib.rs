//! What happens in a swarm, as OpenTelemetry spans.
//!
//! [`Settings`] are the standard `OTEL_*` variables. [`Assembler`] makes a span of the two runtime events that begin and end a
//! turn, a step or a tool call, and of the one of a model call. [`Telemetry`] sends the spans to a receiver while the swarm runs,
//! and never makes it wait: what the receiver does not take in time is dropped and counted.
//!
//! It speaks OTLP over HTTP by a handful of messages of its own ([`otlp`]) and the HTTP client that is in the tree anyway. The
//! SDK would bring its own pipeline, a second set of types for what the runtime events say already, and gRPC.
//!
//! This crate deliberately does not know: swarms, terminals, and where events are kept.

mod attributes;
mod exporter;
mod names;
pub mod otlp;
mod past;
mod post;
mod queue;
mod resource;
mod said;
mod settings;
mod spans;

pub use exporter::Telemetry;
pub use past::requests;
pub use post::{PostError, Poster};
pub use resource::Identity;
pub use settings::{Endpoint, Protocol, Sampler, Settings};
pub use spans::Assembler;
