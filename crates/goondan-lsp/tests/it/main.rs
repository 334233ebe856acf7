//! The language server as a client sees it, without a process around it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod actions;
mod client;
mod completion;
mod edits;
mod garbage;
mod hover;
mod places;
mod publish;
mod rename;
