//! Names that the conventions of OpenTelemetry for generative AI lay down.

use goondan_core::ports::model::ModelFinishReason;

/// What the conventions call a provider; where they do not know it, its own name.
pub(crate) fn provider(name: &str) -> &str {
    match name {
        "bedrock" => "aws.bedrock",
        "gemini" | "google" => "gcp.gemini",
        "kimi" | "moonshot" => "moonshot_ai",
        "mistral" => "mistral_ai",
        "vertex" => "gcp.vertex_ai",
        "xai" => "x_ai",
        // Others that speak its format.
        "openai-compatible" => "openai",
        other => other,
    }
}

/// Returns the name of the reason why a model ended its answer.
pub(crate) fn finish_reason(reason: &ModelFinishReason) -> &str {
    match reason {
        ModelFinishReason::ToolCalls => "tool_calls",
        ModelFinishReason::Length | ModelFinishReason::ContextWindow => "length",
        other => other.as_str(),
    }
}

/// Whether a model of that provider answers within the process.
pub(crate) fn is_inside(provider: &str) -> bool {
    matches!(provider, "scripted" | "replay")
}
