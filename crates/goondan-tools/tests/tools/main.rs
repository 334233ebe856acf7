//! Tests the built-in tools through their public interface: opened from a Tool resource and called
//! like the engine does.

#![allow(clippy::disallowed_methods, reason = "a test reads its own files")]
#![allow(clippy::unwrap_used)]

mod agents;
#[cfg(unix)]
mod attacks;
#[cfg(unix)]
mod attacks_network;
mod bash;
mod chat;
mod custom_tools;
mod declarations;
mod discord;
mod executable;
mod file_changes;
mod file_system;
mod fs;
mod github;
mod http_fetch;
mod introspection;
mod json_query;
mod memory;
mod messaging;
mod mock_engine;
mod rate_limits;
mod registry;
mod robustness;
mod runtime;
mod sessions;
mod squad;
mod text_transform;
mod todo;
mod wait;
mod web;
