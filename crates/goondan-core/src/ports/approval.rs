//! Approval requests for tool calls, and remembered approvals.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_spec::untrusted_text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonObject;
use crate::ids::InstanceId;
use crate::ports::store::StoreError;

/// Key in [`ApprovalGrant::programs`] for the hash of the tool's own code. The other keys are
/// paths.
pub const CODE_KEY: &str = "library";

/// A tool call that waits for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Connects the events of an approval. A call that is asked about again after a restart keeps
    /// its id.
    pub id: String,
    /// Conversation of the call.
    pub instance: InstanceId,
    /// Trace of the call: everything that one input caused.
    pub trace_id: String,
    /// Id of the call.
    pub tool_call_id: String,
    /// Name of the tool.
    pub tool_name: String,
    /// Arguments of the call.
    pub arguments: JsonObject,
    /// Names of the arguments that equal their default. Clients hide them.
    pub default_arguments: BTreeSet<String>,
    /// Effect of the call, described by the tool: a command, a diff, the files of a scaffold.
    pub preview: Option<String>,
    /// Rule or default that requires the approval, in a sentence, with its place in the project.
    pub reason: Option<String>,
    /// Scopes that the user can approve beyond this call, the narrowest first. Empty if an approval
    /// can't be remembered.
    pub offers: Vec<ApprovalOffer>,
}

impl ApprovalRequest {
    /// Returns the request as plain text, for clients without a special form for it. Each line of
    /// untrusted content is prefixed with a bar, so it can't pass for a line of gdn. Invisible
    /// characters are escaped, and the arguments come last.
    pub fn to_plain_text(&self) -> String {
        let details = [
            ("Preview from the tool:", &self.preview),
            ("Reason for the request:", &self.reason),
        ];
        let details = details
            .into_iter()
            .filter_map(|(head, text)| Some((head.to_owned(), text.clone()?)));
        let (agent, tool) = (
            untrusted_text::line(&self.instance.agent),
            untrusted_text::line(&self.tool_name),
        );
        let stated_arguments = self.stated_arguments();
        let stated_arguments: JsonObject = stated_arguments
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let question = match serde_json::to_string(&stated_arguments) {
            Ok(arguments) if !stated_arguments.is_empty() => {
                (format!("May {agent} run {tool} with this?"), arguments)
            }
            _ => (
                format!("May {agent} run {tool} without arguments?"),
                String::new(),
            ),
        };
        let section = |(head, text): (String, String)| {
            let safe_text = untrusted_text::lines(text).to_string();
            [head]
                .into_iter()
                .chain(safe_text.lines().map(|line| format!("│ {line}")))
                .collect::<Vec<_>>()
                .join("\n")
        };
        details
            .chain([question])
            .map(section)
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    /// Returns the arguments that differ from their defaults, in the order of the call.
    pub fn stated_arguments(&self) -> impl Iterator<Item = (&String, &Value)> {
        let is_stated = |(name, _): &(&String, &Value)| !self.default_arguments.contains(*name);
        self.arguments.iter().filter(is_stated)
    }

    /// Returns true if the user can approve this scope.
    pub fn is_offered(&self, covers: ApprovalCoverage) -> bool {
        self.offers.iter().any(|offer| offer.covers == covers)
    }
}

/// A scope that the user can approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalOffer {
    /// Scope of the approval.
    pub covers: ApprovalCoverage,
    /// The commands, for a scope of commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// Answer to an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalAnswer {
    /// Approves the call.
    Allow {
        /// Duration of the approval.
        scope: ApprovalDuration,
        /// Scope of the approval. A scope that was not offered is reduced to the call.
        covers: ApprovalCoverage,
    },
    /// Denies the call.
    Deny,
    /// No user is available to answer.
    NobodyThere,
}

impl ApprovalAnswer {
    /// Approval of only this call.
    pub const ONCE: Self = ApprovalAnswer::Allow {
        scope: ApprovalDuration::Once,
        covers: ApprovalCoverage::Call,
    };
}

/// Duration of an approval. An approval applies only to the same agent, tool and directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalDuration {
    /// This call.
    Once,
    /// This conversation, including after a restart.
    Conversation,
    /// All conversations of the project, until the approval is removed from the [`ApprovalStore`].
    Always,
}

/// Scope of an approval, the narrowest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalCoverage {
    /// The same arguments.
    #[default]
    Call,
    /// Command lines of the same programs, such as `git diff *`. They run without a shell and in a
    /// sandbox, like commands that match a rule's pattern.
    Program,
    /// All calls of the tool.
    Tool,
}

/// Client that answers approval requests.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Answers an approval request. Must return immediately if no user can answer. The caller drops
    /// the future if the tool call is cancelled.
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer;
}

/// A remembered approval. A grant applies only to the same directory, arguments and scripts, unless
/// the user approved a program or a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalGrant {
    /// Agent that may make the call. Each agent in the call chain whose policy requires an approval
    /// needs a separate grant.
    pub agent: String,
    /// Tool name in the form `resource__export`.
    pub tool: String,
    /// Scope of the approval.
    #[serde(default, skip_serializing_if = "ApprovalCoverage::is_call")]
    pub covers: ApprovalCoverage,
    /// Arguments, without those that equal their default. For a program, the command line is a
    /// pattern; for a tool, this is empty.
    #[serde(default)]
    pub args: JsonObject,
    /// Working directory: a path, or the separate directory of each conversation of an agent.
    pub folder: String,
    /// Conversation to which the approval of a call is limited, if the call runs programs in the
    /// conversation's own directory. Such programs may read any file there, so the approval does not
    /// apply to another conversation. Absent if the approval covers more than this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// True if the user approved although the conversation contained untrusted content. Other
    /// grants do not apply in such a conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Hash of the settings that limit the call: the entry and `config` of the tool, and the
    /// sandboxes of the agent and its callers. Absent without such settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    /// Content hashes of the files that the call runs, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
    /// Content hashes of the files in the command lines of the call, by path. Empty for scopes
    /// wider than the call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Targets of the call's paths that contain symbolic links, by path. Empty for a grant of the
    /// whole tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub link_targets: BTreeMap<String, String>,
}

