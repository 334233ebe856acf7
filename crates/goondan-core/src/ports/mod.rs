//! What the engine needs from the world. Each port is one file; adapters implement it elsewhere.

pub mod approval;
pub mod clock;
pub mod cluster;
pub mod extension;
pub mod journal;
pub mod model;
pub mod powers;
pub mod reload;
pub mod store;
pub mod tool;
pub mod tracing;
