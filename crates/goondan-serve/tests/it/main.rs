//! Tests of the server over real connections, with a real swarm.

#![allow(clippy::disallowed_methods, reason = "a test reads its own files")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod a2a;
mod a2a_client;
mod access;
mod ag_ui;
mod approvals;
mod body_limits;
mod inputs;
mod mcp_clients;
mod metrics;
mod model_calls;
mod openai;
mod project;
mod protocol_parity;
mod request_encoding;
mod stored_instances;
mod streams;
mod studio;
mod support;
mod trace_context;
