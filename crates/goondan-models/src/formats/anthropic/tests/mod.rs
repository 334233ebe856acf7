mod answers;
mod any_conversation;
mod events;
mod requests;
mod validation;

use std::sync::Arc;

use crate::formats::ModelTarget;
use crate::formats::anthropic::AnthropicFormat;
use crate::provider::provider;

/// Returns the format for `model` at `provider`, with prompt caching.
fn format(name: &str, model: &str) -> Arc<AnthropicFormat> {
    Arc::new(AnthropicFormat::new(target(name, model, true)))
}

fn uncached_format(name: &str, model: &str) -> AnthropicFormat {
    AnthropicFormat::new(target(name, model, false))
}

fn target(name: &str, model: &str, prompt_caching: bool) -> ModelTarget {
    ModelTarget {
        provider: provider(name).expect("a provider"),
        model: model.to_owned(),
        prompt_caching,
    }
}
