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
//! The crate does not start or sandbox programs itself: that is the task of the port [`ServerSpawner`].

#![allow(missing_docs, reason = "internal crate")]

mod a2a;
mod authorization_server;
mod cache;
mod call_scope;
mod catalog;
mod codes;
mod connection;
mod definition;
mod eager_stream_transport;
mod elicitation;
mod handler;
mod http;
mod import;
mod list_changes;
mod listing;
mod oauth;
mod observed_transport;
mod pending_request;
mod prepared_servers;
mod prompts;
mod resources;
mod result;
mod server;
mod session;
mod source;
mod spawn_port;
mod stdio_transport;
mod tool_names;

pub use a2a::A2aTools;
pub use catalog::{CatalogTool, McpCatalog, ToolHints};
pub use definition::McpServerDefinition;
pub use import::{ImportedServer, ImportedServers, import};
pub use oauth::ConsentBrowser;
pub use prompts::{CatalogPrompt, PromptArgument, PromptInput, ServerPrompt};
pub use session::McpSession;
pub use source::{CatalogLookup, McpTools};
pub use spawn_port::{
    McpServerProgram, ProgramStreams, RunningProgram, ServerMocks, ServerSpawner,
};
