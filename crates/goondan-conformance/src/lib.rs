//! Runs YAML conformance cases against a swarm.
