//! `gdn init --provider`: a template with the model of a real provider.

use clap::ValueEnum;
use goondan::internal::yaml_scalar;

/// First line of the part of a template that configures the scripted model.
const SCRIPTED_START: &str = "  # The scripted model answers from script.yaml";
/// Last line of this part.
const SCRIPTED_END: &str = "  # apiKey: {valueFrom: {env: ANTHROPIC_API_KEY}}\n";

/// Provider of a new project's model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProviderChoice {
    Anthropic,
    Openai,
    Gemini,
    Mistral,
    Openrouter,
    /// A model on this machine, without an API key
    Ollama,
}

impl ProviderChoice {
    /// Name in a Model.
    fn name(self) -> &'static str {
        match self {
            ProviderChoice::Anthropic => "anthropic",
            ProviderChoice::Openai => "openai",
            ProviderChoice::Gemini => "gemini",
            ProviderChoice::Mistral => "mistral",
            ProviderChoice::Openrouter => "openrouter",
            ProviderChoice::Ollama => "ollama",
        }
    }

    /// Model that is used without `--model`.
    fn default_model(self) -> &'static str {
        match self {
            ProviderChoice::Anthropic => "claude-sonnet-4-5",
            ProviderChoice::Openai => "gpt-5",
            ProviderChoice::Gemini => "gemini-2.5-flash",
            ProviderChoice::Mistral => "mistral-large-latest",
            ProviderChoice::Openrouter => "anthropic/claude-sonnet-4.5",
            ProviderChoice::Ollama => "qwen3",
        }
    }

    /// Environment variable with the API key.
    pub(super) fn key_variable(self) -> Option<&'static str> {
        match self {
            ProviderChoice::Anthropic => Some("ANTHROPIC_API_KEY"),
            ProviderChoice::Openai => Some("OPENAI_API_KEY"),
            ProviderChoice::Gemini => Some("GEMINI_API_KEY"),
            ProviderChoice::Mistral => Some("MISTRAL_API_KEY"),
            ProviderChoice::Openrouter => Some("OPENROUTER_API_KEY"),
            ProviderChoice::Ollama => None,
        }
    }

    /// Replaces the scripted model in the text of a template.
    pub(super) fn replace_scripted(self, text: &str, model: Option<&str>) -> String {
        let Some((before, rest)) = text.split_once(SCRIPTED_START) else {
            return text.to_owned();
        };
        let Some((_, after)) = rest.split_once(SCRIPTED_END) else {
            return text.to_owned();
        };
        let model = yaml_scalar(model.unwrap_or(self.default_model()));
        let mut lines = format!("  provider: {}\n  model: {model}\n", self.name());
        if let Some(variable) = self.key_variable() {
            lines.push_str(&format!("  apiKey: {{valueFrom: {{env: {variable}}}}}\n"));
        }
        format!("{before}{lines}{after}")
    }
}
