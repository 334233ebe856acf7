//! Tools as an agent has them: which there are, how one call runs, and what a running call may ask of the swarm.

pub(crate) mod agents;
pub mod dispatch;
pub(crate) mod excerpt;
pub(crate) mod powers;
pub mod registry;
pub(crate) mod reporter;
pub(crate) mod schema_difference;
pub(crate) mod skills;
mod workdir;
