//! The library as a program that embeds it sees it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod examples;
mod floods;
mod generations;
mod logging;
#[cfg(unix)]
mod modules;
mod telemetry;
mod tracing;
mod watch;
