//! What travels between the engine's side and the code of an extension.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::message::{Message, MessageEvent};
use crate::ports::extension::{Changes, Layer};

/// What code is told to begin.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Begin<'a> {
    /// Register for an instance.
    Register(Register<'a>),
    /// Run a layer.
    Layer(Run<'a>),
}

/// What an extension registers with.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Register<'a> {
    /// The number of the registration.
    pub session: u64,
    /// The Extension's name.
    pub extension: &'a str,
    /// The agent.
    pub agent_name: &'a str,
    /// Its conversation.
    pub instance_key: &'a str,
    /// Where the agent's tools work.
    pub workdir: String,
    /// The project's folder.
    pub project_dir: String,
    /// What the extension is configured with.
    pub config: &'a JsonObject,
    /// What it keeps.
    pub state: Option<Value>,
}

/// A run of a layer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run<'a> {
    /// The registration.
    pub session: u64,
    /// Which of its layers.
    pub layer: usize,
    /// What the layer sees beside the conversation.
    pub context: &'a JsonObject,
    /// What has happened.
    pub news: News,
}

/// What has happened since an extension was told the last time.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct News {
    /// What was said before the turn began, where the turn is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Vec<Arc<Message>>>,
    /// The same, for code that keeps what it was told: how that becomes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splice: Option<Splice>,
    /// Changes to the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Arc<MessageEvent>>,
    /// What it keeps, where that was put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Kept>,
}

/// How the conversation that an extension knows becomes the one before the turn.
#[derive(Debug, PartialEq, Serialize)]
pub struct Splice {
    /// So many messages it has to know; with another number it knows something else.
    pub of: usize,
    /// What the conversation consists of, in order.
    pub parts: Vec<Part>,
}

/// A part of a conversation.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Part {
    /// What it knows, from one message up to another one that is not meant.
    Known(usize, usize),
    /// A message.
    New(Arc<Message>),
}

/// What an extension keeps, which may be nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// It.
    pub value: Value,
}

/// What a layer says with `next`.
#[derive(Debug, Default, Deserialize)]
pub struct NextAsk {
    /// What it has changed.
    #[serde(default)]
    pub changes: Changes,
    /// What the extension keeps from now on.
    #[serde(default)]
    pub state: Option<Kept>,
    /// The events that it listens to from now on.
    #[serde(default)]
    pub listens: Option<Vec<String>>,
}

/// What an extension says once it has registered.
#[derive(Debug, Default, Deserialize)]
pub struct Registered {
    /// Its layers, in their order.
    #[serde(default)]
    pub layers: Vec<Layer>,
    /// Its tools.
    #[serde(default)]
    pub tools: Vec<Offered>,
    /// It keeps the conversation from turn to turn, and is told what has changed of it.
    #[serde(default)]
    pub keeps: bool,
}

/// A tool that it offers.
#[derive(Debug, Clone, Deserialize)]
pub struct Offered {
    /// In the form `resource__export`.
    pub name: String,
    /// What the model reads.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}
