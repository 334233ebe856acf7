//! Where a call goes.

use genai::adapter::AdapterKind;
use genai::chat::ReasoningEffort;
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget};
use goondan_core::ports::model::ModelError;
use goondan_spec::kinds::Model;
use goondan_spec::{Resource, Secret};
use url::Url;

use super::failure::Caller;
use super::http::Http;
use super::settings::Settings;
use crate::error::configuration;
use crate::table::Address;
use crate::wire::{Wire, wire_of};

/// Stands in for a key where none is needed: genai insists on one, and most local servers ignore it.
const NO_KEY: &str = "none";

/// Ends of addresses that people copy along, by wire format; genai puts them there itself.
const TAILS: [(Wire, &str); 6] = [
    (Wire::Chat, "/chat/completions"),
    (Wire::Responses, "/responses"),
    (Wire::Anthropic, "/messages"),
    (Wire::Ollama, "/api/chat"),
    (Wire::Ollama, "/api"),
    (Wire::Ollama, "/v1"),
];

/// Provider, address, model and key of a client.
pub(crate) struct Target {
    model: ModelIden,
    endpoint: Option<Endpoint>,
    key: Option<Secret>,
}

impl Target {
    /// Where `model` is reached.
    pub(crate) fn of(
        model: &Resource<Model>,
        adapter: AdapterKind,
        address: Address,
        settings: &Settings,
        key: Option<Secret>,
    ) -> Result<Self, ModelError> {
        let adapter = match adapter {
            AdapterKind::OpenAI => openai(model, address, settings),
            other => other,
        };
        let wire = wire_of(adapter, &model.spec.model);
        let endpoint = match (&model.spec.endpoint, address) {
            (Some(endpoint), _) => Some(base(model, endpoint, wire)?),
            (None, Address::At(endpoint)) => Some(base(model, endpoint, wire)?),
            (None, Address::Known) => None,
            (None, Address::Needed(example)) => {
                return Err(configuration(
                    format!(
                        "{} has no endpoint: the provider {} needs one",
                        model.id, model.spec.provider
                    ),
                    format!(
                        "in {} write `endpoint: {example}` (with your own address)",
                        model.id
                    ),
                ));
            }
        };
        let model = ModelIden::new(adapter, model.spec.model.as_str());
        Ok(Target {
            model,
            endpoint: endpoint.map(Endpoint::from_owned),
            key,
        })
    }

    /// What is spoken there.
    pub(crate) fn wire(&self) -> Wire {
        wire_of(self.model.adapter_kind, &self.model.model_name)
    }

    /// Who is spoken to, in genai's terms.
    pub(crate) fn adapter(&self) -> AdapterKind {
        self.model.adapter_kind
    }

    /// The model's name as the Model has it.
    pub(crate) fn model(&self) -> &str {
        &self.model.model_name
    }

    /// The key, or what stands in for it.
    pub(crate) fn key(&self) -> &str {
        self.key.as_ref().map_or(NO_KEY, Secret::expose)
    }

    /// Whether the address is the Model's own, or ours.
    pub(crate) fn has_endpoint(&self) -> bool {
        self.endpoint.is_some()
    }

    /// Whether TLS is needed. All providers that genai knows want it.
    pub(crate) fn is_secure(&self) -> bool {
        self.endpoint
            .as_ref()
            .is_none_or(|endpoint| endpoint.base_url().starts_with("https:"))
    }

    /// The address, with genai's where the Model has none of its own.
    pub(crate) async fn base_url(
        &self,
        http: &Http,
        caller: &Caller,
    ) -> Result<String, ModelError> {
        if let Some(endpoint) = &self.endpoint {
            return Ok(endpoint.base_url().to_owned());
        }
        let resolved = self.resolve(&http.client(true).await?.genai).await;
        resolved
            .map(|target| target.endpoint.base_url().to_owned())
            .map_err(|error| caller.failure("the provider", error))
    }

    /// The whole of it, with genai's address where the Model has none of its own.
    pub(crate) async fn resolve(&self, client: &genai::Client) -> genai::Result<ServiceTarget> {
        let endpoint = match &self.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => {
                client
                    .resolve_service_target(self.model.clone())
                    .await?
                    .endpoint
            }
        };
        Ok(ServiceTarget {
            endpoint,
            auth: AuthData::from_single(self.key()),
            model: self.model.clone(),
        })
    }

    /// genai takes an ending such as `-medium` off a model's name and asks for that much reasoning instead. Names of
    /// real models end like that, so they are kept whole by an effort that the format does not send.
    pub(crate) fn plain_name(&self) -> Option<ReasoningEffort> {
        let clipped = ReasoningEffort::from_model_name(&self.model.model_name)
            .0
            .is_some();
        (clipped && self.wire() == Wire::Responses).then_some(ReasoningEffort::Budget(0))
    }
}

/// OpenAI has two formats. At OpenAI itself genai knows which a model wants; elsewhere nearly all know only `chat`.
fn openai(model: &Resource<Model>, address: Address, settings: &Settings) -> AdapterKind {
    let at_openai = address == Address::Known && model.spec.endpoint.is_none();
    let guess = || {
        at_openai
            && matches!(
                AdapterKind::from_model(&model.spec.model),
                Ok(AdapterKind::OpenAIResp)
            )
    };
    match settings.responses.unwrap_or_else(guess) {
        true => AdapterKind::OpenAIResp,
        false => AdapterKind::OpenAI,
    }
}

/// `endpoint` as genai wants it: without the path of the call, with a slash at the end.
fn base(model: &Resource<Model>, endpoint: &str, wire: Wire) -> Result<String, ModelError> {
    let wrong = |reason: String| {
        configuration(
            format!("the endpoint of {} can't be used: {reason}", model.id),
            "write a whole address, such as `endpoint: http://localhost:1234/v1`",
        )
    };
    let mut url = Url::parse(endpoint.trim()).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!(
            "it begins with {}:, not with http: or https:",
            url.scheme()
        )));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let tail = TAILS
        .iter()
        .find(|(of, tail)| *of == wire && path.ends_with(tail))
        .map_or("", |(_, tail)| tail);
    let path = path[..path.len() - tail.len()].trim_end_matches('/');
    url.set_path(&format!("{path}/"));
    url.set_fragment(None);
    Ok(url.into())
}
