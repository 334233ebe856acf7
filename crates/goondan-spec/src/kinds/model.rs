//! `kind: Model`.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use crate::decode::Field;
use crate::findings::Findings;
use crate::value_source::{self, ValueSourceShape};
use crate::{JsonObject, ValueSource};

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
}

pub(crate) fn decode(spec: &Field<'_>, findings: &mut Findings) -> Option<Model> {
    let mut fields = spec.fields(findings)?;
    let provider = fields.required("provider", findings).and_then(|field| field.text(findings));
    let model = fields.required("model", findings).and_then(|field| field.text(findings));
    let api_key = fields.optional("apiKey").map(|field| value_source::read(&field, findings));
    let endpoint = fields.optional("endpoint").map(|field| url(&field, findings));
    let options = super::free_map(fields.optional("options"), findings);
    let capabilities = fields.optional("capabilities").map(|field| booleans(&field, findings));
    fields.finish(findings);
    Some(Model {
        provider: provider?.to_owned(),
        model: model?.to_owned(),
        api_key: api_key.map_or(Some(None), |source| source.map(Some))?,
        endpoint: endpoint.map_or(Some(None), |url| url.map(Some))?,
        options: options?,
        capabilities: capabilities.unwrap_or_else(|| Some(BTreeMap::new()))?,
    })
}

fn url(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let text = field.text(findings)?;
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/') || host.contains(char::is_whitespace)) {
        let message = format!("`{}` must be an address that begins with `http://` or `https://`.", field.path);
        findings.add(field.invalid(message).suggest("write it as `https://host/v1/`"));
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

/// A model behind a provider.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Model")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ModelSpec {
    /// `openai`, `anthropic`, `gemini`, `ollama`, `scripted`, `replay` and so on.
    #[schemars(length(min = 1))]
    provider: String,
    /// The provider's name for the model.
    #[schemars(length(min = 1))]
    model: String,
    /// The key, if the provider wants one.
    api_key: Option<ValueSourceShape>,
    /// Another address than the provider's own.
    #[schemars(regex(pattern = "^https?://"))]
    endpoint: Option<String>,
    /// Free settings for the client, such as `maxRetries`.
    options: Option<JsonObject>,
    /// What the model is said to be able to do, such as `toolCalling` and `streaming`.
    capabilities: Option<BTreeMap<String, bool>>,
}
