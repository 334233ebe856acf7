//! What an agent's tools may do (rules S1, S1b).
//!
//! [`decide()`] says what the policy of one agent says about a call; the strictest of an agent and its callers holds.
//! `shell` takes command lines to pieces. What is asked, and who answers, is in `approval`.

mod approval;
mod decide;
pub mod patch;
mod paths;
pub mod shell;

pub use approval::{
    ApprovalAnswer, ApprovalBook, ApprovalRequest, ApproveAll, Approver, Grant, Headless, MemoryBook, Scope,
    SharedApprover,
};
pub use decide::{Because, Containment, Decision, Direct, PartDecision, PolicyQuestion, Road, decide, stricter};
pub use paths::PathArguments;

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod styles;
#[cfg(test)]
mod tests;
