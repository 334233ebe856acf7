//! Tests the language server through its messages, without a separate process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod client;
mod completion;
mod diagnostics;
mod edits;
mod hover;
mod invalid_messages;
mod navigation;
mod quick_fixes;
mod rename;
