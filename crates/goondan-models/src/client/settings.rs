//! Options of a Model that its client follows. `maxRetries` and `maxRetryWaitMs` belong to the engine.

use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::model::ModelError;
use goondan_spec::kinds::{Model, ModelApi, ReasoningEffort};
use goondan_spec::sent_schema::ProviderWireFormat;
use goondan_spec::{Environment, Resource, Secret};
use reqwest::header::{HeaderName, HeaderValue};

use crate::errors::configuration_error;
use crate::provider::ModelProvider;

/// Maximum silence of a provider, if `options.timeoutSeconds` is absent.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Options of a Model that its client follows.
pub(crate) struct ClientSettings {
    /// Maximum time without an event, before the answer begins and between its pieces.
    pub(crate) idle_timeout: Duration,
    pub(crate) headers: Vec<(HeaderName, Secret)>,
    /// Fields that are merged into every body.
    pub(crate) body: JsonObject,
    pub(crate) effort: Option<ReasoningEffort>,
    pub(crate) prompt_caching: bool,
    pub(crate) text_tool_calls: bool,
    api: Option<ModelApi>,
}

impl ClientSettings {
    /// Reads the options of `model`.
    ///
    /// # Errors
    /// The variable of a header is not set, or its value is not a valid header.
    pub(crate) fn from_model(
        model: &Resource<Model>,
        provider: &ModelProvider,
        environment: &Environment,
    ) -> Result<Self, ModelError> {
        let options = &model.spec.options;
        let idle_timeout = options
            .timeout_seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(ClientSettings {
            idle_timeout: idle_timeout.unwrap_or(DEFAULT_IDLE_TIMEOUT),
            headers: headers(model, environment)?,
            body: options.body.clone(),
            effort: options.reasoning_effort,
            prompt_caching: options.prompt_caching.unwrap_or(true),
            text_tool_calls: options
                .text_tool_calls
                .unwrap_or(provider.quirks.text_tool_calls),
            api: options.api,
        })
    }

    /// Returns the format for `model`.
    pub(crate) fn wire_format(
        &self,
        model: &Resource<Model>,
        provider: &ModelProvider,
    ) -> ProviderWireFormat {
        wire_format_for_api(model, provider, self.api)
    }
}

/// Returns the wire format for `model`, with its `api` option.
pub(crate) fn wire_format(model: &Resource<Model>, provider: &ModelProvider) -> ProviderWireFormat {
    wire_format_for_api(model, provider, model.spec.options.api)
}

/// Returns the wire format for `model` with the option `api`, which selects an OpenAI format.
/// Servers at other URLs usually accept only the chat format.
fn wire_format_for_api(
    model: &Resource<Model>,
    provider: &ModelProvider,
    api: Option<ModelApi>,
) -> ProviderWireFormat {
    let usual = provider
        .wire_format(&model.spec.model)
        .unwrap_or(ProviderWireFormat::Chat);
    match (usual, api) {
        (ProviderWireFormat::Chat | ProviderWireFormat::Responses, Some(ModelApi::Chat)) => {
            ProviderWireFormat::Chat
        }
        (ProviderWireFormat::Chat | ProviderWireFormat::Responses, Some(ModelApi::Responses)) => {
            ProviderWireFormat::Responses
        }
        (ProviderWireFormat::Responses, None) if model.spec.endpoint.is_some() => {
            ProviderWireFormat::Chat
        }
        (usual, _) => usual,
    }
}

/// Returns the headers in `options.headers` of `model`.
fn headers(
    model: &Resource<Model>,
    environment: &Environment,
) -> Result<Vec<(HeaderName, Secret)>, ModelError> {
    let mut headers = Vec::new();
    for (name, value) in &model.spec.options.headers {
        let field = format!("options.headers.{name}");
        let secret = environment.resolve_text(value, name).map_err(|names| {
            configuration_error(
                format!(
                    "`{field}` of {} is missing: {} is not set.",
                    model.id,
                    names.join(" or ")
                ),
                format!("Set {} in the environment or in a .env file.", names[0]),
            )
        })?;
        let parsed = HeaderName::from_bytes(name.as_bytes());
        match parsed
            .ok()
            .filter(|_| HeaderValue::from_str(secret.expose()).is_ok())
        {
            Some(name) => headers.push((name, secret)),
            None => {
                return Err(configuration_error(
                    format!("`{field}` of {} is not a valid HTTP header.", model.id),
                    "Use letters, digits and hyphens in the name, and one line of plain characters \
                    as the value.",
                ));
            }
        }
    }
    Ok(headers)
}
