//! Messages between the engine and the code of an extension.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::message::{Message, MessageEvent};
use crate::ports::extension::{ExtensionLayer, LayerChanges};

/// First message of a run.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum RunStart<'a> {
    /// Registers for an instance.
    Register(RegisterRequest<'a>),
    /// Runs a layer.
    Layer(LayerRunRequest<'a>),
}

/// Data for a registration.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisterRequest<'a> {
    /// Number of the registration.
    pub session: u64,
    /// Name of the Extension.
    pub extension: &'a str,
    /// Name of the agent.
    pub agent_name: &'a str,
    /// Key of the conversation.
    pub instance_key: &'a str,
    /// Working directory of the agent's tools.
    pub workdir: String,
    /// Project directory.
    pub project_dir: String,
    /// Configuration of the extension.
    pub config: &'a JsonObject,
    /// Saved state of the extension.
    pub state: Option<Value>,
}

/// Data for a run of a layer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerRunRequest<'a> {
    /// Number of the registration.
    pub session: u64,
    /// Index of the layer.
    pub layer: usize,
    /// Data of the layer, in addition to the conversation.
    pub context: &'a JsonObject,
    /// Changes since the last run.
    pub news: ConversationChanges,
}

/// Changes since the last message to the extension.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationChanges {
    /// Messages before the turn, if the turn is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Vec<Arc<Message>>>,
    /// Difference to `base`, for code that keeps the conversation between turns. Replaces `base`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splice: Option<ConversationDiff>,
    /// Changes to the conversation in this turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Arc<MessageEvent>>,
    /// Saved state, if the engine reset the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SavedState>,
}

/// Difference between the conversation that an extension has and the messages before the turn.
#[derive(Debug, PartialEq, Serialize)]
pub struct ConversationDiff {
    /// Number of messages that the extension must have. With another number, the extension's copy
    /// is out of sync.
    pub of: usize,
    /// Parts of the conversation, in order.
    pub parts: Vec<DiffPart>,
}

/// A part of a conversation.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DiffPart {
    /// Range of messages that the extension has: first index, and end index (exclusive).
    Known(usize, usize),
    /// A new message.
    New(Arc<Message>),
}

/// State of an extension, which can be null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    /// The state.
    pub value: Value,
}

/// Data of the `next` operation of a layer.
#[derive(Debug, Default, Deserialize)]
pub struct NextCallRequest {
    /// Changes of the layer so far.
    #[serde(default)]
    pub changes: LayerChanges,
    /// New state of the extension, if it changed.
    #[serde(default)]
    pub state: Option<SavedState>,
    /// New list of subscribed event types, if it changed.
    #[serde(default)]
    pub listens: Option<Vec<String>>,
}

/// Answer of an extension to its registration.
#[derive(Debug, Default, Deserialize)]
pub struct RegisterResponse {
    /// Layers, in their order.
    #[serde(default)]
    pub layers: Vec<ExtensionLayer>,
    /// Tools.
    #[serde(default)]
    pub tools: Vec<ToolDeclaration>,
    /// The extension keeps the conversation between turns and receives only the differences.
    #[serde(default)]
    pub keeps: bool,
}

/// A tool of an extension.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolDeclaration {
    /// Name in the form `resource__export`.
    pub name: String,
    /// Description for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}
