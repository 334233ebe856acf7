//! How events reach agent instances: one task owns the instances and decides whose turn begins.

pub mod bus;
pub(crate) mod dead_letters;
pub(crate) mod ears;
pub(crate) mod lifecycle;
pub mod orchestrator;
pub mod responses;
pub(crate) mod routing;
pub mod schedule;
