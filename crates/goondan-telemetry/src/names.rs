//! Names in the OpenTelemetry conventions for generative AI.

use goondan_core::ports::model::ModelFinishReason;

/// Returns the conventional name of a provider; unknown providers keep their name.
pub(crate) fn provider(name: &str) -> &str {
    match name {
        "bedrock" => "aws.bedrock",
        "gemini" | "google" => "gcp.gemini",
        "kimi" | "moonshot" => "moonshot_ai",
        "mistral" => "mistral_ai",
        "vertex" => "gcp.vertex_ai",
        "xai" => "x_ai",
        // Servers that implement the API of OpenAI.
        "openai-compatible" => "openai",
        other => other,
    }
}

/// Returns the conventional name of the reason why a model ended its answer.
pub(crate) fn finish_reason(reason: &ModelFinishReason) -> &str {
    match reason {
        ModelFinishReason::ToolCalls => "tool_calls",
        ModelFinishReason::Length | ModelFinishReason::ContextWindow => "length",
        other => other.as_str(),
    }
}

/// Returns true if models of this provider run inside this process.
pub(crate) fn is_inside(provider: &str) -> bool {
    matches!(provider, "scripted" | "replay")
}
