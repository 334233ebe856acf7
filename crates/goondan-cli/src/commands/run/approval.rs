//! Questions of tools that need somebody's word (rule S1).

mod question;

use std::collections::VecDeque;
use std::sync::Arc;

use goondan::ports::approval::{
    ApprovalAnswer, ApprovalRequest, ApproveAll, Approver, Covers, Scope,
};
use goondan::{Broker, Listener, QuestionEnd};
use rustyline::error::ReadlineError;
use tokio::sync::oneshot;

pub(super) use self::question::PROMPT;
use crate::output::{self, Output, Printer, Size};

/// Questions that wait for somebody; none ever comes where nobody is there.
pub(crate) struct Questions {
    listener: Option<Listener>,
    /// Those that were told of and put off.
    put_off: VecDeque<Question>,
}

/// One question.
pub(crate) struct Question {
    pub(crate) request: Arc<ApprovalRequest>,
    asked: goondan::Question,
}

/// Who can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The person at the terminal, if there is one.
    Terminal,
    /// The program that writes lines to standard input, as long as it is open.
    Lines,
    /// Clients of the server, whenever they come.
    Clients,
}

/// Who answers: everybody's yes with `--yes`, otherwise whoever listens to the broker.
pub(crate) fn approver(yes: bool, asked: Asked) -> (Arc<dyn Approver>, Broker, Questions) {
    let broker = Broker::default();
    let at_terminal = || Output::stdin_is_terminal() && Output::stderr_is_terminal();
    let listens = match asked {
        Asked::Terminal => at_terminal(),
        Asked::Lines => true,
        Asked::Clients => false,
    };
    let questions = Questions {
        listener: (!yes && listens).then(|| broker.listen()),
        put_off: VecDeque::new(),
    };
    let approver: Arc<dyn Approver> = if yes {
        Arc::new(ApproveAll)
    } else {
        Arc::new(broker.clone())
    };
    (approver, broker, questions)
}

impl Questions {
    /// Waits for the next new question; `None` where none can come.
    pub(crate) async fn next(&mut self) -> Option<Question> {
        let asked = self.listener.as_mut()?.next().await?;
        Some(Question {
            request: Arc::clone(&asked.request),
            asked,
        })
    }

    /// Whether there is anybody to ask.
    pub(crate) fn can_come(&self) -> bool {
        self.listener.is_some()
    }

    /// Nobody is here any more who could answer.
    pub(crate) fn leave(&mut self) {
        self.listener = None;
        self.put_off.clear();
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
    /// Whether nobody waits for the answer any more: the call was cancelled, or somebody else has answered.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.asked.end().is_some()
    }

    /// Shows what is asked, and reads the answer. Enter alone is a no. Where the asker goes meanwhile, that is told, and whatever is typed then is no answer. Once `given_up` is, nobody answers any more: the question stands on
    /// until the command ends. Gives back whether the answer was Ctrl-C, which is a no as well.
    pub(crate) async fn put(self, given_up: impl Future<Output = ()>) -> bool {
        if self.is_withdrawn() {
            return false;
        }
        let (request, (give, printer)) = (Arc::clone(&self.request), oneshot::channel());
        // An error is Ctrl-C, Ctrl-D, or a terminal that is gone.
        let said = tokio::task::spawn_blocking(move || ask(&request, give));
        let mut said = std::pin::pin!(said);
        let said = tokio::select! {
            said = &mut said => said,
            () = self.asked.ended() => {
                if let Ok(mut printer) = printer.await {
                    let words = if self.asked.end() == Some(QuestionEnd::Answered) { ANSWERED } else { WITHDRAWN };
                    // A terminal that is gone ends the question by itself.
                    let _ = printer.print(format!("{words} Press Enter.\n"));
                }
                said.await
            }
            () = given_up => {
                self.answer(ApprovalAnswer::NobodyThere);
                return false;
            }
        };
        let is_interrupted = matches!(said, Ok(Err(ReadlineError::Interrupted)));
        self.answer(said.map_or(ApprovalAnswer::Deny, |said| {
            said.unwrap_or(ApprovalAnswer::Deny)
        }));
        is_interrupted
    }

    /// Everything above the prompt.
    pub(super) fn words(&self, size: Size) -> String {
        question::words(&self.request, size)
    }

