//! The server as its clients see it: a real swarm, real connections.

#![allow(clippy::disallowed_methods, reason = "a test reads its own files")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod a2a;
mod a2a_client;
mod ag_ui;
mod bodies;
mod body_limits;
mod callers;
mod inputs;
mod mcp_clients;
mod metrics;
mod model_calls;
mod openai;
mod project;
mod questions;
mod same_meaning;
mod stored_instances;
mod streams;
mod studio;
mod support;
mod walls;
