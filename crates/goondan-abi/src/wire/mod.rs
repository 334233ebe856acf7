//! The JSON that is passed through the tables. Both sides ignore unknown fields, so that either may
//! be newer.

mod agents;
mod call;
mod connector;
mod extension;
mod manifest;

pub use agents::{
    AgentCatalog, AgentList, AgentRequest, AgentRequestResult, AgentSendResult, AgentSpawnResult,
    ListRequest, SendRequest, SpawnRequest, SpawnedAgentInfo, operation,
};
pub use call::{
    Attachment, CallContext, CallRequest, LogLevel, LogLine, Progress, ToolError, ToolOutput, code,
};
pub use connector::{ConnectorEvent, ConnectorReply, ConnectorStart};
pub use extension::{
    ConversationSplice, ConversationUpdate, ExtensionMessage, KeptState, LayerChanges, LayerEntry,
    LayerKind, LayerRun, MessageResult, NextRequest, NextResult, OfferedCall, OfferedTool,
    RegistrationRequest, RegistrationResult, SplicePart,
};
pub use manifest::{Export, Manifest, Permission, SdkInfo, feature};

/// A JSON object.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
