//! Calls that wait for somebody's word, and words that hold on.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::JsonObject;
use crate::ids::InstanceId;

/// A call that waits for somebody's word.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    /// Ties the events of an approval together. The same call has the same id when it is asked about again after a restart.
    pub id: String,
    /// Whose call it is.
    pub instance: InstanceId,
    /// The call.
    pub tool_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// Its arguments.
    pub arguments: JsonObject,
    /// What the call would do, as the tool tells it: a command, a diff, the files of a scaffold.
    pub preview: Option<String>,
    /// Why it is asked, in a sentence, where there is more to say than that a rule wants it.
    pub reason: Option<String>,
}

/// Somebody's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// It runs.
    Allow {
        /// For how long that holds.
        scope: Scope,
    },
    /// It is refused.
    Deny,
    /// There is nobody to ask.
    NobodyThere,
}

/// How long an approval holds, for the same agent calling the same tool with the same arguments in the same folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// For this call.
    Once,
    /// For this conversation, also after a restart.
    Conversation,
    /// For all conversations of the project, until somebody takes it out of the [`ApprovalBook`].
    Always,
}

/// Answers for people.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides about one call. It must not wait where nobody can answer. It is dropped where the call is cancelled.
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer;
}

/// An approval that holds on. It is precise: another argument, another folder or another content of a script is another
/// call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The agent that may. Where a policy further up in a chain of callers asks, each of these agents needs a grant.
    pub agent: String,
    /// `resource__export`.
    pub tool: String,
    /// The arguments, without those that have the value of their default.
    #[serde(default)]
    pub args: JsonObject,
    /// Where it works: a folder by its path, or the folder of its own that each conversation of an agent has.
    pub folder: String,
    /// It was given though the conversation had read untrusted output. One that was not, does not hold in such a conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// What is in the files that it runs, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
}

/// Where approvals are kept that hold always.
pub trait ApprovalBook: Send + Sync {
    /// All that are kept.
    fn grants(&self) -> Vec<Grant>;
    /// Keeps more. The error says what failed; the call at hand runs all the same.
    fn remember(&self, grants: Vec<Grant>) -> Result<(), String>;
}

/// Keeps approvals as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryBook(std::sync::Mutex<Vec<Grant>>);

impl ApprovalBook for MemoryBook {
    fn grants(&self) -> Vec<Grant> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn remember(&self, grants: Vec<Grant>) -> Result<(), String> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(grants);
        Ok(())
    }
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
        ApprovalAnswer::Allow { scope: Scope::Once }
    }
}

/// The approver of a swarm.
pub type SharedApprover = Arc<dyn Approver>;
