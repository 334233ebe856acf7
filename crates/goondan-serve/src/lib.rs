//! HTTP interface of a running swarm: inputs, streamed answers, approval requests, conversations,
//! reloads.
//!
//! One server handles two kinds of clients. `gdn serve` opens it for all clients that have its
//! token. Every other command that runs a swarm opens it for commands of the same user. The
//! [`local_endpoint`] file of the workspace contains its address. Clients see the swarm's own durable order
//! of events, so a restart loses nothing.
//!
//! This crate has no dependency on YAML, store files, terminals or the way a swarm is started.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test reads its own files")
)]

mod a2a;
mod accept_header;
pub mod acp;
mod ag_ui;
mod api;
mod approval_choices;
mod auth;
mod case_runner;
pub mod client;
mod entity_tag;
mod error_table;
mod event_stream;
mod json_lines;
mod listener;
pub mod local_endpoint;
pub mod mcp;
mod metrics;
mod openai;
mod problem;
mod progress;
mod project_editor;
mod received_body;
mod recorder;
mod reloads;
mod requested_agent;
mod server;
mod server_options;
mod service;
pub mod studio;
mod trace_context;
mod turn_encoder;
mod turn_failure;
pub mod wire;
mod write_timeout;

pub use auth::{AccessPolicy, ServerToken};
pub use case_runner::CaseRunner;
pub use listener::{ByteStream, ServerListener};
pub use project_editor::ProjectEditor;
pub use recorder::{CaseRecorder, NotRecorded};
pub use server::Server;
pub use server_options::{ServerLimits, ServerOptions};
pub use service::{Service, ServiceGuard};
