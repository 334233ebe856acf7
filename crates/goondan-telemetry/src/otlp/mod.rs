//! Messages of OTLP 1.x, in both encodings: protobuf, and its standard JSON form.

pub(crate) mod json;
mod value;

use prost::Message;
use serde::Serialize;

pub use value::{AnyValue, ArrayValue, AttributeValue, KeyValue, attribute};

/// Body of a request to `/v1/traces`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TracesRequest {
    /// Spans, grouped by resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

impl TracesRequest {
    /// Returns all spans of the request.
    pub fn spans(&self) -> impl Iterator<Item = &OtlpSpan> {
        self.resource_spans
            .iter()
            .flat_map(|spans| &spans.scope_spans)
            .flat_map(|spans| &spans.spans)
    }
}

/// Spans of one resource.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSpans {
    /// Source of the spans.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<OtlpResource>,
    /// Spans, grouped by instrumentation scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// Source of telemetry, such as a process.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct OtlpResource {
    /// Attributes of the resource.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Spans of one instrumentation scope.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct ScopeSpans {
    /// The instrumentation scope.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    /// The spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<OtlpSpan>,
}

/// An instrumentation scope: the part of a program that makes spans.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct InstrumentationScope {
    /// Name of the scope.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Version of the scope.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A unit of work.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtlpSpan {
    /// Trace id, 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "json::hex")]
    pub trace_id: Vec<u8>,
    /// Span id, 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "json::hex")]
    pub span_id: Vec<u8>,
    /// Value of the `tracestate` header.
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trace_state: String,
    /// Id of the parent span, 8 bytes; empty for a root span.
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "json::hex", skip_serializing_if = "Vec::is_empty")]
    pub parent_span_id: Vec<u8>,
    /// Display name.
    #[prost(string, tag = "5")]
    pub name: String,
    /// A [`SpanKind`].
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub kind: i32,
    /// Start time, in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "7")]
    #[serde(serialize_with = "json::text")]
    pub start_time_unix_nano: u64,
    /// End time, in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "8")]
    #[serde(serialize_with = "json::text")]
    pub end_time_unix_nano: u64,
    /// Attributes of the span.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Events during the span.
    #[prost(message, repeated, tag = "11")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<SpanEvent>,
    /// Outcome, if the unit failed.
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SpanStatus>,
    /// Trace flags: bit 0 is set if the trace is sampled.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// Kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SpanKind {
    /// Not specified.
    Unspecified = 0,
    /// Work inside the program.
    Internal = 1,
    /// A request to another program.
    Client = 3,
}

/// An event at one time of a span.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpanEvent {
    /// Time, in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "1")]
    #[serde(serialize_with = "json::text")]
    pub time_unix_nano: u64,
    /// Name of the event.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Attributes of the event.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// Outcome of a span.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct SpanStatus {
    /// Error message.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Status code; 2 is an error.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

impl SpanStatus {
    /// Code of an error.
    pub const ERROR_CODE: i32 = 2;
}

/// Response to an accepted request.
#[derive(Clone, PartialEq, Message)]
pub struct TracesResponse {
    /// Part of the request that the endpoint rejected.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// Rejected part of a request.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// Number of rejected spans or metric points.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    /// Reason for the rejection.
    #[prost(string, tag = "2")]
    pub error_message: String,
}
