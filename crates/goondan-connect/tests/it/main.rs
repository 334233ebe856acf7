//! Connections of a running swarm, with mock platforms.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod approvals;
mod cli;
mod cron;
mod deliveries;
mod discord;
mod files;
mod github;
#[cfg(unix)]
mod library;
mod mock_platform;
#[cfg(unix)]
#[path = "../../../../tests/src/nested_cargo.rs"]
mod nested_cargo;
mod platform_formats;
mod platform_tools;
mod platform_updates;
mod reload;
mod robustness;
mod script;
mod slack;
mod socket;
mod stream;
mod support;
mod telegram;
mod uploads;
mod webhook;
