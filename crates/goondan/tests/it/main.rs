//! Tests of the public library API.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod compatibility;
mod duties;
mod embedded_tools;
mod examples;
mod generations;
#[cfg(unix)]
mod handler_reload;
mod limits;
mod logging;
mod startability;
mod telemetry;
mod trace_propagation;
mod watch;
