//! Model clients for the engine's model port: live providers, the scripted model, recorded traffic.
//!
//! [`ModelProviders`] makes a client from a Model resource by its `provider`; [`providers`] lists all providers.
//! [`scripted`] answers from a script and [`replay`] records traffic and plays it back; both run without a key and
//! without a network.
//!
//! The crate contains no tools, agents or storage, and never retries: it calls the model once and reports the kind of
//! failure and the wait that the provider asks for. The engine decides about retries.

mod answer;
mod client;
mod embeddings;
mod errors;
mod files;
mod formats;
mod provider;
pub mod replay;
pub mod scripted;
mod transport;

pub use files::files_of;
pub use goondan_spec::sent_schema::ProviderWireFormat;
pub use provider::{
    ModelProvider, ModelProviders, missing_key, model_problem, provider, providers,
    similar_providers,
};
pub use replay::{CassetteMask, record};
pub use scripted::ScriptedFactory;

#[cfg(test)]
mod testing;
