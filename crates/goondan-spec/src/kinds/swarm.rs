//! `kind: Swarm`.

use std::time::Duration;

use crate::ResourceId;

/// Agents that run together.
#[derive(Debug, Clone, PartialEq)]
pub struct Swarm {
    /// Who gets an input that names nobody; one of `agents`.
    pub entry_agent: ResourceId,
    /// At least one.
    pub agents: Vec<ResourceId>,
    /// The name of the workspace; `metadata.name` by default.
    pub instance_key: String,
    /// Limits.
    pub policy: Policy,
}

/// What a swarm may use up.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Default 32.
    pub max_steps_per_turn: u32,
    /// Default 10,000.
    pub max_instances: usize,
    /// Default 256.
    pub max_concurrent_turns: usize,
    /// Default 16.
    pub max_call_depth: u32,
    /// When idle instances go.
    pub lifecycle: Lifecycle,
    /// How long a shutdown waits for running turns (default 300 s).
    pub shutdown_grace: Duration,
    /// Stops a turn or the swarm with a clear reason.
    pub budget: Budget,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            max_steps_per_turn: 32,
            max_instances: 10_000,
            max_concurrent_turns: 256,
            max_call_depth: 16,
            lifecycle: Lifecycle::default(),
            shutdown_grace: Duration::from_secs(300),
            budget: Budget::default(),
        }
    }
}

/// When idle instances go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// Idle for that long: the instance is retired.
    pub ttl: Option<Duration>,
    /// Retired for that long: its folder is deleted.
    pub gc_grace: Option<Duration>,
}

/// Limits on one run of a swarm; absent means none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budget {
    /// Tokens over all turns.
    pub max_tokens: Option<u64>,
    /// Steps over all turns.
    pub max_steps: Option<u64>,
    /// Wall time.
    pub max_duration: Option<Duration>,
}