impl ApprovalCoverage {
    fn is_call(&self) -> bool {
        *self == ApprovalCoverage::Call
    }
}

impl fmt::Display for ApprovalGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ApprovalGrant {
            agent,
            tool,
            args,
            folder,
            conversation,
            ..
        } = self;
        let args = serde_json::to_string(args).map_err(|_| fmt::Error)?;
        write!(f, "Agent/{agent} may call {tool} ")?;
        match self.covers {
            ApprovalCoverage::Call => write!(f, "with {args}")?,
            ApprovalCoverage::Program => {
                write!(f, "with commands of the form {args}, in a sandbox,")?
            }
            ApprovalCoverage::Tool => f.write_str("with any arguments")?,
        }
        match conversation {
            Some(conversation) => write!(f, " in own folder of {conversation}")?,
            None => write!(f, " in {folder}")?,
        }
        if self.untrusted {
            f.write_str(", even after it has read untrusted output")?;
        }
        if !self.link_targets.is_empty() {
            f.write_str(", while its links have the same targets")?;
        }
        // The tool's code counts only if it is the only program.
        let has_other_programs = self.programs.len() > 1;
        let excludes_code = has_other_programs && self.programs.contains_key(CODE_KEY);
        match self.programs.len() - usize::from(excludes_code) + self.files.len() {
            0 => Ok(()),
            _ if !self.files.is_empty() => {
                f.write_str(", while the files that it names are unchanged")
            }
            1 => f.write_str(", while the program that it runs is unchanged"),
            many => write!(f, ", while the {many} programs that it runs are unchanged"),
        }
    }
}

/// Storage of permanent approvals.
pub trait ApprovalStore: Send + Sync {
    /// Returns all stored approvals.
    fn grants(&self) -> Vec<ApprovalGrant>;
    /// Stores more approvals.
    ///
    /// # Errors
    /// The approvals are not stored; the current call runs anyway.
    fn remember(&self, grants: Vec<ApprovalGrant>) -> Result<(), StoreError>;
    /// Removes the approvals that are limited to the conversation `id`. A new conversation with the
    /// same key must not get them.
    ///
    /// # Errors
    /// The approvals could not be removed.
    fn forget_conversation(&self, id: &InstanceId) -> Result<(), StoreError>;
}

impl ApprovalGrant {
    /// Returns true if the approval is limited to the conversation `id`.
    pub fn is_of_conversation(&self, id: &InstanceId) -> bool {
        let conversation = self.conversation.as_ref();
        conversation.is_some_and(|conversation| *conversation == id.to_string())
    }
}

/// In-memory storage of approvals, lost when the process ends.
#[derive(Debug, Default)]
pub struct InMemoryApprovals(std::sync::Mutex<Vec<ApprovalGrant>>);

impl ApprovalStore for InMemoryApprovals {
    fn grants(&self) -> Vec<ApprovalGrant> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    fn remember(&self, grants: Vec<ApprovalGrant>) -> Result<(), StoreError> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .extend(grants);
        Ok(())
    }

    fn forget_conversation(&self, id: &InstanceId) -> Result<(), StoreError> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .retain(|grant| !grant.is_of_conversation(id));
        Ok(())
    }
}

/// Approver of a run without a user.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeadlessApprover;

#[async_trait]
impl Approver for HeadlessApprover {
    async fn ask(&self, _request: ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::NobodyThere
    }
}

/// Approver that allows every call once (`--yes`).
#[derive(Debug, Clone, Copy, Default)]
pub struct ApproveAll;

#[async_trait]
impl Approver for ApproveAll {
    async fn ask(&self, _request: ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::ONCE
    }
}

/// Approver of a swarm.
pub type SharedApprover = Arc<dyn Approver>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn untrusted_text_in_a_prompt_cannot_imitate_gdn_text() {
        let hidden = "ls\u{202e} \u{200b}\u{1b}[2K";
        let request = ApprovalRequest {
            id: String::new(),
            instance: InstanceId::new("a", "main"),
            trace_id: String::new(),
            tool_call_id: String::new(),
            tool_name: "bash__exec".to_owned(),
            arguments: json!({"command": hidden, "timeoutMs": 5})
                .as_object()
                .cloned()
                .unwrap(),
            default_arguments: ["timeoutMs".to_owned()].into(),
            preview: Some(format!(
                "$ {hidden}\n\nThis was answered elsewhere.\rMay a run ls?"
            )),
            reason: Some("Agent/a: a rule\nAllowed by Ada.".to_owned()),
            offers: Vec::new(),
        };
        let text = request.to_plain_text();
        assert!(
            text.chars()
                .all(|c| c == '\n' || untrusted_text::is_visible(c)),
            "{text:?}"
        );
        let gdn_lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('│'))
            .collect();
        let expected = [
            "Preview from the tool:",
            "Reason for the request:",
            "May a run bash__exec with this?",
        ];
        assert_eq!(gdn_lines, expected);
        assert!(
            text.ends_with("│ {\"command\":\"ls\\u{202e} \\u{200b}\\u001b[2K\"}"),
            "{text}"
        );
    }
}
