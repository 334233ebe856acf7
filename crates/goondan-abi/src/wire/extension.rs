//! An extension: what it is told, and what it says. They are the messages of extensions in other languages.
//!
//! Each message but `forget` and `event` ends with `complete`, whose `output` is an [`Ended`]; that of `connect` says nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallRequest, Connect, JsonObject, ToolError};

/// What `extend` takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum ExtensionMessage {
    /// Register for an instance; comes to a [`Registered`].
    Register(Register),
    /// Run a layer; comes to its result.
    Layer(LayerRun),
    /// Run a tool that the extension offers; comes to its output.
    Call(Box<OfferedCall>),
    /// A registration is no longer wanted. Nothing is completed.
    Forget {
        /// Which one.
        session: u64,
    },
    /// Something happened in the instance to which the registration listens. Nothing is completed.
    Event {
        /// Which one.
        session: u64,
        /// The event, with a `type`.
        event: Value,
    },
    /// Run the connector until the connection ends.
    Connect(Connect),
}

/// What an extension registers with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Register {
    /// The number of the registration.
    pub session: u64,
    /// The Extension resource's name.
    pub extension: String,
    /// The agent.
    pub agent_name: String,
    /// Its conversation.
    pub instance_key: String,
    /// Where the agent's tools work.
    #[serde(default)]
    pub workdir: String,
    /// The project's folder.
    #[serde(default)]
    pub project_dir: String,
    /// The extension's config.
    #[serde(default)]
    pub config: JsonObject,
    /// What it keeps.
    #[serde(default)]
    pub state: Value,
}

/// A run of a layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerRun {
    /// The registration.
    pub session: u64,
    /// Which of its layers.
    pub layer: usize,
    /// What the layer sees beside the conversation.
    pub context: JsonObject,
    /// What has happened.
    #[serde(default)]
    pub news: News,
}

/// A call of a tool that an extension offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfferedCall {
    /// The registration.
    pub session: u64,
    /// The call. Its `export` is the tool's whole name.
    #[serde(flatten)]
    pub request: CallRequest,
}

/// What has happened since an extension was told the last time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct News {
    /// The messages before the turn, where the turn is new to the extension: what it knew is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Vec<Value>>,
    /// The same, for an extension that keeps what it was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splice: Option<Splice>,
    /// Changes to the conversation since then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Value>,
    /// What the extension keeps, where that was put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Kept>,
}

/// How the conversation that an extension knows becomes the one before the turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Splice {
    /// So many messages it has to know; with another number it knows something else.
    pub of: usize,
    /// What the conversation consists of, in order.
    pub parts: Vec<Part>,
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Part {
    /// What it knows, from one message up to another one that is not meant.
    Known(usize, usize),
    /// A message.
    New(Value),
}

/// What an extension keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Any JSON.
    pub value: Value,
}

/// What an extension registers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Registered {
    /// Its layers, which are known by their places in this list.
    pub layers: Vec<LayerEntry>,
    /// Its tools.
    pub tools: Vec<OfferedTool>,
    /// It keeps the conversation from turn to turn, and is told what has changed of it ([`News::splice`]).
    pub keeps: bool,
}

/// A layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerEntry {
    /// What it wraps.
    pub kind: LayerKind,
    /// The lower it is, the further out the layer lies.
    #[serde(default)]
    pub priority: f64,
}

/// What a layer wraps.
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
    /// In the form `extension__tool`.
    pub name: String,
    /// Shown to the model.
    #[serde(default)]
    pub description: String,
    /// A JSON Schema of type object.
    pub parameters: Value,
}

/// What a layer has changed since it said so the last time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// `metadata`, `args` and `toolCatalog`, those of them that it has changed.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub fields: JsonObject,
    /// Changes to the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Value>,
}

/// What `layer.next` takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NextRequest {
    /// What the layer has changed.
    pub changes: Changes,
    /// What the extension keeps from now on, where it has set that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Kept>,
    /// The events that it listens to from now on, where that has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listens: Option<Vec<String>>,
}

/// What `layer.next` brings back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wrapped {
    /// The result of what the layer wraps.
    pub result: Value,
    /// What the layers have told each other.
    pub metadata: JsonObject,
    /// What has happened meanwhile.
    pub news: News,
}

/// How a message ended: the `output` of its completion.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    /// What came of it, where nothing failed.
    pub result: Value,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// What a layer has changed since `layer.next`.
    pub changes: Changes,
    /// What the extension keeps from now on, where it has set that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Kept>,
    /// The events that it listens to from now on, where that has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listens: Option<Vec<String>>,
}
