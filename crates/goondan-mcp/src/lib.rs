//! A client of MCP servers, whose tools are exports of a Tool with `spec.mcp`; and of agents of other programs, each of which a Tool
//! with `spec.a2a` asks.
//!
//! A start waits for no server that was met before: what it said last is kept under the state root and announced at once
//! ([`McpTools`]). A server is started by the first call that needs it, is one process for all who may share it, and is
//! started again, a little later each time, where it dies. Whatever it does, a call ends: with what the server says, or with
//! one of the `E_MCP_…` codes of `goondan_spec::Code`.
//!
//! What a server says of itself is the text of a stranger. Its descriptions, schemas and results are bounded and cleaned
//! (`catalog`, `result`), and its hints can make a policy stricter and never laxer.
//!
//! What this crate does not know: how programs are contained and ended. That is behind the port [`Dialer`].

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
