//! Calls that wait for somebody's word, and words that hold on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use goondan_spec::shown;
use serde::{Deserialize, Serialize};

use crate::JsonObject;
use crate::ids::InstanceId;
use crate::ports::store::StoreError;

/// A call that waits for somebody's word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Ties the events of an approval together. The same call has the same id when it is asked about again after a restart.
    pub id: String,
    /// Whose call it is.
    pub instance: InstanceId,
    /// The chain that it belongs to: all that one input has caused.
    pub trace_id: String,
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
    /// What an answer that holds on may cover, the narrowest first. None where nothing can be remembered of the call.
    pub offers: Vec<Offer>,
}

impl ApprovalRequest {
    /// The question in words, for places that have no form of their own for it. Each line of a stranger stands behind a bar, so it can't be
    /// taken for one of ours; what can't be seen is an escape; what decides stands last.
    pub fn words(&self) -> String {
        let told = [
            ("The tool says what it would do:", &self.preview),
            ("It is asked for by:", &self.reason),
        ];
        let told = told
            .into_iter()
            .filter_map(|(head, text)| Some((head.to_owned(), text.clone()?)));
        let (agent, tool) = (
            shown::line(&self.instance.agent),
            shown::line(&self.tool_name),
        );
        let asked = match serde_json::to_string(&self.arguments) {
            Ok(arguments) if !self.arguments.is_empty() => {
                (format!("May {agent} run {tool} with this?"), arguments)
            }
            _ => (
                format!("May {agent} run {tool} without arguments?"),
                String::new(),
            ),
        };
        let part = |(head, text): (String, String)| {
            let shown = shown::lines(text).to_string();
            [head]
                .into_iter()
                .chain(shown.lines().map(|line| format!("│ {line}")))
                .collect::<Vec<_>>()
                .join("\n")
        };
        told.chain([asked])
            .map(part)
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    /// Whether an answer may cover that much.
    pub fn is_offered(&self, covers: Covers) -> bool {
        self.offers.iter().any(|offer| offer.covers == covers)
    }
}

/// Something that an answer may cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// How much.
    pub covers: Covers,
    /// The commands, where it covers commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// Somebody's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalAnswer {
    /// It runs.
    Allow {
        /// For how long that holds.
        scope: Scope,
        /// For what that holds. Where it was not offered, it is for the call alone.
        covers: Covers,
    },
    /// It is refused.
    Deny,
    /// There is nobody to ask.
    NobodyThere,
}

impl ApprovalAnswer {
    /// Yes, for this call alone.
    pub const ONCE: Self = ApprovalAnswer::Allow {
        scope: Scope::Once,
        covers: Covers::Call,
    };
}

/// How long an approval holds, for the same agent calling the same tool in the same folder.
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

/// For what an approval holds, the narrowest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Covers {
    /// The same arguments.
    #[default]
    Call,
    /// Command lines of the same programs, such as `git diff *`. They run without a shell and in a sandbox, as those that a
    /// pattern of a rule allows.
    Program,
    /// All calls of the tool.
    Tool,
}

/// Answers for people.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides about one call. It must not wait where nobody can answer. It is dropped where the call is cancelled.
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer;
}

/// An approval that holds on. It is precise: another folder or another content of a script is another call, and so is another
/// argument, unless somebody allowed a program or a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The agent that may. Where a policy further up in a chain of callers asks, each of these agents needs a grant.
    pub agent: String,
    /// `resource__export`.
    pub tool: String,
    /// For what it holds.
    #[serde(default, skip_serializing_if = "Covers::is_call")]
    pub covers: Covers,
    /// The arguments, without those that have the value of their default. Of a program, the command line is a pattern; of a
    /// tool there are none.
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
    /// What is in the files that its command lines name, by their paths. A wider cover than the call has none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

impl Covers {
    fn is_call(&self) -> bool {
        *self == Covers::Call
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Grant {
            agent,
            tool,
            args,
            folder,
            ..
        } = self;
        let args = serde_json::to_string(args).map_err(|_| fmt::Error)?;
        write!(f, "Agent/{agent} may call {tool} ")?;
        match self.covers {
            Covers::Call => write!(f, "with {args}")?,
            Covers::Program => write!(f, "with commands of the form {args}, in a sandbox,")?,
            Covers::Tool => f.write_str("with any arguments")?,
        }
        write!(f, " in {folder}")?;
        if self.untrusted {
            f.write_str(", also when it has read untrusted output")?;
        }
        match self.programs.len() + self.files.len() {
            0 => Ok(()),
            _ if !self.files.is_empty() => {
                f.write_str(", as long as the files that it names stay as they are")
            }
            1 => f.write_str(", as long as the program that it runs stays as it is"),
            many => write!(
                f,
                ", as long as the {many} programs that it runs stay as they are"
            ),
        }
    }
}

/// Where approvals are kept that hold always.
pub trait ApprovalBook: Send + Sync {
    /// All that are kept.
    fn grants(&self) -> Vec<Grant>;
    /// Keeps more. The error says what failed; the call at hand runs all the same.
    fn remember(&self, grants: Vec<Grant>) -> Result<(), StoreError>;
}

/// Keeps approvals as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryBook(std::sync::Mutex<Vec<Grant>>);

impl ApprovalBook for MemoryBook {
    fn grants(&self) -> Vec<Grant> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    fn remember(&self, grants: Vec<Grant>) -> Result<(), StoreError> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .extend(grants);
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
        ApprovalAnswer::ONCE
    }
}

/// The approver of a swarm.
pub type SharedApprover = Arc<dyn Approver>;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_word_of_a_stranger_passes_for_one_of_ours() {
        let hidden = "ls\u{202e} \u{200b}\u{1b}[2K";
        let request = ApprovalRequest {
            id: String::new(),
            instance: InstanceId::new("a", "main"),
            trace_id: String::new(),
            tool_call_id: String::new(),
            tool_name: "bash__exec".to_owned(),
            arguments: json!({"command": hidden}).as_object().cloned().unwrap(),
            preview: Some(format!(
                "$ {hidden}\n\nThis was answered elsewhere.\rMay a run ls?"
            )),
            reason: Some("Agent/a: a rule\nAllowed by Ada.".to_owned()),
            offers: Vec::new(),
        };
        let words = request.words();
        assert!(
            words.chars().all(|c| c == '\n' || shown::is_visible(c)),
            "{words:?}"
        );
        let ours: Vec<&str> = words
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('│'))
            .collect();
        let wanted = [
            "The tool says what it would do:",
            "It is asked for by:",
            "May a run bash__exec with this?",
        ];
        assert_eq!(ours, wanted);
        assert!(
            words.ends_with("│ {\"command\":\"ls\\u{202e} \\u{200b}\\u001b[2K\"}"),
            "{words}"
        );
    }
}
