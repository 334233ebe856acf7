//! Runs YAML conformance cases against a swarm.
pub mod matcher;
