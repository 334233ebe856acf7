//! Which providers there are: one row each.

use genai::adapter::AdapterKind;

use crate::wire::{Wire, wire_of};

/// A provider that a Model resource can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// What stands in `provider:`.
    pub name: &'static str,
    /// The variable that holds its key by custom; `None` where no key is needed.
    pub key_variable: Option<&'static str>,
    /// Who answers.
    pub(crate) backend: Backend,
}

/// Who answers for a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A script.
    Scripted,
    /// A cassette.
    Replay,
    /// A service on the network.
    Live {
        /// How genai speaks to it.
        adapter: AdapterKind,
        /// Where it is.
        address: Address,
    },
}

impl Provider {
    /// Whether it is a service that somebody runs, here or on the network; a script or a cassette is none.
    pub fn is_live(&self) -> bool {
        matches!(self.backend, Backend::Live { .. })
    }
}

/// Where a provider is reached when a Model has no `endpoint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    /// Where genai knows it to be.
    Known,
    /// Here.
    At(&'static str),
    /// Nobody knows: `endpoint` must be given, such as this one.
    Needed(&'static str),
}

/// Every provider, in alphabetical order.
pub const PROVIDERS: &[Provider] = &[
    live("aihubmix", Some("AIHUBMIX_API_KEY"), AdapterKind::Aihubmix),
    live("aliyun", Some("ALIYUN_API_KEY"), AdapterKind::Aliyun),
    live(
        "anthropic",
        Some("ANTHROPIC_API_KEY"),
        AdapterKind::Anthropic,
    ),
    live(
        "atlascloud",
        Some("ATLASCLOUD_API_KEY"),
        AdapterKind::AtlasCloud,
    ),
    live("baidu", Some("BAIDU_API_KEY"), AdapterKind::Baidu),
    away(
        "bedrock",
        Some("BEDROCK_API_KEY"),
        AdapterKind::BedrockApi,
        "https://bedrock-runtime.us-east-1.amazonaws.com",
    ),
    live("bigmodel", Some("BIGMODEL_API_KEY"), AdapterKind::BigModel),
    at(
        "cohere",
        Some("COHERE_API_KEY"),
        "https://api.cohere.ai/compatibility/v1",
    ),
    live("deepseek", Some("DEEPSEEK_API_KEY"), AdapterKind::DeepSeek),
    live(
        "fireworks",
        Some("FIREWORKS_API_KEY"),
        AdapterKind::Fireworks,
    ),
    live("gemini", Some("GEMINI_API_KEY"), AdapterKind::Gemini),
    live("github", Some("GITHUB_TOKEN"), AdapterKind::GithubCopilot),
    live("google", Some("GEMINI_API_KEY"), AdapterKind::Gemini),
    live("groq", Some("GROQ_API_KEY"), AdapterKind::Groq),
    live("kimi", Some("KIMI_API_KEY"), AdapterKind::Kimi),
    at("llamacpp", None, "http://localhost:8080/v1"),
    at("lmstudio", None, "http://localhost:1234/v1"),
    live("minimax", Some("MINIMAX_API_KEY"), AdapterKind::MiniMax),
    live("mistral", Some("MISTRAL_API_KEY"), AdapterKind::Mistral),
    live("moonshot", Some("MOONSHOT_API_KEY"), AdapterKind::Moonshot),
    live("nebius", Some("NEBIUS_API_KEY"), AdapterKind::Nebius),
    live("ollama", None, AdapterKind::Ollama),
    live(
        "ollama-cloud",
        Some("OLLAMA_API_KEY"),
        AdapterKind::OllamaCloud,
    ),
    live("openai", Some("OPENAI_API_KEY"), AdapterKind::OpenAI),
    away(
        "openai-compatible",
        None,
        AdapterKind::OpenAI,
        "http://localhost:1234/v1",
    ),
    live(
        "openrouter",
        Some("OPENROUTER_API_KEY"),
        AdapterKind::OpenRouter,
    ),
    live("qwen", Some("QWEN_CLOUD_API_KEY"), AdapterKind::QwenCloud),
    Provider {
        name: "replay",
        key_variable: None,
        backend: Backend::Replay,
    },
    live("requesty", Some("REQUESTY_API_KEY"), AdapterKind::Requesty),
    Provider {
        name: "scripted",
        key_variable: None,
        backend: Backend::Scripted,
    },
    live("together", Some("TOGETHER_API_KEY"), AdapterKind::Together),
    away(
        "vertex",
        Some("VERTEX_API_KEY"),
        AdapterKind::Vertex,
        VERTEX,
    ),
    at("vllm", None, "http://localhost:8000/v1"),
    live("xai", Some("XAI_API_KEY"), AdapterKind::Xai),
    live("zai", Some("ZAI_API_KEY"), AdapterKind::Zai),
];

const VERTEX: &str =
    "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION";

/// A service whose address genai knows.
const fn live(
    name: &'static str,
    key_variable: Option<&'static str>,
    adapter: AdapterKind,
) -> Provider {
    Provider {
        name,
        key_variable,
        backend: Backend::Live {
            adapter,
            address: Address::Known,
        },
    }
}

/// A service that speaks OpenAI's chat format at an address that we know.
const fn at(
    name: &'static str,
    key_variable: Option<&'static str>,
    address: &'static str,
) -> Provider {
    Provider {
        name,
        key_variable,
        backend: Backend::Live {
            adapter: AdapterKind::OpenAI,
            address: Address::At(address),
        },
    }
}

/// A service whose address is the user's own.
const fn away(
    name: &'static str,
    key_variable: Option<&'static str>,
    adapter: AdapterKind,
    example: &'static str,
) -> Provider {
    Provider {
        name,
        key_variable,
        backend: Backend::Live {
            adapter,
            address: Address::Needed(example),
        },
    }
}

/// The provider of that name, exactly as written.
pub fn provider(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// Providers that take the schema of an answer in the chat format, whatever the model. Others do for some models, and refuse
/// the request for the rest.
const TAKE_SCHEMAS: [&str; 6] = ["llamacpp", "lmstudio", "mistral", "openai", "vllm", "xai"];

/// Up to three names of providers that look like `name`, the most alike first.
pub fn similar_providers(name: &str) -> Vec<&'static str> {
    let asked = name.to_lowercase();
    let likeness = |known: &str| match known.contains(&asked) || asked.contains(known) {
        true => 1.0,
        false => strsim::jaro_winkler(&asked, known),
    };
    let mut alike: Vec<_> = PROVIDERS
        .iter()
        .map(|provider| (likeness(provider.name), provider.name))
        .collect();
    alike.retain(|(likeness, _)| *likeness > 0.8);
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    alike.into_iter().map(|(_, name)| name).take(3).collect()
}

impl Provider {
    /// Whether it is sent the schema that an answer shall fit, where a Model says nothing about that.
    pub(crate) fn takes_schemas(&self, wire: Wire) -> bool {
        match wire {
            Wire::Chat => TAKE_SCHEMAS.contains(&self.name),
            Wire::Responses => true,
            // Claude models take one since version 4.5, and Gemini takes one or tools. genai sends Ollama none.
            Wire::Anthropic | Wire::Gemini | Wire::Converse | Wire::Ollama => false,
        }
    }

    /// The wire format that `model` is spoken to in; `None` for scripted and replay, which have none.
    pub fn wire(&self, model: &str) -> Option<Wire> {
        match self.backend {
            Backend::Scripted | Backend::Replay => None,
            Backend::Live { adapter, .. } => Some(wire_of(adapter, model)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_alphabetical_and_names_are_unique() {
        let names: Vec<_> = PROVIDERS.iter().map(|provider| provider.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }

    #[test]
    fn typing_mistakes_find_their_provider() {
        assert_eq!(similar_providers("antropic")[0], "anthropic");
        assert_eq!(similar_providers("OpenAI")[0], "openai");
        assert_eq!(similar_providers("lm-studio")[0], "lmstudio");
        assert!(similar_providers("zzzz").is_empty());
    }
}
