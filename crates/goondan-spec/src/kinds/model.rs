//! `kind: Model`: reads and checks the spec of a model.

use schemars::JsonSchema;

use super::capabilities::{self, CapabilitiesShape, ModelCapabilities};
use super::model_options::{self, ModelOptions, ModelOptionsShape};
use super::pricing::{self, ModelPricing, PricingSpec};
use super::rate_limits::{self, RateLimits, RateLimitsShape};
use crate::ValueSource;
use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;
use crate::value_source::{self, ValueSourceShape};

/// Model of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Provider, such as `openai`, `anthropic`, `google`, `ollama`, `scripted` or `replay`.
    pub provider: String,
    /// Name of the model in the provider's API.
    pub model: String,
    /// API key, if the provider requires one.
    pub api_key: Option<ValueSource>,
    /// API URL, if it is not the provider's default.
    pub endpoint: Option<String>,
    /// Settings of the client.
    pub options: ModelOptions,
    /// Stated features of the model.
    pub capabilities: ModelCapabilities,
    /// Token prices.
    pub pricing: Option<ModelPricing>,
    /// Limits per minute on model calls.
    pub limits: RateLimits,
}

impl Model {
    /// Returns the files named in the options, relative to the bundle: a script or a cassette.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.options.files()
    }
}

/// Decodes the spec of a Model; `None` if a field is invalid.
pub(crate) fn decode(spec: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<Model> {
    let mut fields = spec.fields(findings)?;
    let provider = fields.required("provider", findings).and_then(|field| {
        findings.record_position(&field);
        field.text(findings)
    });
    let model = fields
        .required("model", findings)
        .and_then(|field| field.text(findings));
    let api_key = fields.read("apiKey", findings, value_source::read);
    let endpoint = fields.read("endpoint", findings, read_url);
    let options = fields.read("options", findings, model_options::read);
    let capabilities = fields.read("capabilities", findings, capabilities::read);
    let pricing = fields.read("pricing", findings, pricing::read);
    let limits_field = fields.optional("rateLimits");
    let limits = limits_field
        .as_ref()
        .map(|field| rate_limits::read(field, findings));
    fields.finish(findings);
    if let (Some(None), Some(cost)) = (
        &pricing,
        limits_field.and_then(|field| field.child(rate_limits::COST_LIMIT_FIELD)),
    ) {
        let message = format!("`{}` needs the `pricing` of the model.", cost.path);
        findings.add(
            cost.invalid_value(message)
                .suggest("add `pricing` to the model"),
        );
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

/// Reads a URL; `None`, with an error, if it is not valid.
fn read_url(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let text = field.text(findings)?;
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    if host.is_none_or(|host| {
        host.is_empty() || host.starts_with('/') || host.contains(char::is_whitespace)
    }) {
        let message = format!(
            "`{}` must be a URL that begins with `http://` or `https://`.",
            field.path
        );
        findings.add(
            field
                .invalid_value(message)
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
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ModelSpec {
    /// The provider that runs the model, such as `openai`, `anthropic`, `gemini`, `ollama`,
    /// `scripted` or `replay`.
    #[schemars(length(min = 1))]
    provider: String,
    /// The provider's name for the model.
    #[schemars(length(min = 1))]
    model: String,
    /// The API key. Without it, the provider's usual environment variable is used.
    api_key: Option<ValueSourceShape>,
    /// The URL of the API. Without it, the provider's default.
    #[schemars(regex(pattern = "^https?://"))]
    endpoint: Option<String>,
    /// Settings for the client.
    options: Option<ModelOptionsShape>,
    /// Features of the model.
    capabilities: Option<CapabilitiesShape>,
    /// Token prices. With them, `sessions__status` reports the cost of a conversation. Events and
    /// telemetry report the cost of a turn.
    pricing: Option<PricingSpec>,
    /// The limits per minute on model calls. A step waits when a limit is reached.
    limits: Option<RateLimitsShape>,
}
