//! The JSON that is passed through the tables. Both sides ignore unknown fields, so that either may
//! be newer.

mod agents;
mod call;
mod connector;
mod extension;
mod manifest;

pub use agents::{
    AgentCatalog, AgentList, AgentRequest, ListRequest, RequestResult, SendRequest, SendResult,
    SpawnRequest, SpawnResult, SpawnedAgentInfo, operation,
};
pub use call::{
    Attachment, CallContext, CallRequest, LogLevel, LogLine, Progress, ToolError, ToolOutput, code,
};
pub use connector::{Connect, ConnectorEvent, ConnectorReply};
pub use extension::{
    Changes, Ended, ExtensionMessage, Kept, LayerEntry, LayerKind, LayerRun, News, NextRequest,
    OfferedCall, OfferedTool, Part, Register, Registered, Splice, Wrapped,
};
pub use manifest::{Export, Manifest, Permission, Sdk, feature};

/// A JSON object.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
