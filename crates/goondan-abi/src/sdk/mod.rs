//! The interface for authors of libraries. A tool is a struct of arguments, a function, and one
//! [`export_tools!`]. An extension is a function that registers layers, and one
//! [`export_extension!`]. A connector is a function that runs as long as its connection, and one
//! [`export_connector!`].
//!
//! The function takes a [`ToolContext`] and its arguments, and is async or plain. Each call has its
//! own thread, on which an async function is polled; so a plain function may block. Futures that
//! need a runtime (timers, sockets of Tokio) need one that the library starts itself, because the
//! host's runtime is not shared.
//!
//! A panic only ends its call, with `E_TOOL_PANIC`. This requires unwinding: with `panic =
//! "abort"`, [`export_tools!`] does not compile.

mod agents;
mod cancellation;
mod connector;
mod context;
mod export;
mod extension;
mod handler;
mod host;
mod logging;
mod operations;
mod output;
mod panics;
mod running_library;
mod semaphore;
mod shims;
mod threads;

pub use crate::wire::{
    AgentCatalog, AgentRequest, AgentRequestResult, AgentSendResult, AgentSpawnResult, Attachment,
    ConnectorEvent, ConnectorReply, JsonObject, LayerKind, LogLevel, Permission, SendRequest,
    SpawnRequest, SpawnedAgentInfo, ToolError, code,
};
pub use crate::{export_connector, export_extension, export_tools};
pub use agents::{AgentRuntime, BlockingAgentRuntime};
pub use connector::{BlockingConnector, ConnectorContext, ConnectorFunction};
pub use context::{CallLogger, ToolContext};
pub use export::{Library, Tool, tool};
pub use extension::{Conversation, Events, ExtensionApi, LayerContext, RegisterFn, StateHandle};
pub use handler::{Handler, IntoOutput};
pub use output::Output;
pub use shims::{Exported, plugin};
