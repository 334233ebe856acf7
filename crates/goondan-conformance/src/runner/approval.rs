//! The answers that a case gives to approval requests.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goondan::ports::approval::{ApprovalAnswer, ApprovalRequest, Approver, Scope};

use crate::case::step::{Answer, Approve};

/// Gives each answer to the next request that it fits. Without one, nobody is there to ask. Clones share the answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Answers(Arc<Mutex<Vec<Approve>>>);

impl Answers {
    /// Keeps `answer` for the next request that it fits.
    pub(super) fn keep(&self, answer: Approve) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
    }

    fn take(&self, tool: &str) -> Option<Answer> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = answers.iter().position(|answer| answer.tool.as_deref().is_none_or(|wanted| wanted == tool))?;
        Some(answers.remove(fitting).answer)
    }
}

#[async_trait]
impl Approver for Answers {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        match self.take(&request.tool_name) {
            Some(Answer::Allow | Answer::Once) => ApprovalAnswer::Allow { scope: Scope::Once },
            Some(Answer::Conversation) => ApprovalAnswer::Allow { scope: Scope::Conversation },
            Some(Answer::Always) => ApprovalAnswer::Allow { scope: Scope::Always },
            Some(Answer::Deny) => ApprovalAnswer::Deny,
            Some(Answer::Wait) => std::future::pending().await,
            None => ApprovalAnswer::NobodyThere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_waits_for_its_tool_and_is_used_once() {
        let answers = Answers::default();
        answers.keep(Approve { tool: Some("bash__exec".into()), answer: Answer::Deny });
        answers.keep(Approve { tool: None, answer: Answer::Allow });
        assert_eq!(answers.take("fs__write"), Some(Answer::Allow));
        assert_eq!(answers.take("fs__write"), None);
        assert_eq!(answers.take("bash__exec"), Some(Answer::Deny));
        assert_eq!(answers.take("bash__exec"), None);
    }
}
