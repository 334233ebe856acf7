//! Questions of tools that need somebody's word (rule S1).

use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use goondan::runtime::policy::{ApprovalAnswer, ApprovalRequest, ApproveAll, Approver, Headless};
use rustyline::{Behavior, Config, DefaultEditor};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::output::{Output, printable};

/// Questions that wait for the person at the terminal; none ever comes where nobody is there.
pub(crate) struct Questions {
    waiting: UnboundedReceiver<Question>,
}

/// One question, and where its answer goes.
pub(crate) struct Question {
    request: ApprovalRequest,
    answer: oneshot::Sender<ApprovalAnswer>,
}

/// Hands questions to the one who owns the terminal.
struct AtTerminal {
    questions: UnboundedSender<Question>,
}

/// Who answers: everybody's yes with `--yes`, the person at the terminal, or nobody.
pub(crate) fn approver(yes: bool) -> (Arc<dyn Approver>, Questions) {
    let (questions, waiting) = mpsc::unbounded_channel();
    let somebody_there = Output::stdin_is_terminal() && Output::stderr_is_terminal();
    let approver: Arc<dyn Approver> = match (yes, somebody_there) {
        (true, _) => Arc::new(ApproveAll),
        (false, true) => Arc::new(AtTerminal { questions }),
        (false, false) => Arc::new(Headless),
    };
    (approver, Questions { waiting })
}

#[async_trait]
impl Approver for AtTerminal {
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
    /// Asks the person and passes the answer on. Anything but a yes is a no.
    pub(crate) async fn put(self) {
        let (details, prompt) = (self.details(), self.prompt());
        let said = tokio::task::spawn_blocking(move || {
            let shown = writeln!(anstream::stderr(), "{details}");
            shown.is_ok() && read_answer(&prompt)
        });
        let said = said.await;
        let answer = if matches!(said, Ok(true)) { ApprovalAnswer::Allow } else { ApprovalAnswer::Deny };
        // The call may have been cancelled meanwhile; then nobody waits for the answer.
        let _ = self.answer.send(answer);
    }

    /// All arguments, whole: what is not shown can't be agreed to.
    fn details(&self) -> String {
        let arguments = serde_json::Value::Object(self.request.arguments.clone());
        printable(&format!("{} {arguments:#}", self.request.tool_name))
    }

    fn prompt(&self) -> String {
        format!("Allow {} to call {}? [y/N] ", self.request.instance, self.request.tool_name)
    }
}

/// Reads from the terminal itself, so that redirected output gets no prompt.
fn read_answer(text: &str) -> bool {
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let answer = DefaultEditor::with_config(config).and_then(|mut editor| editor.readline(text));
    match answer {
        Ok(line) => is_yes(&line),
        // Ctrl-C, Ctrl-D, or a terminal that is gone.
        Err(_) => false,
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
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
        };
        let question = Question { request, answer: oneshot::channel().0 };
        assert!(question.details().contains("; rm -r x"));
        assert_eq!(question.prompt(), "Allow a:main to call bash__exec? [y/N] ");
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        assert!(is_yes("y") && is_yes(" YES "));
        assert!(!is_yes("") && !is_yes("n") && !is_yes("yep"));
    }
}
