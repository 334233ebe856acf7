//! Approval requests of tools (rule S1).

mod request_layout;

use std::collections::VecDeque;
use std::sync::Arc;

use goondan::ports::approval::{
    ApprovalAnswer, ApprovalCoverage, ApprovalDuration, ApprovalRequest, ApproveAll, Approver,
};
use goondan::{ApprovalBroker, ApprovalEnd, ApprovalListener};
use rustyline::error::ReadlineError;
use tokio::sync::oneshot;

pub(super) use self::request_layout::APPROVAL_PROMPT;
use crate::output::{self, CommandOutput, PromptPrinter, TerminalSize};

/// Pending approval requests. None ever arrives if no user can answer.
pub(crate) struct PendingApprovals {
    listener: Option<ApprovalListener>,
    /// Requests that were announced and postponed.
    put_off: VecDeque<PendingApproval>,
}

/// Approval request that a user can answer.
pub(crate) struct PendingApproval {
    pub(crate) request: Arc<ApprovalRequest>,
    asked: goondan::ApprovalHandle,
}

/// Party that can answer approval requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalResponder {
    /// The user at the terminal, if there is one.
    Terminal,
    /// The program that writes lines to standard input, while it is open.
    Lines,
    /// Clients of the server, whenever they connect.
    Clients,
}

/// Returns the approver. With `--yes` it approves everything, otherwise it asks broker listeners.
pub(crate) fn approver(
    yes: bool,
    responder: ApprovalResponder,
) -> (Arc<dyn Approver>, ApprovalBroker, PendingApprovals) {
    let broker = ApprovalBroker::default();
    let at_terminal = || CommandOutput::stdin_is_terminal() && CommandOutput::stderr_is_terminal();
    let listens = match responder {
        ApprovalResponder::Terminal => at_terminal(),
        ApprovalResponder::Lines => true,
        ApprovalResponder::Clients => false,
    };
    let questions = PendingApprovals {
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

impl PendingApprovals {
    /// Waits for the next new request; `None` if none can arrive.
    pub(crate) async fn next(&mut self) -> Option<PendingApproval> {
        let asked = self.listener.as_mut()?.next().await?;
        Some(PendingApproval {
            request: Arc::clone(&asked.request),
            asked,
        })
    }

    /// Returns whether a user can be asked.
    pub(crate) fn can_receive(&self) -> bool {
        self.listener.is_some()
    }

    /// Stops listening, because no user can answer any more.
    pub(crate) fn leave(&mut self) {
        self.listener = None;
        self.put_off.clear();
    }

    /// Postpones a request while the user types.
    pub(crate) fn postpone(&mut self, question: PendingApproval) {
        self.put_off.push_back(question);
    }

    /// Returns the first postponed request.
    pub(crate) fn take_postponed(&mut self) -> Option<PendingApproval> {
        self.put_off.pop_front()
    }
}

impl PendingApproval {
    /// Returns whether the answer is obsolete: the call was cancelled, or another client answered.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.asked.end().is_some()
    }

    /// Shows the request and reads the answer; an empty line denies.
    /// If the request is withdrawn during that, a notice is printed and the typed line is ignored.
    /// Once `given_up` completes, the answer is `NobodyThere`, and the prompt stays until the
    /// command ends. Returns whether the user typed Ctrl-C, which also denies.
    pub(crate) async fn ask_user(self, given_up: impl Future<Output = ()>) -> bool {
        if self.is_withdrawn() {
            return false;
        }
        let (request, (give, printer)) = (Arc::clone(&self.request), oneshot::channel());
        // The result is an error after Ctrl-C, after Ctrl-D and if the terminal was closed.
        let line = tokio::task::spawn_blocking(move || ask(&request, give));
        let asked = &self.asked;
        let line = async {
            let mut line = std::pin::pin!(line);
            tokio::select! {
                line = &mut line => return line,
                () = asked.ended() => {}
            }
            if let Ok(mut printer) = printer.await {
                // A closed terminal ends the prompt anyway.
                let _ = printer.print(format!("{} Press Enter.\n", end_notice(asked)));
            }
            line.await
        };
        // A stop withdraws the request too, and a user may never press Enter.
        let line = tokio::select! {
            biased;
            () = given_up => None,
            line = line => Some(line),
        };
        let Some(line) = line else {
            self.answer(ApprovalAnswer::NobodyThere);
            return false;
        };
        let is_interrupted = matches!(line, Ok(Err(ReadlineError::Interrupted)));
        self.answer(line.map_or(ApprovalAnswer::Deny, |line| {
            line.unwrap_or(ApprovalAnswer::Deny)
        }));
        is_interrupted
    }

    /// Returns the text above the prompt.
    pub(super) fn words(&self, size: TerminalSize) -> String {
        request_layout::words(&self.request, size)
    }

    /// Waits until the answer is obsolete, and returns the reason.
    pub(super) async fn ended(&self) -> &'static str {
        self.asked.ended().await;
        end_notice(&self.asked)
    }

    /// Answers the request. Has no effect if the call was cancelled.
    pub(crate) fn answer(self, answer: ApprovalAnswer) {
        // If the call was cancelled, the answer is dropped.
        self.asked.answer(answer);
    }
}

