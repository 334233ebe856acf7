//! Tools of agents: registry, dispatch of calls, and capabilities of running calls.

pub(crate) mod agents;
pub mod dispatch;
pub(crate) mod excerpt;
pub(crate) mod host_capabilities;
mod live_output;
pub mod registry;
pub(crate) mod reporter;
pub(crate) mod schema_difference;
pub(crate) mod skills;
mod workdir;
