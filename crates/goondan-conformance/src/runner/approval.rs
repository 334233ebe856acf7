//! The answers that a case gives to approval requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use goondan::ports::approval::{ApprovalAnswer, ApprovalRequest, Approver, Covers, Scope};

use crate::case::step::{Answer, Approve, Cover};

/// Gives each answer to the next request that it fits. Without one, nobody is there to ask. Clones share the answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Answers(Arc<Mutex<Vec<Approve>>>);

impl Answers {
    /// Keeps `answer` for the next request that it fits.
    pub(super) fn keep(&self, answer: Approve) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(answer);
    }

    fn take(&self, tool: &str) -> Option<Approve> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = answers
            .iter()
            .position(|answer| answer.tool.as_deref().is_none_or(|wanted| wanted == tool))?;
        Some(answers.remove(fitting))
    }
}

#[async_trait]
impl Approver for Answers {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let kept = self.take(&request.tool_name);
        if let Some(Approve {
            after_ms: reading @ 1..,
            ..
        }) = kept
        {
            tokio::time::sleep(Duration::from_millis(reading)).await;
        }
        let Some(Approve { answer, covers, .. }) = kept else {
            return ApprovalAnswer::NobodyThere;
        };
        let allow = |scope| ApprovalAnswer::Allow {
            scope,
            covers: covered(covers),
        };
        match answer {
            // Whoever wants what is not on offer must see it.
            _ if covers != Cover::Call && !request.is_offered(covered(covers)) => {
                ApprovalAnswer::Deny
            }
            Answer::Allow | Answer::Once => allow(Scope::Once),
            Answer::Conversation => allow(Scope::Conversation),
            Answer::Always => allow(Scope::Always),
            Answer::Deny => ApprovalAnswer::Deny,
            Answer::Wait => std::future::pending().await,
        }
    }
}

fn covered(cover: Cover) -> Covers {
    match cover {
        Cover::Call => Covers::Call,
        Cover::Program => Covers::Program,
        Cover::Tool => Covers::Tool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_waits_for_its_tool_and_is_used_once() {
        let answers = Answers::default();
        answers.keep(Approve {
            tool: Some("bash__exec".into()),
            answer: Answer::Deny,
            covers: Cover::Call,
            after_ms: 0,
        });
        answers.keep(Approve {
            tool: None,
            answer: Answer::Allow,
            covers: Cover::Call,
            after_ms: 0,
        });
        let take = |tool| answers.take(tool).map(|taken| taken.answer);
        assert_eq!(
            (take("fs__write"), take("fs__write")),
            (Some(Answer::Allow), None)
        );
        assert_eq!(
            (take("bash__exec"), take("bash__exec")),
            (Some(Answer::Deny), None)
        );
    }
}
