//! Delivery of events to agent instances: one task owns the instances and decides which turn
//! begins.

pub(crate) mod access_end;
pub mod bus;
pub(crate) mod conversation_titles;
pub(crate) mod extension_events;
pub(crate) mod failed_events;
pub(crate) mod lifecycle;
pub mod orchestrator;
pub mod responses;
pub(crate) mod routing;
pub mod schedule;
