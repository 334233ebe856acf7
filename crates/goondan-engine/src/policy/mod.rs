//! Permission policies of agents for tool calls (rules S1, S1b).
//!
//! [`decide()`] applies the policy of one agent to a call. The strictest decision of an agent and
//! its callers applies. `shell` parses command lines. [`asking`] sends approval requests, [`reach`]
//! computes the possible scope of an approval, and [`grants`] stores approvals.

mod approval_request;
mod decide;
mod grant_scope;
pub(crate) mod grants;
mod hard_links;
mod import_places;
mod paths;
pub(crate) mod permission;
pub(crate) mod protected_paths;
pub(crate) mod referenced_files;
mod resolved_paths;
mod shell_words;
mod started_places;
pub(crate) mod untrusted_content;

pub use goondan_core::redact;

pub use decide::{
    DecisionReason, PartDecision, PolicyDecision, PolicyQuestion, decide, opens_network, stricter,
};
pub use paths::PathArguments;
pub use protected_paths::PathEnvironment;
pub use resolved_paths::{ApprovalReason, ResolvedPaths};

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod attacks_by_option;
#[cfg(test)]
mod attacks_by_path_style;
#[cfg(test)]
mod tests;
