//! The engine: accepts events, delivers them to agent instances, and runs their turns.
//!
//! It does not depend on files, HTTP, dynamic libraries, file watching, or the set of tools and
//! providers. It uses them through the ports of `goondan-core`.
//!
//! Start reading at [`runtime::SwarmRuntime`]. [`plan`] creates a generation from a bundle.
//! [`delivery`] owns the instances and delivers events to them. [`turn`] runs one turn from its
//! event to its durable end, inside the [`middleware`]. [`tooling`] runs tool calls, and
//! [`policy`] decides which of them may run.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test reads its own files")
)]

mod activity;
mod cluster;
pub mod delivery;
pub mod engine;
pub mod middleware;
pub mod plan;
pub mod policy;
pub mod runtime;
pub mod tooling;
pub mod turn;
mod usage_increment;
