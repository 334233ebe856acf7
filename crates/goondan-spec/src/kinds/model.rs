//! `kind: Model`.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::rate::{self, RateLimits, RateLimitsShape};
use crate::decode::Field;
use crate::findings::Findings;
use crate::value_source::{self, ValueSourceShape};
use crate::{JsonObject, ValueSource};

/// The currency of prices that name none.
const CURRENCY: &str = "USD";

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
    /// Free settings for the client, such as `maxRetries` or a script.
    pub options: JsonObject,
    /// What the model is said to be able to do.
    pub capabilities: BTreeMap<String, bool>,
    /// What its tokens cost.
    pub pricing: Option<Pricing>,
    /// How much it may be asked in a minute.
    pub limits: RateLimits,
}

/// The options that name a file.
const FILES: [&str; 2] = ["script", "cassette"];

impl Model {
    /// The files that its options name, relative to the bundle: a script or a cassette.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        FILES
            .into_iter()
            .filter_map(|key| self.options.get(key)?.as_str())
    }
}

/// What the tokens of a model cost, a million of them at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Pricing {
    /// Tokens that it reads.
    pub input: f64,
    /// Those of the tokens that it reads that the provider has in its cache.
    pub cached_input: f64,
    /// Tokens that it writes.
    pub output: f64,
    /// What the prices are counted in (default `USD`).
    pub currency: String,
}

impl Pricing {
    /// What that many tokens cost. Cached tokens are among those of the input.
    pub fn cost(&self, input_tokens: u64, cached_tokens: u64, output_tokens: u64) -> f64 {
        const MILLION: f64 = 1_000_000.0;
        let cached = cached_tokens.min(input_tokens);
        let read = (input_tokens - cached) as f64 * self.input + cached as f64 * self.cached_input;
        (read + output_tokens as f64 * self.output) / MILLION
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
    let api_key = fields
        .optional("apiKey")
        .map(|field| value_source::read(&field, findings));
    let endpoint = fields
        .optional("endpoint")
        .map(|field| url(&field, findings));
    let options_field = fields.optional("options");
    let named = |key: &&str| options_field.as_ref()?.child(key);
    FILES
        .iter()
        .filter_map(named)
        .for_each(|field| findings.note_place(&field));
    let options = super::free_map(options_field, findings);
    let capabilities = fields
        .optional("capabilities")
        .map(|field| booleans(&field, findings));
    let pricing = fields
        .optional("pricing")
        .map(|field| pricing(&field, findings));
    let limits_field = fields.optional("limits");
    let limits = limits_field
        .as_ref()
        .map(|field| rate::read(field, findings));
    fields.finish(findings);
    if let (None, Some(cost)) = (
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
        api_key: api_key.map_or(Some(None), |source| source.map(Some))?,
        endpoint: endpoint.map_or(Some(None), |url| url.map(Some))?,
        options: options?,
        capabilities: capabilities.unwrap_or_else(|| Some(BTreeMap::new()))?,
        pricing: pricing.map_or(Some(None), |pricing| pricing.map(Some))?,
        limits: limits.unwrap_or(Some(RateLimits::default()))?,
    })
}

fn pricing(field: &Field<'_>, findings: &mut Findings) -> Option<Pricing> {
    let mut fields = field.fields(findings)?;
    let price = |field: Field<'_>, findings: &mut Findings| {
        field.number(
            "0 or more",
            |price| price >= 0.0 && price.is_finite(),
            findings,
        )
    };
    let input = fields
        .required("input", findings)
        .and_then(|field| price(field, findings));
    let cached_input = fields
        .optional("cachedInput")
        .map(|field| price(field, findings));
    let output = fields
        .required("output", findings)
        .and_then(|field| price(field, findings));
    let currency = fields
        .optional("currency")
        .map(|field| field.text(findings));
    fields.finish(findings);
    let currency = currency.unwrap_or(Some(CURRENCY))?.to_owned();
    Some(Pricing {
        input: input?,
        cached_input: cached_input.unwrap_or(input)?,
        output: output?,
        currency,
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

fn booleans(field: &Field<'_>, findings: &mut Findings) -> Option<BTreeMap<String, bool>> {
    let mut map = BTreeMap::new();
    for entry in field.entries(findings)? {
        if let Some(value) = entry.boolean(findings) {
            map.insert(entry.key.to_owned(), value);
        }
    }
    Some(map)
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
    /// Settings for the client, such as `maxRetries`, `timeoutSeconds` or the `script` of a scripted model.
    options: Option<JsonObject>,
    /// What the model can do, by name. With `toolCalling: false`, an agent of this model must have no tools.
    /// `structuredOutput` says whether the provider takes the schema of an agent's `output`. Other names are for people.
    capabilities: Option<BTreeMap<String, bool>>,
    /// What tokens cost. With it, `sessions__status` reports the cost of a conversation, and events and telemetry that of a turn.
    pricing: Option<PricingSpec>,
    /// How much the model may be asked in a minute. Beyond it, a step waits.
    limits: Option<RateLimitsShape>,
}

/// Prices per million tokens.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Pricing")]
#[expect(dead_code, reason = "read by the schema generator alone")]
struct PricingSpec {
    /// The price of a million tokens that the model reads.
    #[schemars(range(min = 0))]
    input: f64,
    /// The price of a million tokens that the model reads from the provider's cache [default: that of `input`].
    #[schemars(range(min = 0))]
    cached_input: Option<f64>,
    /// The price of a million tokens that the model writes.
    #[schemars(range(min = 0))]
    output: f64,
    /// The currency of the prices.
    #[schemars(extend("default" = CURRENCY))]
    currency: Option<String>,
}
