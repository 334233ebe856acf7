//! Thinking of Gemini models: a level since Gemini 3, a budget of tokens before.

use goondan_spec::kinds::ReasoningEffort;
use serde_json::{Value, json};

/// Beginnings of the names of models before Gemini 3.
const OLDER_MODELS: [&str; 4] = ["gemini-1", "gemini-2", "gemini-pro", "gemma"];

/// Beginnings of the names of Gemini models that do not think.
const UNTHINKING_MODELS: [&str; 2] = ["gemini-1", "gemini-2.0"];

/// Parts of the names of models for images, sound and vectors, which do not think.
const MEDIA_WORDS: [&str; 5] = ["image", "tts", "audio", "live", "embedding"];

/// Smallest budget of Gemini 2.5 Pro, which always thinks.
const MIN_PRO_BUDGET: u32 = 128;

/// Returns true if `model` is older than Gemini 3. Names without a version, such as
/// `gemini-pro-latest`, count as newer.
pub(super) fn is_older_than_3(model: &str) -> bool {
    let name = bare_name(model);
    let is_latest = name.ends_with("-latest") && !name.contains(|c: char| c.is_ascii_digit());
    !is_latest && OLDER_MODELS.iter().any(|start| name.starts_with(start))
}

/// Returns the field `thinkingConfig`. Google refuses a request for thoughts if the model does not
/// think.
pub(super) fn thinking_config(model: &str, effort: Option<ReasoningEffort>) -> Option<Value> {
    let Some(effort) = effort else {
        return thinks_by_default(model).then(|| json!({"includeThoughts": true}));
    };
    let mut config = if uses_level(model) {
        json!({"thinkingLevel": thinking_level(model, effort)})
    } else {
        json!({"thinkingBudget": budget(model, effort)})
    };
    if effort != ReasoningEffort::None {
        config["includeThoughts"] = true.into();
    }
    Some(config)
}

/// Returns the name of a model without a path.
fn bare_name(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or_default()
}

/// Returns true if the model thinks without a setting.
fn thinks_by_default(model: &str) -> bool {
    let name = bare_name(model);
    let is_unthinking = UNTHINKING_MODELS
        .iter()
        .any(|start| name.starts_with(start));
    let is_for_media = MEDIA_WORDS.iter().any(|word| name.contains(word));
    // Gemini 2.5 Flash-Lite thinks only if it has a budget.
    let needs_budget = name.contains("flash-lite") && is_older_than_3(name);
    name.starts_with("gemini-") && !(is_unthinking || is_for_media || needs_budget)
}

/// Returns true if the model has thinking levels instead of a budget.
fn uses_level(model: &str) -> bool {
    !is_older_than_3(model) || bare_name(model).starts_with("gemma-4")
}

/// Returns the thinking level for `effort`; thinking cannot be turned off.
fn thinking_level(model: &str, effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::None | ReasoningEffort::Minimal if model.contains("flash") => "MINIMAL",
        ReasoningEffort::None | ReasoningEffort::Minimal | ReasoningEffort::Low => "LOW",
        ReasoningEffort::Medium => "MEDIUM",
        ReasoningEffort::High | ReasoningEffort::XHigh | ReasoningEffort::Max => "HIGH",
    }
}

/// Returns the thinking budget in tokens.
fn budget(model: &str, effort: ReasoningEffort) -> u32 {
    match effort {
        ReasoningEffort::None if model.contains("pro") => MIN_PRO_BUDGET,
        ReasoningEffort::None => 0,
        ReasoningEffort::Minimal | ReasoningEffort::Low => 1000,
        ReasoningEffort::Medium => 8000,
        ReasoningEffort::High | ReasoningEffort::XHigh | ReasoningEffort::Max => 24_000,
    }
}
