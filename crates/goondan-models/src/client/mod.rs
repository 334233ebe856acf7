//! Clients of live providers.

mod endpoint;
mod failure;
mod key;
mod live;
mod recorded;
mod request;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use request::RequestBuilder;

use std::sync::Arc;

use goondan_core::ports::model::{ModelClient, ModelError};
use goondan_spec::kinds::Model;
use goondan_spec::sent_schema::ProviderWireFormat;
use goondan_spec::{Environment, Resource};

use crate::formats::anthropic::AnthropicFormat;
use crate::formats::chat::ChatFormat;
use crate::formats::converse::ConverseFormat;
use crate::formats::gemini::GeminiFormat;
use crate::formats::ollama::OllamaFormat;
use crate::formats::responses::ResponsesFormat;
use crate::formats::{ModelTarget, WireFormat};
use crate::provider::ModelProvider;
use crate::transport::HttpClients;

use endpoint::ModelEndpoint;
use failure::FailureContext;
use live::LiveClient;
use settings::ClientSettings;

/// Returns a client for `model`. It connects to nothing yet.
///
/// # Errors
/// The key or a header is missing, or the endpoint is not a URL.
pub(crate) fn client(
    http: &HttpClients,
    model: &Resource<Model>,
    provider: &'static ModelProvider,
    environment: &Environment,
) -> Result<Arc<dyn ModelClient>, ModelError> {
    let settings = ClientSettings::from_model(model, provider, environment)?;
    let key = key::find(model, provider, environment)?;
    let wire = settings.wire_format(model, provider);
    let endpoint = ModelEndpoint::for_model(model, provider, wire)?;
    let failures = FailureContext::new(model, provider, wire, &key, &settings);
    let target = ModelTarget {
        provider,
        model: provider.quirks.request_model(&model.spec.model),
        prompt_caching: settings.prompt_caching,
    };
    let format = format_of(wire, target.clone());
    let shown_key = recorded::ShownKey::new(key.value.as_ref(), key.variable.as_deref());
    let key = key.value.as_ref();
    Ok(Arc::new(LiveClient::new(
        http,
        endpoint,
        (key, shown_key),
        settings,
        failures,
        (target, format),
    )))
}

pub(crate) fn format_of(wire: ProviderWireFormat, target: ModelTarget) -> Arc<dyn WireFormat> {
    match wire {
        ProviderWireFormat::Gemini => Arc::new(GeminiFormat::new(target)),
        ProviderWireFormat::Responses => Arc::new(ResponsesFormat::new(target)),
        ProviderWireFormat::Ollama => Arc::new(OllamaFormat::new(target)),
        ProviderWireFormat::Anthropic => Arc::new(AnthropicFormat::new(target)),
        ProviderWireFormat::Converse => Arc::new(ConverseFormat::new(target)),
        ProviderWireFormat::Chat => Arc::new(ChatFormat::new(target)),
    }
}

/// Returns the reason why the endpoint of `model` cannot be used.
pub(crate) fn endpoint_problem(
    model: &Resource<Model>,
    provider: &'static ModelProvider,
) -> Option<ModelError> {
    let wire = settings::wire_format(model, provider);
    ModelEndpoint::for_model(model, provider, wire).err()
}

/// Returns the error of a Model whose key is not set in `environment`.
pub(crate) fn missing_key(
    model: &Resource<Model>,
    provider: &ModelProvider,
    environment: &Environment,
) -> Option<ModelError> {
    key::find(model, provider, environment).err()
}
