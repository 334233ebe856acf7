//! Options of steps about conversations.

use goondan::event::InputDelivery;
use schemars::JsonSchema;
use serde::Deserialize;

/// Handling of an input while a turn of its conversation runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Delivery")]
pub enum SendDelivery {
    /// Starts its own turn after the running one.
    #[default]
    Queue,
    /// Joins the running turn before its next step.
    Steer,
}

impl From<SendDelivery> for InputDelivery {
    fn from(delivery: SendDelivery) -> Self {
        match delivery {
            SendDelivery::Queue => InputDelivery::Queue,
            SendDelivery::Steer => InputDelivery::Steer,
        }
    }
}

/// An operation on a conversation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "ConversationStep")]
pub struct ConversationStep {
    /// Agent. Default: the entry agent.
    pub agent: Option<String>,
    /// Conversation key. Default: `main`.
    pub instance_key: Option<String>,
    /// Wait until the operation is over. Default: true.
    #[serde(default = "super::step::default_true")]
    pub wait: bool,
}
