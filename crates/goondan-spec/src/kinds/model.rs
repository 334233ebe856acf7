//! `kind: Model`.

use schemars::JsonSchema;

use super::capabilities::{self, Capabilities, CapabilitiesShape};
use super::model_options::{self, ModelOptions, ModelOptionsShape};
use super::pricing::{self, Pricing, PricingSpec};
use super::rate::{self, RateLimits, RateLimitsShape};
use crate::ValueSource;
use crate::decode::Field;
use crate::findings::Findings;
use crate::value_source::{self, ValueSourceShape};

/// A model behind a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// `openai`, `anthropic`, `google`, `ollama`, `scripted`, `replay` …
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// The key, if the provider wants one.
    pub api_key: Option<ValueSource>,
    /// Another address than the provider's own.
    pub endpoint: Option<String>,
    /// Settings of the client.
    pub options: ModelOptions,
    /// Features of the model, as far as they are stated.
    pub capabilities: Capabilities,
    /// What its tokens cost.
    pub pricing: Option<Pricing>,
    /// How much it may be asked in a minute.
    pub limits: RateLimits,
}

impl Model {
    /// The files that its options name, relative to the bundle: a script or a cassette.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.options.files()
    }
}

pub(crate) fn decode(spec: &Field<'_>, findings: &mut Findings) -> Option<Model> {
    let mut fields = spec.fields(findings)?;
    let provider = fields
        .required("provider", findings)
        .and_then(|field| field.text(findings));
    let model = fields
        .required("model", findings)
        .and_then(|field| field.text(findings));
    let api_key = fields.read("apiKey", findings, value_source::read);
    let endpoint = fields.read("endpoint", findings, url);
    let options = fields.read("options", findings, model_options::read);
    let capabilities = fields.read("capabilities", findings, capabilities::read);
    let pricing = fields.read("pricing", findings, pricing::read);
    let limits_field = fields.optional("limits");
    let limits = limits_field
        .as_ref()
        .map(|field| rate::read(field, findings));
    fields.finish(findings);
    if let (Some(None), Some(cost)) = (
        &pricing,
        limits_field.and_then(|field| field.child(rate::COST)),
    ) {
        let message = format!("`{}` needs the `pricing` of the model.", cost.path);
        findings.add(cost.invalid(message).suggest("state its `pricing`"));
        return None;
    }
    Some(Model {
        provider: provider?.to_owned(),
        model: model?.to_owned(),
        api_key: api_key?,
        endpoint: endpoint?,
        options: options?.unwrap_or_default(),
        capabilities: capabilities?.unwrap_or_default(),
        pricing: pricing?,
        limits: limits.unwrap_or(Some(RateLimits::default()))?,
    })
}

fn url(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let text = field.text(findings)?;
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    if host.is_none_or(|host| {
        host.is_empty() || host.starts_with('/') || host.contains(char::is_whitespace)
    }) {
        let message = format!(
            "`{}` must be an address that begins with `http://` or `https://`.",
            field.path
        );
        findings.add(
            field
                .invalid(message)
                .suggest("write it as `https://host/v1/`"),
        );
        return None;
    }
    Some(text.to_owned())
}

/// A language model of a provider.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Model")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ModelSpec {
    /// The provider that runs the model, such as `openai`, `anthropic`, `gemini`, `ollama`, `scripted` or `replay`.
    #[schemars(length(min = 1))]
    provider: String,
    /// The provider's name for the model.
    #[schemars(length(min = 1))]
    model: String,
    /// The API key. Without it, the provider's usual environment variable is used.
    api_key: Option<ValueSourceShape>,
    /// The address of the API, where it is not the provider's own.
    #[schemars(regex(pattern = "^https?://"))]
    endpoint: Option<String>,
    /// Settings for the client.
    options: Option<ModelOptionsShape>,
    /// Features of the model.
    capabilities: Option<CapabilitiesShape>,
    /// What tokens cost. With it, `sessions__status` reports the cost of a conversation, and events and telemetry that of a turn.
    pricing: Option<PricingSpec>,
    /// How much the model may be asked in a minute. Beyond it, a step waits.
    limits: Option<RateLimitsShape>,
}
