//! Real providers. OpenAI's chat completions have a client of our own ([`chat`]), all other formats go through genai
//! ([`genai_client`]). Both share how providers are reached and what is said when one fails.

mod calls;
mod chat;
mod embeddings;
mod failure;
mod genai_client;
mod http;
mod ids;
mod key;
mod limits;
mod meter;
mod retry_after;
mod settings;
mod signatures;
mod stream;
mod target;

use std::sync::Arc;

use genai::adapter::AdapterKind;
use goondan_core::ports::model::{ModelClient, ModelError};
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource};

pub(crate) use http::Http;
pub(crate) use signatures::Signatures;

use crate::table::{Address, Provider};
use crate::wire::Wire;
use chat::ChatClient;
use failure::Caller;
use genai_client::GenaiClient;
use settings::Settings;
use target::Target;

/// A client for what `model` says. Nothing is connected.
pub(crate) fn client(
    http: &Http,
    model: &Resource<Model>,
    provider: &Provider,
    (adapter, address): (AdapterKind, Address),
    environment: &Environment,
) -> Result<Arc<dyn ModelClient>, ModelError> {
    let settings = Settings::of(model, environment)?;
    let key = key::find(model, provider, environment)?;
    let target = Target::of(model, adapter, address, &settings, key.value.clone())?;
    let caller = Caller::new(model, provider, key, &settings);
    let takes_schemas = provider.takes_schemas(target.wire());
    Ok(match target.wire() {
        Wire::Chat => Arc::new(ChatClient::new(
            http,
            target,
            settings,
            caller,
            takes_schemas,
        )),
        _ => Arc::new(GenaiClient::new(
            http,
            target,
            settings,
            caller,
            takes_schemas,
        )),
    })
}

/// That nobody knows where a Model is reached.
pub(crate) fn address_problem(
    model: &Resource<Model>,
    adapter: AdapterKind,
    address: Address,
) -> Option<ModelError> {
    // What stands in variables is a matter of the machine.
    let settings = Settings::of(model, &Environment::default()).ok()?;
    Target::of(model, adapter, address, &settings, None).err()
}

/// That a Model's key is not set.
pub(crate) fn missing_key(
    model: &Resource<Model>,
    provider: &Provider,
    environment: &Environment,
) -> Option<ModelError> {
    key::find(model, provider, environment).err()
}
