//! Calls that wait for somebody's word.

use std::sync::Arc;

use async_trait::async_trait;

use crate::JsonObject;
use crate::ids::InstanceId;

/// A call that waits for somebody's word.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// Unique; ties the events of an approval together.
    pub id: String,
    /// Whose call it is.
    pub instance: InstanceId,
    /// The call.
    pub tool_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// Its arguments.
    pub arguments: JsonObject,
}

/// Somebody's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// It runs.
    Allow,
    /// It is refused.
    Deny,
    /// There is nobody to ask.
    NobodyThere,
}

/// Answers for people.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides about one call. It must not wait where nobody can answer.
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer;
}

/// A run without anybody to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headless;

#[async_trait]
impl Approver for Headless {
    async fn ask(&self, _request: ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::NobodyThere
    }
}

/// Says yes to everything (`--yes`).
#[derive(Debug, Clone, Copy, Default)]
pub struct ApproveAll;

#[async_trait]
impl Approver for ApproveAll {
    async fn ask(&self, _request: ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::Allow
    }
}

/// The approver of a swarm.
pub type SharedApprover = Arc<dyn Approver>;
