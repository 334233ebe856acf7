//! Reproduces server faults that users of MCP clients have reported, and checks their effects.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod http_faults;
mod http_server;
mod prompts;
mod resources;
mod stdio_faults;
mod stdio_server;
