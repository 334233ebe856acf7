//! Model clients behind the engine's model port: real providers, the scripted model, recorded traffic.
//!
//! [`Providers`] makes a client from a Model resource by its `provider`; [`PROVIDERS`] lists what it knows.
//! [`scripted`] answers from a script and [`replay`] records traffic and plays it back; both run without a key and
//! without a network.
//!
//! This crate deliberately does not know: tools, agents, where conversations are kept, or when to ask again. It asks
//! once, says what kind of failure it met and how long the provider wants to be left alone; retries are the engine's.

mod attach;
mod convert;
mod error;
mod files;
mod live;
mod providers;
pub mod replay;
pub mod scripted;
mod table;
mod wire;

pub use files::files_of;
pub use providers::{Providers, missing_key, model_problem};
pub use replay::{Mask, record};
pub use scripted::ScriptedFactory;
pub use table::{PROVIDERS, Provider, provider, similar_providers};
pub use wire::Wire;

#[cfg(test)]
mod testing;
