//! The table of providers, and clients for Model resources.

pub(crate) mod context_windows;
mod factory;
mod quirks;

use std::sync::LazyLock;

use goondan_spec::sent_schema::ProviderWireFormat;
use serde::Deserialize;

pub use factory::{ModelProviders, missing_key, model_problem};
pub(crate) use quirks::ProviderQuirks;

static PROVIDER_TABLE: LazyLock<ProviderTable> = LazyLock::new(|| {
    toml::from_str(include_str!("providers.toml")).expect("a test reads the table")
});

#[derive(Debug, Deserialize)]
struct ProviderTable {
    provider: Vec<ModelProvider>,
}

/// A provider that a Model resource can name.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelProvider {
    /// Value of `provider:` in a Model.
    pub name: String,
    /// Environment variable that usually contains the key; absent if the provider needs no key.
    #[serde(rename = "key")]
    pub key_variable: Option<String>,
    /// Base URL, with a slash at its end.
    pub address: Option<String>,
    /// Endpoint to show in error messages if there is no `address`.
    pub example: Option<String>,
    format: ProviderFormat,
    family: Option<String>,
    #[serde(default)]
    pub(crate) quirks: ProviderQuirks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProviderFormat {
    Scripted,
    Replay,
    Chat,
    Responses,
    Anthropic,
    Gemini,
    Converse,
    Ollama,
    /// Responses or chat, by the model.
    Openai,
    /// Anthropic or Gemini, by the model.
    Vertex,
}

impl ModelProvider {
    pub(crate) fn format(&self) -> ProviderFormat {
        self.format
    }

    /// Returns true if the provider is a service on a network, unlike a script or a recording.
    pub fn is_live(&self) -> bool {
        !matches!(
            self.format,
            ProviderFormat::Scripted | ProviderFormat::Replay
        )
    }

    /// Returns the key under which messages keep opaque data of this provider.
    pub(crate) fn family(&self) -> &str {
        self.family.as_deref().unwrap_or(&self.name)
    }

    /// Returns the wire format for `model`; `None` for scripts and recordings.
    pub fn wire_format(&self, model: &str) -> Option<ProviderWireFormat> {
        Some(match self.format {
            ProviderFormat::Scripted | ProviderFormat::Replay => return None,
            ProviderFormat::Chat => ProviderWireFormat::Chat,
            ProviderFormat::Responses => ProviderWireFormat::Responses,
            ProviderFormat::Anthropic => ProviderWireFormat::Anthropic,
            ProviderFormat::Gemini => ProviderWireFormat::Gemini,
            ProviderFormat::Converse => ProviderWireFormat::Converse,
            ProviderFormat::Ollama => ProviderWireFormat::Ollama,
            ProviderFormat::Openai if self.address.is_some() && prefers_responses(model) => {
                ProviderWireFormat::Responses
            }
            ProviderFormat::Openai => ProviderWireFormat::Chat,
            ProviderFormat::Vertex if model.starts_with("claude") => ProviderWireFormat::Anthropic,
            ProviderFormat::Vertex => ProviderWireFormat::Gemini,
        })
    }

    /// Returns true if requests contain the schema of a structured answer unless the Model sets it. Some
    /// providers accept a schema for some models only and refuse the request for the others.
    pub(crate) fn takes_schemas(&self, wire: ProviderWireFormat) -> bool {
        match wire {
            ProviderWireFormat::Chat => self.quirks.takes_schemas,
            ProviderWireFormat::Responses => true,
            ProviderWireFormat::Anthropic
            | ProviderWireFormat::Gemini
            | ProviderWireFormat::Converse
            | ProviderWireFormat::Ollama => false,
        }
    }
}

/// Returns true if OpenAI recommends the responses format for `model`, or accepts no other format.
fn prefers_responses(model: &str) -> bool {
    let has_pro_or_codex = || model.contains("codex") || model.contains("-pro");
    ["gpt-5", "gpt-6", "o1-pro", "o3-pro"]
        .iter()
        .any(|start| model.starts_with(start))
        || (model.starts_with("gpt-") || model.starts_with('o')) && has_pro_or_codex()
}

/// Returns every provider, in alphabetical order.
pub fn providers() -> &'static [ModelProvider] {
    &PROVIDER_TABLE.provider
}

/// Returns the provider called `name`.
pub fn provider(name: &str) -> Option<&'static ModelProvider> {
    providers().iter().find(|provider| provider.name == name)
}

/// Returns up to three provider names that resemble `name`, the most similar first.
pub fn similar_providers(name: &str) -> Vec<&'static str> {
    let lowercase_name = name.to_lowercase();
    let similarity = |known: &str| {
        if known.contains(&lowercase_name) || lowercase_name.contains(known) {
            1.0
        } else {
            strsim::jaro_winkler(&lowercase_name, known)
        }
    };
    let mut similar: Vec<_> = providers()
        .iter()
        .map(|provider| (similarity(&provider.name), provider.name.as_str()))
        .filter(|(similarity, _)| *similarity > 0.8)
        .collect();
    similar.sort_by(|a, b| b.0.total_cmp(&a.0));
    similar.into_iter().map(|(_, name)| name).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_table_is_sorted_and_has_an_address_or_example() {
        let names: Vec<_> = providers().iter().map(|provider| &provider.name).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        for provider in providers().iter().filter(|provider| provider.is_live()) {
            let has_one = provider.address.is_some() != provider.example.is_some();
            assert!(has_one, "{} needs an address or an example", provider.name);
            assert!(
                provider
                    .address
                    .as_ref()
                    .is_none_or(|address| address.ends_with('/'))
            );
        }
    }

    #[test]
    fn misspelled_provider_names_have_suggestions() {
        assert_eq!(similar_providers("antropic")[0], "anthropic");
        assert_eq!(similar_providers("OpenAI")[0], "openai");
        assert_eq!(similar_providers("lm-studio")[0], "lmstudio");
        assert!(similar_providers("zzzz").is_empty());
    }

    #[test]
    fn the_format_follows_the_model_for_openai_and_vertex() {
        let wire = |name: &str, model: &str| {
            provider(name).and_then(|provider| provider.wire_format(model))
        };
        assert_eq!(
            wire("openai", "gpt-5-mini"),
            Some(ProviderWireFormat::Responses)
        );
        assert_eq!(
            wire("openai", "gpt-4o-codex"),
            Some(ProviderWireFormat::Responses)
        );
        assert_eq!(
            wire("openai", "gpt-4o-mini"),
            Some(ProviderWireFormat::Chat)
        );
        assert_eq!(
            wire("openai-compatible", "gpt-5"),
            Some(ProviderWireFormat::Chat)
        );
        assert_eq!(
            wire("vertex", "claude-sonnet-4-5"),
            Some(ProviderWireFormat::Anthropic)
        );
        assert_eq!(
            wire("vertex", "gemini-2.5-flash"),
            Some(ProviderWireFormat::Gemini)
        );
        assert_eq!(wire("scripted", "m"), None);
    }
}
