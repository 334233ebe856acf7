//! Answers of a test case to approval requests.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goondan::ports::approval::{
    ApprovalAnswer, ApprovalCoverage, ApprovalDuration, ApprovalRequest, Approver,
};

use crate::case::step::{ApprovalDecision, ApproveStep, DecisionScope};

/// Gives each prepared answer to the next approval request that matches. A request without a
/// matching answer is handled as if no user were present. Clones share the answers.
#[derive(Debug, Clone, Default)]
pub(super) struct ScriptedApprover(Arc<Mutex<Vec<ApproveStep>>>);

impl ScriptedApprover {
    /// Adds an answer for the next request that matches.
    pub(super) fn add_answer(&self, answer: ApproveStep) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(answer);
    }

    /// Takes the first prepared answer that fits the tool; `None` if there is none.
    fn take(&self, tool: &str) -> Option<ApproveStep> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = answers.iter().position(|answer| {
            answer
                .tool
                .as_deref()
                .is_none_or(|expected| expected == tool)
        })?;
        Some(answers.remove(position))
    }
}

#[async_trait]
impl Approver for ScriptedApprover {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let prepared = self.take(&request.tool_name);
        let delay = prepared
            .as_ref()
            .and_then(|answer| answer.delay().ok().flatten());
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        let Some(ApproveStep { answer, covers, .. }) = prepared else {
            return ApprovalAnswer::NobodyThere;
        };
        let allow = |scope| ApprovalAnswer::Allow {
            scope,
            covers: approval_coverage(covers),
        };
        match answer {
            // A scope that is not offered must fail visibly.
            _ if covers != DecisionScope::Call
                && !request.is_offered(approval_coverage(covers)) =>
            {
                ApprovalAnswer::Deny
            }
            ApprovalDecision::Allow | ApprovalDecision::Once => allow(ApprovalDuration::Once),
            ApprovalDecision::Conversation => allow(ApprovalDuration::Conversation),
            ApprovalDecision::Always => allow(ApprovalDuration::Always),
            ApprovalDecision::Deny => ApprovalAnswer::Deny,
            ApprovalDecision::Wait => std::future::pending().await,
        }
    }
}

/// Converts the scope of a prepared answer.
fn approval_coverage(cover: DecisionScope) -> ApprovalCoverage {
    match cover {
        DecisionScope::Call => ApprovalCoverage::Call,
        DecisionScope::Program => ApprovalCoverage::Program,
        DecisionScope::Tool => ApprovalCoverage::Tool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scripted_approval_answer_is_for_one_call_of_its_tool() {
        let answers = ScriptedApprover::default();
        answers.add_answer(ApproveStep {
            tool: Some("bash__exec".into()),
            answer: ApprovalDecision::Deny,
            covers: DecisionScope::Call,
            after: None,
            after_ms: None,
        });
        answers.add_answer(ApproveStep {
            tool: None,
            answer: ApprovalDecision::Allow,
            covers: DecisionScope::Call,
            after: None,
            after_ms: None,
        });
        let take = |tool| answers.take(tool).map(|taken| taken.answer);
        assert_eq!(
            (take("fs__write"), take("fs__write")),
            (Some(ApprovalDecision::Allow), None)
        );
        assert_eq!(
            (take("bash__exec"), take("bash__exec")),
            (Some(ApprovalDecision::Deny), None)
        );
    }
}
