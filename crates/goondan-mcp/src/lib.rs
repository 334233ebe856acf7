//! A client of MCP servers, whose tools are exports of a Tool with `spec.mcp`. It is also a client
//! of remote agents, one per Tool with `spec.a2a`.
//!
//! A start waits only for new servers: the catalog of a known server is cached under the state root
//! and announced at once ([`McpTools`]). The first call that needs a server starts it. Callers with
//! equal access share one process. A server that dies is restarted with increasing delays. In all
//! cases a call ends: with the server's answer, or with one of the `E_MCP_…` codes of
//! `goondan_spec::Code`.
//!
//! All text of a server is untrusted. Descriptions, schemas and results are limited and cleaned
//! (`catalog`, `result`). Hints can make a policy stricter but never laxer.
//!
//! The crate does not start or sandbox programs itself: that is the task of the port [`Dialer`].

#![allow(missing_docs, reason = "internal crate")]

mod a2a;
mod asker;
mod attentive;
mod cache;
mod catalog;
mod codes;
mod definition;
mod dial;
mod handler;
mod http;
mod import;
mod lines;
mod link;
mod listing;
mod names;
mod oauth;
mod place;
mod result;
mod server;
mod session;
mod source;

pub use a2a::A2aTools;
pub use catalog::{Catalog, Hints, Listed};
pub use definition::Definition;
pub use dial::{Dialer, Program, Running, StandIns, Stream};
pub use import::{Found, Imported, import};
pub use oauth::Visitor;
pub use session::Session;
pub use source::{Look, McpTools};
