//! Tests complete workflows: packing, publishing to a registry in this process, version selection,
//! installation, and attacks.

#![allow(
    clippy::unwrap_used,
    reason = "a test may end with a panic, in its helpers too"
)]

mod attacks;
mod fake_registry;
mod installation;
mod projects;
mod registries;
