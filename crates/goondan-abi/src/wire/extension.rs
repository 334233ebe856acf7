//! Messages of extensions. Extensions in other languages use the same messages.
//!
//! Each message except `forget` and `event` ends with `complete`. Its `output` is a
//! [`MessageResult`]; that of `connect` is empty.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallRequest, ConnectorStart, JsonObject, ToolError};

/// Message from the host to an extension: the argument of the library function `extend`.
///
/// `M` is the type of conversation messages, and `E` the type of changes to the conversation. A
/// host that shares messages between conversations uses its own types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum ExtensionMessage<M = Value, E = Value> {
    /// Registers for an instance; results in a [`RegistrationResult`].
    Register(RegistrationRequest),
    /// Runs a layer; results in its return value.
    Layer(LayerRun<M, E>),
    /// Runs a tool of the extension; results in its output.
    Call(Box<OfferedCall>),
    /// Removes a registration. It is not completed.
    Forget {
        /// The id of the registration.
        session: u64,
    },
    /// Reports an event that the registration listens to. It is not completed.
    Event {
        /// The id of the registration.
        session: u64,
        /// The event, with a `type`.
        event: Value,
    },
    /// Runs the connector until the connection ends.
    Connect(ConnectorStart),
}

/// The data for a registration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationRequest {
    /// The id of the registration, which later messages contain.
    pub session: u64,
    /// The name of the Extension resource.
    pub extension: String,
    /// The name of the agent.
    pub agent_name: String,
    /// The key of the conversation.
    pub instance_key: String,
    /// The working directory of the agent's tools.
    #[serde(default)]
    pub workdir: String,
    /// The directory of the project.
    #[serde(default)]
    pub project_dir: String,
    /// The extension's config.
    #[serde(default)]
    pub config: JsonObject,
    /// The extension's state.
    #[serde(default)]
    pub state: Value,
}

/// A run of a layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerRun<M = Value, E = Value> {
    /// The id of the registration.
    pub session: u64,
    /// The index of the layer.
    pub layer: usize,
    /// The layer's context without the conversation.
    pub context: JsonObject,
    /// The changes since the previous message.
    #[serde(default = "ConversationUpdate::default")]
    pub news: ConversationUpdate<M, E>,
}

/// A call of a tool that an extension offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferedCall {
    /// The id of the registration.
    pub session: u64,
    /// The call. Its `export` is the complete name of the tool.
    #[serde(flatten)]
    pub request: CallRequest,
}

/// Changes since the previous message to an extension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationUpdate<M = Value, E = Value> {
    /// The messages before the turn, if the turn is new to the extension. It replaces the known
    /// messages.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub base: Option<Vec<M>>,
    /// The messages before the turn as an edit, for an extension that keeps a copy of the
    /// conversation.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub splice: Option<ConversationSplice<M>>,
    /// New changes to the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty", default = "Vec::new")]
    pub events: Vec<E>,
    /// The extension's state, if it was reset.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<KeptState>,
}

impl<M, E> Default for ConversationUpdate<M, E> {
    fn default() -> Self {
        ConversationUpdate {
            base: None,
            splice: None,
            events: Vec::new(),
            state: None,
        }
    }
}

/// Edit that changes the extension's copy of the conversation to the conversation at the beginning
/// of the turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConversationSplice<M = Value> {
    /// The number of messages that the extension must have. With another number, the conversations
    /// differ.
    pub of: usize,
    /// The parts of the conversation, in order.
    pub parts: Vec<SplicePart<M>>,
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SplicePart<M = Value> {
    /// A range of known messages, with an exclusive end.
    Known(usize, usize),
    /// A new message.
    New(M),
}

/// The state of an extension.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptState {
    /// Any JSON.
    pub value: Value,
}

/// The registered layers and tools of an extension.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegistrationResult {
    /// The layers, identified by their index in this list.
    pub layers: Vec<LayerEntry>,
    /// The tools.
    pub tools: Vec<OfferedTool>,
    /// True if the extension keeps the conversation between turns, and receives only its changes
    /// ([`ConversationUpdate::splice`]).
    pub keeps: bool,
}

/// A layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerEntry {
    /// The wrapped operation.
    pub kind: LayerKind,
    /// The priority. A lower value places the layer further outside.
    #[serde(default)]
    pub priority: f64,
}

/// The operation that a layer wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LayerKind {
    /// A turn.
    Turn,
    /// A step of a turn.
    Step,
    /// A tool call of a step.
    ToolCall,
}

/// A tool that an extension offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// The name in the form `extension__tool`.
    pub name: String,
    /// The description for the model.
    #[serde(default)]
    pub description: String,
    /// A JSON Schema of type object.
    pub parameters: Value,
}

/// The changes of a layer since its previous message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LayerChanges {
    /// The changed fields among `metadata`, `args` and `toolCatalog`.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub fields: JsonObject,
    /// Changes to the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Value>,
}

/// The argument of `layer.next`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NextRequest {
    /// The changes of the layer.
    pub changes: LayerChanges,
    /// The new state of the extension, if it was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<KeptState>,
    /// The names of the subscribed events, if they changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listens: Option<Vec<String>>,
}

/// The result of `layer.next`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NextResult {
    /// The result of the wrapped operation.
    pub result: Value,
    /// Data shared by the layers.
    pub metadata: JsonObject,
    /// The changes since the call of `layer.next`.
    pub news: ConversationUpdate,
}

/// The end of a message: the `output` of its completion.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageResult {
    /// The result, unless the message failed.
    pub result: Value,
    /// The reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// The changes of a layer since `layer.next`.
    pub changes: LayerChanges,
    /// The new state of the extension, if it was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<KeptState>,
    /// The names of the subscribed events, if they changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listens: Option<Vec<String>>,
}
