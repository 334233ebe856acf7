//! `kind: Model`.

use std::collections::BTreeMap;

use crate::{JsonObject, ValueSource};

/// A model behind a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// `openai`, `anthropic`, `google`, `ollama`, `scripted`, `replay` …
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
    /// The key, if the provider wants one.
    pub api_key: Option<ValueSource>,
    /// Another address than the provider's own.
    pub endpoint: Option<String>,
    /// Free settings for the client, such as `maxRetries` or a script.
    pub options: JsonObject,
    /// What the model is said to be able to do.
    pub capabilities: BTreeMap<String, bool>,
}
