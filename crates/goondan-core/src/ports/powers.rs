//! What a host may let a tool do beside talking to other agents, one trait a power. A host that lacks one says so by
//! giving none ([`AgentToolRuntime`](super::tool::AgentToolRuntime)).

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::InstanceMeta;
use super::tool::ToolError;
use crate::ids::InstanceId;
use crate::message::Message;
use crate::narrowing::Narrowing;

/// Looks at the conversations of the swarm.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// What is known of all instances, oldest first. `processing` are those that have something to do.
    async fn sessions(&self) -> Result<Vec<InstanceMeta>, ToolError>;
    /// The conversation of an instance as it stands; empty where there is none.
    async fn history(&self, id: &InstanceId) -> Result<Vec<Arc<Message>>, ToolError>;
    /// The currency that the cost of an instance is counted in, where its model declares prices.
    async fn currency(&self, id: &InstanceId) -> Option<String>;
}

/// Keeps a JSON value by name for the calling instance. It survives a crash, and goes with the instance.
#[async_trait]
pub trait ToolState: Send + Sync {
    /// What was saved last.
    async fn load(&self, name: &str) -> Result<Option<Value>, ToolError>;
    /// Puts a value in its place; on disk once this is back. Calls at the same time follow each other.
    async fn save(&self, name: &str, value: Value) -> Result<(), ToolError>;
    /// What all instances have saved last under that name, for tools that have one picture of the whole swarm.
    async fn everywhere(&self, name: &str) -> Result<Vec<(InstanceId, Value)>, ToolError>;
}

/// Has prompts come to the calling instance by the clock.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// The jobs of the instance, oldest first.
    async fn jobs(&self) -> Result<Vec<Job>, ToolError>;
    /// Makes a job; it is on disk once this is back. The same call again is the same job.
    async fn add(&self, job: JobRequest) -> Result<Job, ToolError>;
    /// Ends a job; `None` where there is none of that id.
    async fn remove(&self, id: &str) -> Result<Option<Job>, ToolError>;
}

/// A job that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// Minute, hour, day of month, month and day of week.
    pub schedule: String,
    /// An IANA name such as `Europe/Berlin`.
    pub timezone: String,
    /// What the instance is told.
    pub prompt: String,
}

/// A job of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Unique in its instance.
    pub id: String,
    /// Minute, hour, day of month, month and day of week.
    pub schedule: String,
    /// An IANA name such as `Europe/Berlin`.
    pub timezone: String,
    /// What the instance is told.
    pub prompt: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it fires next.
    pub due: DateTime<Utc>,
    /// Who was in the chain of the turn that made it: they narrow what a firing may do (rule S1b).
    #[serde(default)]
    pub callers: Vec<InstanceId>,
    /// Agents that narrowed that turn without being in its chain.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub bound_by: BTreeSet<String>,
    /// The only tools that may run in the turn of a firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowing: Option<Narrowing>,
}

/// Asks models for the place of texts in a space of meanings.
#[async_trait]
pub trait Embeddings: Send + Sync {
    /// What tells the model behind the Model resource of that name from others: vectors of one model are comparable.
    fn identity(&self, model: &str) -> Result<String, ToolError>;
    /// A vector for each text, by the Model resource of that name.
    async fn embed(&self, model: &str, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ToolError>;
}
