//! Tools of agents: registry, dispatch of calls, and capabilities of running calls.

pub(crate) mod agents;
pub(crate) mod call_arguments;
mod call_context;
pub(crate) mod call_results;
mod conversation_reach;
pub mod dispatch;
pub(crate) mod excerpt;
pub(crate) mod host_capabilities;
mod live_output;
pub mod registry;
pub(crate) mod reporter;
pub(crate) mod schema_difference;
pub(crate) mod skills;
pub(crate) mod state_records;
pub(crate) mod tool_context;
mod workdir;
