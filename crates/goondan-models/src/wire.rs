//! The wire formats that providers speak.

use genai::adapter::AdapterKind;
pub use goondan_spec::sent_schema::Wire;

/// What `adapter` speaks to `model`.
pub(crate) fn wire_of(adapter: AdapterKind, model: &str) -> Wire {
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
