//! Packages on their whole way: packed, published to a registry in this process, chosen, installed, and attacked on the way.

#![allow(
    clippy::unwrap_used,
    reason = "a test may end with a panic, in its helpers too"
)]

mod attacks;
mod fake;
mod installing;
mod projects;
mod registries;
