//! Reproduces server faults that users of MCP clients have reported, and checks their effects.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod faults;
mod lines;
mod prompts;
mod resources;
mod web;
mod web_faults;
