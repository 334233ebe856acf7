//! What an agent's tools may do (rules S1, S1b).
//!
//! [`decide()`] says what the policy of one agent says about a call; the strictest of an agent and its callers holds.
//! `shell` takes command lines to pieces. What is asked, and who answers, is in `approval`.

mod approval;
mod decide;
pub mod shell;

pub use approval::{ApprovalAnswer, ApprovalRequest, ApproveAll, Approver, Headless, SharedApprover};
pub use decide::{Because, Decision, PartDecision, PolicyQuestion, decide, stricter};

#[cfg(test)]
mod tests;
