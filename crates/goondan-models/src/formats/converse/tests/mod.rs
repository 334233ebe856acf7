mod answers;
mod requests;
mod validation;

use std::sync::Arc;

use crate::formats::ModelTarget;
use crate::formats::converse::ConverseFormat;
use crate::provider::provider;

const CLAUDE: &str = "anthropic.claude-sonnet-4-5-20250929-v1:0";

/// Returns the format for `model`, with prompt caching.
fn format(model: &str) -> Arc<ConverseFormat> {
    Arc::new(ConverseFormat::new(ModelTarget {
        provider: provider("bedrock").expect("a provider"),
        model: model.to_owned(),
        prompt_caching: true,
    }))
}
