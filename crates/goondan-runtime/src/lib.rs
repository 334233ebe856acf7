//! The engine: routes events to agent instances and runs their turns and steps.
//!
//! It deliberately does not know HTTP, dynamic libraries, file watching, or which tools and providers exist: those
//! reach it through five ports (`ports::{tool, model, store, journal, clock}`).

pub mod event;
pub mod ids;
pub mod message;
pub mod ports;

pub use goondan_spec as spec;
pub use goondan_spec::JsonObject;
