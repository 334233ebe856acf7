//! What an agent's tools may do (rules S1, S1b).
//!
//! [`decide()`] says what the policy of one agent says about a call; the strictest of an agent and its callers holds.
//! `shell` takes command lines to pieces. [`asking`] puts questions;
//! [`reach`] says what an answer may cover, and [`grants`] keeps it.

mod asking;
mod decide;
pub(crate) mod grants;
pub(crate) mod named;
mod paths;
pub(crate) mod permission;
mod places;
pub(crate) mod protected;
mod reach;
pub(crate) mod taint;
mod unquoted;

pub use goondan_core::redact;

pub use decide::{
    Because, Decision, PartDecision, PolicyQuestion, decide, opens_network, stricter,
};
pub use paths::PathArguments;
pub use places::{AskedAbout, Places};
pub use protected::Ground;

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod attacks_by_option;
#[cfg(test)]
mod styles;
#[cfg(test)]
mod tests;
