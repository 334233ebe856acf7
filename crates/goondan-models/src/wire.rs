//! The wire formats that providers speak, and what each can take.

use genai::adapter::AdapterKind;

/// A family of wire formats, as far as the mapping has to know them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's chat completions, which most others copy.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's generateContent.
    Gemini,
    /// Ollama's own chat.
    Ollama,
    /// Amazon's Converse.
    Converse,
}

impl Wire {
    /// What `adapter` speaks to `model`.
    pub(crate) fn of(adapter: AdapterKind, model: &str) -> Wire {
        match adapter {
            AdapterKind::OpenAIResp => Wire::Responses,
            AdapterKind::Anthropic | AdapterKind::MiniMax => Wire::Anthropic,
            AdapterKind::Gemini => Wire::Gemini,
            AdapterKind::Vertex if model.starts_with("claude") => Wire::Anthropic,
            AdapterKind::Vertex => Wire::Gemini,
            AdapterKind::Ollama | AdapterKind::OllamaCloud => Wire::Ollama,
            AdapterKind::BedrockApi => Wire::Converse,
            AdapterKind::Baidu if model.starts_with("baidu-coding-anthropic::") => Wire::Anthropic,
            _ => Wire::Chat,
        }
    }
}
