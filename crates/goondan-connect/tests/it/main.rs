//! Connections of a running swarm, with platforms that stand in for the real ones.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cli;
mod cron;
mod deliveries;
mod discord;
mod files;
mod floods;
mod github;
#[cfg(unix)]
mod library;
#[cfg(unix)]
#[path = "../../../../tests/src/nested_cargo.rs"]
mod nested_cargo;
mod own_channel;
mod platform;
mod published;
mod questions;
mod reload;
mod script;
mod slack;
mod socket;
mod stream;
mod support;
mod telegram;
mod updates;
mod uploads;
mod webhook;
