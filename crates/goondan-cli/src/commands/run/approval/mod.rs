//! Approval requests of tools (rule S1).

mod request_layout;

use std::sync::Arc;

use goondan::ports::approval::{
    ApprovalAnswer, ApprovalCoverage, ApprovalDuration, ApprovalRequest, ApproveAll, Approver,
};
use goondan::{ApprovalBroker, ApprovalEnd, ApprovalListener};

pub(super) use self::request_layout::APPROVAL_PROMPT;
use crate::output::{CommandOutput, TerminalLine, TerminalPrompt, TerminalSize, screen};

/// Pending approval requests. None ever arrives if no user can answer.
pub(crate) struct PendingApprovals {
    listener: Option<ApprovalListener>,
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

/// The approver of a swarm with the receiver of its approval requests.
pub(crate) struct ApprovalSetup {
    pub(crate) approver: Arc<dyn Approver>,
    /// Distributes the requests of the approver to listeners.
    pub(crate) broker: ApprovalBroker,
    /// Requests that the user of this command answers.
    pub(crate) requests: PendingApprovals,
}

/// Creates an approver. With `approves_all` (`--yes`) it approves every request, otherwise
/// `responder` answers the requests.
pub(crate) fn set_up_approvals(approves_all: bool, responder: ApprovalResponder) -> ApprovalSetup {
    let broker = ApprovalBroker::default();
    let user_can_answer = match responder {
        ApprovalResponder::Terminal => {
            CommandOutput::stdin_is_terminal() && CommandOutput::stderr_is_terminal()
        }
        ApprovalResponder::Lines => true,
        ApprovalResponder::Clients => false,
    };
    let mut listener = None;
    if user_can_answer && !approves_all {
        listener = Some(broker.listen());
    }
    let approver: Arc<dyn Approver> = if approves_all {
        Arc::new(ApproveAll)
    } else {
        Arc::new(broker.clone())
    };
    ApprovalSetup {
        approver,
        broker,
        requests: PendingApprovals { listener },
    }
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

    /// Returns true if a user can be asked.
    pub(crate) fn can_receive(&self) -> bool {
        self.listener.is_some()
    }

    /// Stops listening, because no user can answer any more.
    pub(crate) fn leave(&mut self) {
        self.listener = None;
    }
}

impl PendingApproval {
    /// Returns true if the answer is obsolete: the call was cancelled, or another client answered.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.asked.end().is_some()
    }

    /// Shows the request and reads the answer; an empty line denies.
    /// If the request is withdrawn during that, a notice is printed and the typed line is ignored.
    /// Once `given_up` completes, the answer is `NobodyThere`, and the prompt stays until the
    /// command ends. Returns true if the user typed Ctrl-C, which also denies.
    pub(crate) async fn ask_user(self, given_up: impl Future<Output = ()>) -> bool {
        if self.is_withdrawn() {
            return false;
        }
        // A closed terminal shows no prompt.
        let Ok(prompt) =
            TerminalPrompt::open(&self.words(TerminalSize::current()), APPROVAL_PROMPT)
        else {
            self.answer(ApprovalAnswer::Deny);
            return false;
        };
        let (request, asked) = (Arc::clone(&self.request), &self.asked);
        let line = tokio::task::spawn_blocking(move || {
            prompt.read(|line| {
                let is_unclear = !line.trim().is_empty() && parse_answer(line, &request).is_none();
                is_unclear.then_some(UNCLEAR_NOTICE)
            })
        });
        let line = async {
            let mut line = std::pin::pin!(line);
            tokio::select! {
                line = &mut line => return line,
                () = asked.ended() => {}
            }
            // A closed terminal ends the prompt anyway.
            let _ = screen::write_in_prompt(&format!("\n{} Press Enter.\n", end_notice(asked)));
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
        let line = line.map_or(TerminalLine::End, |line| line.unwrap_or(TerminalLine::End));
        let answer = match &line {
            TerminalLine::Text(text) => parse_answer(text, &self.request),
            TerminalLine::Interrupt | TerminalLine::End => None,
        };
        self.answer(answer.unwrap_or(ApprovalAnswer::Deny));
        line == TerminalLine::Interrupt
    }

    /// Returns the text above the prompt.
    pub(super) fn words(&self, size: TerminalSize) -> String {
        request_layout::words(&self.request, size)
    }

    /// Waits until the answer is obsolete, and returns the reason.
    pub(super) async fn wait_until_obsolete(&self) -> &'static str {
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
    fn only_exact_words_answer_an_approval_request() {
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
            default_arguments: Default::default(),
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
