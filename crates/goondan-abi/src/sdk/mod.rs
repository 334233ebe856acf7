//! What the author of a library uses: a struct of arguments, a function, one [`export_tools!`]; for an extension a function
//! that registers layers, and one [`export_extension!`]; for a connector a function that runs as long as its connection
//! does, and one [`export_connector!`].
//!
//! The function takes a [`ToolContext`] and its arguments, and may be async or plain. Each call has a thread to itself, on
//! which an async function is polled; so a plain one may block. Futures that need a runtime (timers, sockets of `tokio`)
//! need one that the library starts itself: the host's is not shared.
//!
//! A panic ends its call with `E_TOOL_PANIC` and nothing else. Panics have to unwind for that: with `panic = "abort"`,
//! [`export_tools!`] does not compile.

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
mod running;
mod shims;
mod threads;
mod turnstile;

pub use crate::wire::{
    AgentCatalog, AgentRequest, Attachment, ConnectorEvent, ConnectorReply, JsonObject, LayerKind,
    LogLevel, Permission, RequestResult, SendRequest, SendResult, SpawnRequest, SpawnResult,
    SpawnedAgentInfo, ToolError, code,
};
pub use crate::{export_connector, export_extension, export_tools};
pub use agents::{AgentRuntime, BlockingAgentRuntime};
pub use connector::{BlockingConnector, ConnectorContext, Connects};
pub use context::{Logger, ToolContext};
pub use export::{Library, Tool, tool};
pub use extension::{Conversation, Events, ExtensionApi, LayerContext, RegisterFn, State};
pub use handler::{Handler, IntoOutput};
pub use output::Output;
pub use shims::{Exported, plugin};
