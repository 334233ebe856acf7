//! Questions of tools that need somebody's word (rule S1).

mod question;

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use goondan::ports::approval::{ApprovalAnswer, ApprovalRequest, ApproveAll, Approver, Headless, Scope};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use self::question::PROMPT;
use crate::output::{self, Output, Printer};

/// Questions that wait for somebody; none ever comes where nobody is there.
pub(crate) struct Questions {
    waiting: UnboundedReceiver<Question>,
    /// Those that were told of and put off.
    put_off: VecDeque<Question>,
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
    (approver, Questions { waiting, put_off: VecDeque::new() })
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
    /// Waits for the next new question; `None` once none can come.
    pub(crate) async fn next(&mut self) -> Option<Question> {
        self.waiting.recv().await
    }

    /// Keeps a question for later: somebody is typing.
    pub(crate) fn put_off(&mut self, question: Question) {
        self.put_off.push_back(question);
    }

    /// The first question that was put off.
    pub(crate) fn take_put_off(&mut self) -> Option<Question> {
        self.put_off.pop_front()
    }
}

impl Question {
    /// Whether nobody waits for the answer any more: the call was cancelled.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.answer.is_closed()
    }

    /// Shows what is asked, and reads the answer. Anything but a clear yes is a no. Where the asker goes meanwhile, that is
    /// told, and whatever is typed then is no answer. Once `given_up` is, nobody answers any more: the question stands on
    /// until the command ends.
    pub(crate) async fn put(mut self, given_up: impl Future<Output = ()>) {
        if self.is_withdrawn() {
            return;
        }
        let (request, (give, printer)) = (self.request.clone(), oneshot::channel());
        // An error is Ctrl-C, Ctrl-D, or a terminal that is gone.
        let said = tokio::task::spawn_blocking(move || ask(&request, give).unwrap_or(ApprovalAnswer::Deny));
        let mut said = std::pin::pin!(said);
        let said = tokio::select! {
            said = &mut said => said,
            () = self.answer.closed() => {
                if let Ok(mut printer) = printer.await {
                    // A terminal that is gone ends the question by itself.
                    let _ = printer.print(format!("{WITHDRAWN}\n"));
                }
                said.await
            }
            () = given_up => return self.answer(ApprovalAnswer::NobodyThere),
        };
        self.answer(said.unwrap_or(ApprovalAnswer::Deny));
    }

    /// Hands the answer over.
    pub(crate) fn answer(self, answer: ApprovalAnswer) {
        // The call may have been cancelled meanwhile; then nobody waits for the answer.
        let _ = self.answer.send(answer);
    }
}

/// What is told where a question stands whose asker is gone.
const WITHDRAWN: &str = "This question is withdrawn: the call was cancelled. Press Enter.";

fn ask(request: &ApprovalRequest, give: oneshot::Sender<Printer>) -> rustyline::Result<ApprovalAnswer> {
    output::ask_with(|size| question::words(request, size), PROMPT, give).map(|line| meaning(&line))
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
    fn only_a_yes_is_a_yes() {
        let allow = |scope| ApprovalAnswer::Allow { scope };
        assert_eq!((meaning("y"), meaning(" YES ")), (allow(Scope::Once), allow(Scope::Once)));
        assert_eq!((meaning("c"), meaning("Always")), (allow(Scope::Conversation), allow(Scope::Always)));
        assert!(["", "n", "yep", "ay"].iter().all(|word| meaning(word) == ApprovalAnswer::Deny));
    }
}
