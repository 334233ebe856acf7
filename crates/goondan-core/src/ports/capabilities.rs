//! Capabilities that a host can grant to tools, in addition to messages between agents. One trait
//! for each capability. A host without a capability returns `None`
//! ([`AgentToolRuntime`](super::tool::AgentToolRuntime)).

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::InstanceMeta;
use super::tool::HandlerError;
use crate::ids::InstanceId;
use crate::message::Message;
use crate::tool_allowlist::ToolAllowlist;

/// Read access to the conversations of the swarm.
#[async_trait]
pub trait ConversationAccess: Send + Sync {
    /// Returns the metadata of all instances, oldest first. Instances with pending work have the
    /// status `processing`.
    async fn sessions(&self) -> Result<Vec<InstanceMeta>, HandlerError>;
    /// Returns the current conversation of an instance; empty if it has none.
    async fn history(&self, id: &InstanceId) -> Result<Vec<Arc<Message>>, HandlerError>;
    /// Returns the currency of the instance's cost, if its model declares prices.
    async fn currency(&self, id: &InstanceId) -> Option<String>;
}

/// Storage of named JSON values for the calling instance. Values survive a crash, and are deleted
/// with the instance.
#[async_trait]
pub trait ToolStateStore: Send + Sync {
    /// Returns the last saved value.
    async fn load(&self, name: &str) -> Result<Option<Value>, HandlerError>;
    /// Replaces a value; durable on return. Concurrent calls are serialized.
    async fn save(&self, name: &str, value: Value) -> Result<(), HandlerError>;
    /// Returns the last value with this name of every instance, for tools that need an overview of
    /// the swarm.
    async fn all_values(&self, name: &str) -> Result<Vec<(InstanceId, Value)>, HandlerError>;
}

/// Scheduled prompts for the calling instance.
#[async_trait]
pub trait PromptScheduler: Send + Sync {
    /// Returns the jobs of the instance, oldest first.
    async fn jobs(&self) -> Result<Vec<ScheduledJob>, HandlerError>;
    /// Adds a job; durable on return. Idempotent: a repeated call returns the same job.
    async fn add(&self, job: JobRequest) -> Result<ScheduledJob, HandlerError>;
    /// Removes a job; `None` if no job has this id.
    async fn remove(&self, id: &str) -> Result<Option<ScheduledJob>, HandlerError>;
}

/// Request for a new job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// Cron expression: minute, hour, day of month, month and day of week.
    pub schedule: String,
    /// IANA time zone name such as `Europe/Berlin`.
    pub timezone: String,
    /// Input for the instance.
    pub prompt: String,
}

/// A scheduled job of an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledJob {
    /// Id, unique in the instance.
    pub id: String,
    /// Cron expression: minute, hour, day of month, month and day of week.
    pub schedule: String,
    /// IANA time zone name such as `Europe/Berlin`.
    pub timezone: String,
    /// Input for the instance.
    pub prompt: String,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Next scheduled time.
    pub due: DateTime<Utc>,
    /// Callers of the turn that made the job. The callers restrict the permissions of the job's
    /// turns (rule S1b).
    #[serde(default)]
    pub callers: Vec<InstanceId>,
    /// Time at which that chain of callers began; absent for jobs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<DateTime<Utc>>,
    /// Agents outside the chain that restricted that turn.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub bound_by: BTreeSet<String>,
    /// Allowlist of tools for the turns that the job starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowing: Option<ToolAllowlist>,
}

/// Access to embedding models.
#[async_trait]
pub trait EmbeddingModels: Send + Sync {
    /// Returns an identifier of the model behind a Model resource. Vectors with the same identifier
    /// are comparable.
    fn model_identity(&self, model: &str) -> Result<String, HandlerError>;
    /// Returns a vector for each text, from the Model resource `model`.
    async fn embed(&self, model: &str, texts: Vec<String>) -> Result<Vec<Vec<f32>>, HandlerError>;
}
