//! The engine: takes events in, delivers them to agent instances, and runs their turns.
//!
//! It deliberately does not know files, HTTP, dynamic libraries, file watching, or which tools and providers exist: those
//! reach it through the ports of `goondan-core`.
//!
//! Start reading at [`runtime::Runtime`]. [`plan`] makes a generation from a bundle; [`delivery`] owns the instances and brings
//! events to them; [`turn`] runs one turn from its event to its durable end, inside the [`middleware`]; [`tooling`] runs its
//! tool calls; [`policy`] decides which of those may run.

mod cluster;
pub mod delivery;
pub mod engine;
mod life;
pub mod middleware;
pub mod plan;
pub mod policy;
pub mod runtime;
pub mod tooling;
pub mod turn;
