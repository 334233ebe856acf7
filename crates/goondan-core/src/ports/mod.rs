//! Ports: interfaces between the engine and its environment. Each port is one file; adapters
//! implement it in other crates.

pub mod approval;
pub mod capabilities;
pub mod clock;
pub mod cluster;
pub mod extension;
pub mod journal;
pub mod model;
pub mod reload;
pub mod store;
pub mod tool;
mod tool_outcomes;
pub mod tracing;
