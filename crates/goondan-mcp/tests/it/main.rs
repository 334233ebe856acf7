//! What servers do wrong, as users of MCP clients have reported it, and what becomes of it here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod faults;
mod lines;
mod web;
mod web_faults;