/// Notice after a line that is not an answer or not on offer.
pub(super) const UNCLEAR_NOTICE: &str = "That is not an answer. Type y, c, a or n, then Enter.";

/// Notice about an open request whose call was cancelled.
const WITHDRAWN_NOTICE: &str = "This approval request is withdrawn: the call was cancelled.";

/// Notice about an open request that another client answered.
const ANSWERED_NOTICE: &str = "Another client has answered this approval request.";

/// Shows the request on the terminal and reads lines until one is an answer. `give` receives a
/// printer for notices during the prompt.
fn ask(
    request: &ApprovalRequest,
    give: oneshot::Sender<PromptPrinter>,
) -> rustyline::Result<ApprovalAnswer> {
    let unclear = |line: &str| {
        (!line.trim().is_empty() && parse_answer(line, request).is_none()).then_some(UNCLEAR_NOTICE)
    };
    output::ask_with(
        |size| request_layout::words(request, size),
        APPROVAL_PROMPT,
        give,
        unclear,
    )
    .map(|line| parse_answer(&line, request).unwrap_or(ApprovalAnswer::Deny))
}

/// Returns the notice about a request that ended before its answer.
fn end_notice(asked: &goondan::ApprovalHandle) -> &'static str {
    match asked.end() {
        Some(ApprovalEnd::Answered) => ANSWERED_NOTICE,
        _ => WITHDRAWN_NOTICE,
    }
}

/// Parses an answer: a scope and what it covers, such as `always program` or `ap`.
/// Returns `None` if it is unclear or not on offer.
pub(crate) fn parse_answer(text: &str, request: &ApprovalRequest) -> Option<ApprovalAnswer> {
    let text = text.trim().to_ascii_lowercase();
    let (scope, covers) = match text.split_once(' ') {
        Some((scope, covers)) => (scope, covers.trim()),
        None if text.len() == 2 && text.is_ascii() && text != "no" => text.split_at(1),
        None => (text.as_str(), "call"),
    };
    let scope = match scope {
        "n" | "no" | "deny" => return Some(ApprovalAnswer::Deny),
        "y" | "yes" | "once" | "allow" if covers == "call" => return Some(ApprovalAnswer::ONCE),
        "c" | "conversation" => ApprovalDuration::Conversation,
        "a" | "always" => ApprovalDuration::Always,
        _ => return None,
    };
    let covers = match covers {
        "call" => ApprovalCoverage::Call,
        "p" | "program" => ApprovalCoverage::Program,
        "t" | "tool" => ApprovalCoverage::Tool,
        _ => return None,
    };
    let is_offered = covers == ApprovalCoverage::Call || request.is_offered(covers);
    is_offered.then_some(ApprovalAnswer::Allow { scope, covers })
}

#[cfg(test)]
mod tests {
    use goondan::ids::InstanceId;
    use goondan::ports::approval::ApprovalOffer;

    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        let offers = [ApprovalCoverage::Call, ApprovalCoverage::Program]
            .map(|covers| ApprovalOffer {
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
        let meaning = |words| parse_answer(words, &request);
        let allow = |scope, covers| Some(ApprovalAnswer::Allow { scope, covers });
        assert_eq!(
            (meaning("y"), meaning(" YES ")),
            (Some(ApprovalAnswer::ONCE), Some(ApprovalAnswer::ONCE))
        );
        assert_eq!(
            meaning("c"),
            allow(ApprovalDuration::Conversation, ApprovalCoverage::Call)
        );
        assert_eq!(
            meaning("Always"),
            allow(ApprovalDuration::Always, ApprovalCoverage::Call)
        );
        assert_eq!(
            meaning("ap"),
            allow(ApprovalDuration::Always, ApprovalCoverage::Program)
        );
        assert_eq!(
            meaning("conversation program"),
            allow(ApprovalDuration::Conversation, ApprovalCoverage::Program)
        );
        assert!(
            ["n", "no", "deny"]
                .iter()
                .all(|word| meaning(word) == Some(ApprovalAnswer::Deny))
        );
        // The request does not offer `tool`.
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
