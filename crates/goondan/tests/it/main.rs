//! The library as a program that embeds it sees it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod compatibility;
mod duties;
mod embedded_tools;
mod examples;
mod floods;
mod generations;
mod logging;
#[cfg(unix)]
mod modules;
mod startability;
mod telemetry;
mod tracing;
mod watch;
