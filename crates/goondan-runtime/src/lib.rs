//! The engine: routes events to agent instances and runs their turns and steps.
//!
//! It deliberately does not know HTTP, dynamic libraries, file watching, or which tools and providers exist: those
//! reach it through ports (`ports::{tool, model, store, journal, clock, reload}`).
//!
//! Start reading at [`runtime::Runtime`]; then [`plan`] (what a generation is), [`orchestrator`] (who owns the instances),
//! `instance` → [`turn`] → [`step`] → [`dispatch`] (one turn from its event to its durable end).

mod agents;
mod budget;
pub mod bus;
pub mod conversation;
mod dead_letters;
pub mod dispatch;
pub mod engine;
pub mod event;
mod excerpt;
pub mod footing;
mod grants;
pub mod history;
pub mod ids;
pub mod inbound;
mod instance;
pub mod kept;
mod life;
pub mod limits;
pub mod message;
pub mod middleware;
mod model_call;
pub mod narrowing;
pub mod orchestrator;
pub mod path_style;
mod permission;
pub mod plan;
pub mod policy;
pub mod ports;
mod powers;
pub mod private;
mod protected;
pub mod real_path;
pub mod redact;
pub mod registry;
mod reporter;
pub mod reserved;
pub mod responses;
mod routing;
pub mod runtime;
pub mod schedule;
pub mod schema;
mod schema_difference;
pub mod step;
pub mod store;
mod taint;
pub mod turn;

pub use goondan_spec as spec;
pub use goondan_spec::JsonObject;
