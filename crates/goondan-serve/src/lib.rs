//! What a running swarm offers to programs: inputs, answers as they come, questions, conversations, reloads, over HTTP.
//!
//! One server serves two kinds of clients. `gdn serve` opens it for everybody who has its token. Every other command that
//! runs a swarm opens it for the commands of the same user: the [`door`] in the workspace says where it listens. What clients
//! see is the swarm's own durable order of events; nothing is kept here that a restart would miss.
//!
//! It deliberately does not know YAML, files of the store, terminals and how a swarm is started.

mod a2a;
pub mod acp;
mod ag_ui;
mod api;
mod asking;
mod caller;
pub mod client;
pub mod door;
mod failure;
mod follow;
mod guard;
mod hub;
pub mod mcp;
mod metrics;
mod openai;
mod problem;
mod progress;
mod recorder;
mod reloads;
mod server;
mod service;
mod stream;
pub mod studio;
mod watch;
pub mod wire;

pub use guard::{Access, Token};
pub use recorder::{NotRecorded, Recorder};
pub use server::{Limits, Offer, Server};
pub use service::{Service, Serving};