    /// Waits until nobody waits for the answer any more, and says why.
    pub(super) async fn ended(&self) -> &'static str {
        self.asked.ended().await;
        if self.asked.end() == Some(QuestionEnd::Answered) {
            ANSWERED
        } else {
            WITHDRAWN
        }
    }

    /// Hands the answer over.
    pub(crate) fn answer(self, answer: ApprovalAnswer) {
        // The call may have been cancelled meanwhile; then nobody waits for the answer.
        self.asked.answer(answer);
    }
}

/// What is told where something was typed that is no answer, or that is not on offer.
pub(super) const UNCLEAR: &str = "That is no answer. Type y, c, a or n, then Enter.";

/// What is told where a question stands whose asker is gone.
const WITHDRAWN: &str = "This question is withdrawn: the call was cancelled.";

/// What is told where a question stands that somebody else has answered.
const ANSWERED: &str = "Somebody else has answered this question.";

fn ask(
    request: &ApprovalRequest,
    give: oneshot::Sender<Printer>,
) -> rustyline::Result<ApprovalAnswer> {
    let unclear = |line: &str| {
        (!line.trim().is_empty() && meaning(line, request).is_none()).then_some(UNCLEAR)
    };
    output::ask_with(|size| question::words(request, size), PROMPT, give, unclear)
        .map(|line| meaning(&line, request).unwrap_or(ApprovalAnswer::Deny))
}

/// What a person or a program says: for how long, and for what, as in `always program` or `ap`. `None` where it is neither a
/// clear yes nor a no, or asks for what is not on offer.
pub(crate) fn meaning(words: &str, request: &ApprovalRequest) -> Option<ApprovalAnswer> {
    let words = words.trim().to_ascii_lowercase();
    let (scope, covers) = match words.split_once(' ') {
        Some((scope, covers)) => (scope, covers.trim()),
        None if words.len() == 2 && words.is_ascii() && words != "no" => words.split_at(1),
        None => (words.as_str(), "call"),
    };
    let scope = match scope {
        "n" | "no" | "deny" => return Some(ApprovalAnswer::Deny),
        "y" | "yes" | "once" | "allow" if covers == "call" => return Some(ApprovalAnswer::ONCE),
        "c" | "conversation" => Scope::Conversation,
        "a" | "always" => Scope::Always,
        _ => return None,
    };
    let covers = match covers {
        "call" => Covers::Call,
        "p" | "program" => Covers::Program,
        "t" | "tool" => Covers::Tool,
        _ => return None,
    };
    let is_offered = covers == Covers::Call || request.is_offered(covers);
    is_offered.then_some(ApprovalAnswer::Allow { scope, covers })
}

#[cfg(test)]
mod tests {
    use goondan::ids::InstanceId;
    use goondan::ports::approval::Offer;

    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        let offers = [Covers::Call, Covers::Program]
            .map(|covers| Offer {
                covers,
                commands: Vec::new(),
            })
            .to_vec();
        let request = ApprovalRequest {
            id: "1".to_owned(),
            instance: InstanceId::new("a", "main"),
            trace_id: String::new(),
            tool_call_id: "c".to_owned(),
            tool_name: "bash__exec".to_owned(),
            arguments: Default::default(),
            preview: None,
            reason: None,
            offers,
        };
        let meaning = |words| meaning(words, &request);
        let allow = |scope, covers| Some(ApprovalAnswer::Allow { scope, covers });
        assert_eq!(
            (meaning("y"), meaning(" YES ")),
            (Some(ApprovalAnswer::ONCE), Some(ApprovalAnswer::ONCE))
        );
        assert_eq!(meaning("c"), allow(Scope::Conversation, Covers::Call));
        assert_eq!(meaning("Always"), allow(Scope::Always, Covers::Call));
        assert_eq!(meaning("ap"), allow(Scope::Always, Covers::Program));
        assert_eq!(
            meaning("conversation program"),
            allow(Scope::Conversation, Covers::Program)
        );
        assert!(
            ["n", "no", "deny"]
                .iter()
                .all(|word| meaning(word) == Some(ApprovalAnswer::Deny))
        );
        // A tool is not on offer.
        let unclear = [
            "",
            "yep",
            "ay",
            "yp",
            "at",
            "always tool",
            "once program",
            "always all",
            "ä",
            "pa",
        ];
        assert!(unclear.iter().all(|word| meaning(word).is_none()));
    }
}
