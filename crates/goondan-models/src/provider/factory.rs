//! Clients for Model resources, by their provider.

use std::path::Path;
use std::sync::Arc;

use goondan_core::ports::model::{ModelClient, ModelError, ModelFactory};
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource};

use super::{ProviderFormat, provider, providers, similar_providers};
use crate::client;
use crate::errors::configuration_error;
use crate::replay::CassettePlayers;
use crate::scripted::PlayingScripts;
use crate::transport::HttpClients;

/// Factory of clients for all providers.
///
/// Making a client is cheap: it connects to nothing, and TLS is set up with the first call. Keep one factory for the
/// life of the program: its clients share connections, and scripts and recordings continue after a reload.
#[derive(Default)]
pub struct ModelProviders {
    http: HttpClients,
    scripts: PlayingScripts,
    cassettes: CassettePlayers,
}

impl ModelProviders {
    /// Returns a factory.
    pub fn new() -> Self {
        ModelProviders::default()
    }
}

impl ModelFactory for ModelProviders {
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let provider = provider(&model.spec.provider).ok_or_else(|| unknown_provider(model))?;
        match provider.format() {
            ProviderFormat::Scripted => self.scripts.client(model, bundle_root),
            ProviderFormat::Replay => self.cassettes.client(model, bundle_root, environment),
            _ => client::client(&self.http, model, provider, environment),
        }
    }
}

/// Returns an error of `model` that is independent of the machine: an unknown provider, an invalid script or
/// recording, or a missing endpoint. Opens no connection.
pub fn model_problem(model: &Resource<Model>, bundle_root: &Path) -> Option<ModelError> {
    let Some(provider) = provider(&model.spec.provider) else {
        return Some(unknown_provider(model));
    };
    match provider.format() {
        ProviderFormat::Scripted => PlayingScripts::default().client(model, bundle_root).err(),
        ProviderFormat::Replay => CassettePlayers::default()
            .client(model, bundle_root, &Environment::default())
            .err(),
        _ => client::endpoint_problem(model, provider),
    }
}

/// Returns the error of a Model whose key is not set in `environment`.
pub fn missing_key(model: &Resource<Model>, environment: &Environment) -> Option<ModelError> {
    let provider = provider(&model.spec.provider).filter(|provider| provider.is_live())?;
    client::missing_key(model, provider, environment)
}

/// Returns the error of a Model with an unknown provider. It suggests similar names.
fn unknown_provider(model: &Resource<Model>) -> ModelError {
    let name = &model.spec.provider;
    let message = format!(
        "{} names the provider `{name}`, which does not exist.",
        model.id
    );
    let provider_names: Vec<_> = providers()
        .iter()
        .map(|provider| provider.name.as_str())
        .collect();
    let suggestion = format!(
        "Use one of: {}. For any other service with OpenAI's format, write `provider: \
        openai-compatible` and its `endpoint`.",
        provider_names.join(", ")
    );
    let similar: Vec<_> = similar_providers(name)
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    match similar.as_slice() {
        [] => configuration_error(message, suggestion),
        names => configuration_error(
            message,
            format!("Did you mean {}? {suggestion}", names.join(" or ")),
        ),
    }
    .within("spec.provider", None)
}
