//! The messages of OTLP 1.x that are sent, in both encodings: protobuf, and the JSON that the standard makes of it.

pub(crate) mod json;
mod value;

use prost::Message;
use serde::Serialize;

pub use value::{AnyValue, ArrayValue, KeyValue, Value, attribute};

/// What is posted to `/v1/traces`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TracesRequest {
    /// One for each resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

impl TracesRequest {
    /// All spans in it.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.resource_spans
            .iter()
            .flat_map(|spans| &spans.scope_spans)
            .flat_map(|spans| &spans.spans)
    }
}

/// The spans of a resource.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSpans {
    /// Where they come from.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// The spans, by what made them.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// A program that runs somewhere.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct Resource {
    /// What is known of it.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The spans that a part of a program made.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct ScopeSpans {
    /// The part.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// Its spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// A part of a program.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct Scope {
    /// What it is called.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Which one it is.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A unit of work.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "json::hex")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "json::hex")]
    pub span_id: Vec<u8>,
    /// What systems along the way have noted.
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trace_state: String,
    /// 8 bytes; none for a root.
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "json::hex", skip_serializing_if = "Vec::is_empty")]
    pub parent_span_id: Vec<u8>,
    /// What people see first.
    #[prost(string, tag = "5")]
    pub name: String,
    /// A [`SpanKind`].
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub kind: i32,
    /// When it began.
    #[prost(fixed64, tag = "7")]
    #[serde(serialize_with = "json::text")]
    pub start_time_unix_nano: u64,
    /// When it was over.
    #[prost(fixed64, tag = "8")]
    #[serde(serialize_with = "json::text")]
    pub end_time_unix_nano: u64,
    /// What is known of it.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// What happened meanwhile.
    #[prost(message, repeated, tag = "11")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<SpanEvent>,
    /// Whether it went wrong.
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The flags of the trace: bit 0 says that it is sampled.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// What a span stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SpanKind {
    /// Nobody said.
    Unspecified = 0,
    /// Work within the program.
    Internal = 1,
    /// A question to another program.
    Client = 3,
}

/// A moment of a span.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpanEvent {
    /// When.
    #[prost(fixed64, tag = "1")]
    #[serde(serialize_with = "json::text")]
    pub time_unix_nano: u64,
    /// What happened.
    #[prost(string, tag = "2")]
    pub name: String,
    /// What is known of it.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// How a span ended.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct Status {
    /// Why it failed.
    #[prost(string, tag = "2")]
    pub message: String,
    /// 2 for a failure.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

impl Status {
    /// The code of a failure.
    pub const ERROR: i32 = 2;
}

/// What a receiver answers that has taken a request.
#[derive(Clone, PartialEq, Message)]
pub struct Answer {
    /// What of it the receiver has left out.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// What a receiver has left out of a request.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// How many spans, or points of metrics.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    /// Why.
    #[prost(string, tag = "2")]
    pub error_message: String,
}
