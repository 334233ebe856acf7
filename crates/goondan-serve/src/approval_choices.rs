//! Answers to an approval request that a client shows to its user.

use goondan::ports::approval::{ApprovalAnswer, ApprovalCoverage, ApprovalDuration};

/// Choices: id, title and approval answer.
pub(crate) const APPROVAL_CHOICES: [(&str, &str, ApprovalAnswer); 4] = [
    ("once", "Allow once", ApprovalAnswer::ONCE),
    (
        "conversation",
        "Allow in this conversation",
        allow(ApprovalDuration::Conversation),
    ),
    ("always", "Always allow", allow(ApprovalDuration::Always)),
    ("deny", "Deny", ApprovalAnswer::Deny),
];

/// Returns the approval of one call for this duration.
const fn allow(scope: ApprovalDuration) -> ApprovalAnswer {
    ApprovalAnswer::Allow {
        scope,
        covers: ApprovalCoverage::Call,
    }
}

/// Returns the answer that the user chose. Everything except an explicit approval is a denial.
pub(crate) fn chosen_answer(id: Option<&str>) -> ApprovalAnswer {
    let choice = APPROVAL_CHOICES
        .iter()
        .find(|(choice, ..)| Some(*choice) == id);
    choice.map_or(ApprovalAnswer::Deny, |(.., answer)| *answer)
}
