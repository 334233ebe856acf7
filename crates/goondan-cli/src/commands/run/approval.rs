//! Questions of tools that need somebody's word (rule S1).

use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use goondan::runtime::policy::{ApprovalAnswer, ApprovalRequest, ApproveAll, Approver, Headless, Scope};
use rustyline::{Behavior, Config, DefaultEditor};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::output::{Output, printable};

/// Questions that wait for somebody; none ever comes where nobody is there.
pub(crate) struct Questions {
    waiting: UnboundedReceiver<Question>,
}

/// One question, and where its answer goes.
pub(crate) struct Question {
    pub(crate) request: ApprovalRequest,
    answer: oneshot::Sender<ApprovalAnswer>,
}

/// Hands questions to the one who owns the terminal, or standard input and output.
struct Somebody {
    questions: UnboundedSender<Question>,
}

/// Who can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The person at the terminal, if there is one.
    Terminal,
    /// The program that writes lines to standard input, as long as it is open.
    Lines,
}

/// Who answers: everybody's yes with `--yes`, somebody who can be asked, or nobody.
pub(crate) fn approver(yes: bool, asked: Asked) -> (Arc<dyn Approver>, Questions) {
    let (questions, waiting) = mpsc::unbounded_channel();
    let at_terminal = || Output::stdin_is_terminal() && Output::stderr_is_terminal();
    let approver: Arc<dyn Approver> = match yes {
        true => Arc::new(ApproveAll),
        false if asked == Asked::Lines || at_terminal() => Arc::new(Somebody { questions }),
        false => Arc::new(Headless),
    };
    (approver, Questions { waiting })
}

#[async_trait]
impl Approver for Somebody {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let (answer, told) = oneshot::channel();
        if self.questions.send(Question { request, answer }).is_err() {
            return ApprovalAnswer::NobodyThere;
        }
        told.await.unwrap_or(ApprovalAnswer::NobodyThere)
    }
}

impl Questions {
    /// Waits for the next question; `None` once none can come.
    pub(crate) async fn next(&mut self) -> Option<Question> {
        self.waiting.recv().await
    }
}

impl Question {
    /// Shows what is asked, and reads the answer. Anything but a clear yes is a no.
    pub(crate) async fn put(self) {
        let (details, prompt) = (self.details(), self.prompt());
        let said = tokio::task::spawn_blocking(move || {
            let shown = writeln!(anstream::stderr(), "{details}");
            shown.ok().map_or(ApprovalAnswer::Deny, |()| read_answer(&prompt))
        });
        let said = said.await.unwrap_or(ApprovalAnswer::Deny);
        self.answer(said);
    }

    /// Hands the answer over.
    pub(crate) fn answer(self, answer: ApprovalAnswer) {
        // The call may have been cancelled meanwhile; then nobody waits for the answer.
        let _ = self.answer.send(answer);
    }

    /// What the call would do, and all arguments, whole: what is not shown can't be agreed to.
    fn details(&self) -> String {
        let arguments = serde_json::Value::Object(self.request.arguments.clone());
        let mut text = format!("{} {arguments:#}", self.request.tool_name);
        if let Some(reason) = &self.request.reason {
            text.push_str(&format!("\nasked for by {reason}"));
        }
        if let Some(preview) = &self.request.preview {
            text.push_str(&format!("\n\n{preview}\n"));
        }
        printable(&text)
    }

    fn prompt(&self) -> String {
        let (instance, tool) = (&self.request.instance, &self.request.tool_name);
        format!("Allow {instance} to call {tool}? [y]es, for this [c]onversation, [a]lways, [N]o: ")
    }
}

/// Reads from the terminal itself, so that redirected output gets no prompt.
fn read_answer(text: &str) -> ApprovalAnswer {
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let answer = DefaultEditor::with_config(config).and_then(|mut editor| editor.readline(text));
    // An error is Ctrl-C, Ctrl-D, or a terminal that is gone.
    answer.map_or(ApprovalAnswer::Deny, |line| meaning(&line))
}

/// What a person or a program says. Anything but a clear yes is a no.
pub(crate) fn meaning(word: &str) -> ApprovalAnswer {
    let scope = match word.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" | "once" | "allow" => Scope::Once,
        "c" | "conversation" => Scope::Conversation,
        "a" | "always" => Scope::Always,
        _ => return ApprovalAnswer::Deny,
    };
    ApprovalAnswer::Allow { scope }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_hides_nothing() {
        let arguments = serde_json::json!({"command": format!("echo {}; rm -r x", "a".repeat(5000))});
        let request = ApprovalRequest {
            id: "1".to_owned(),
            instance: goondan::runtime::ids::InstanceId::new("a", "main"),
            tool_call_id: "c".to_owned(),
            tool_name: "bash__exec".to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            preview: Some("$ echo\u{1b}[2K".to_owned()),
            reason: Some("Agent/a: by its `default`".to_owned()),
        };
        let question = Question { request, answer: oneshot::channel().0 };
        assert!(question.details().contains("; rm -r x"));
        assert!(question.details().contains("Agent/a") && !question.details().contains('\u{1b}'));
        assert!(question.prompt().starts_with("Allow a:main to call bash__exec?"));
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        let allow = |scope| ApprovalAnswer::Allow { scope };
        assert_eq!((meaning("y"), meaning(" YES ")), (allow(Scope::Once), allow(Scope::Once)));
        assert_eq!((meaning("c"), meaning("Always")), (allow(Scope::Conversation), allow(Scope::Always)));
        assert!(["", "n", "yep", "ay"].iter().all(|word| meaning(word) == ApprovalAnswer::Deny));
    }
}
