//! Keeps secrets out of cassettes and exports.

use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource};
use serde_json::Value;

/// Parts of variable names that say that the value is secret.
const SECRET_NAMES: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// Shorter values are words like `true`, which must not vanish from texts.
const SHORTEST: usize = 6;

/// What must not be written down.
#[derive(Clone, Default)]
pub struct Mask {
    secrets: Vec<String>,
}

fn named_like_secrets(environment: &Environment) -> impl Iterator<Item = String> {
    let is_secret = |name: &str| {
        SECRET_NAMES
            .iter()
            .any(|part| name.to_uppercase().contains(part))
    };
    environment
        .iter()
        .filter(move |(name, _)| is_secret(name))
        .map(|(_, value)| value.to_owned())
}

impl Mask {
    /// The values of variables that are named like secrets.
    pub fn of_environment(environment: &Environment) -> Self {
        Mask::hiding(named_like_secrets(environment).collect())
    }

    /// The key of `model`, the headers in its options, and variables that are named like secrets.
    pub(crate) fn of(model: &Resource<Model>, environment: &Environment) -> Self {
        let mut secrets: Vec<String> = named_like_secrets(environment).collect();
        let key = model
            .spec
            .api_key
            .as_ref()
            .and_then(|source| environment.resolve(source, "apiKey").ok());
        secrets.extend(key.map(|key| key.expose().to_owned()));
        let headers = model.spec.options.headers.iter();
        let resolved =
            headers.filter_map(|(name, value)| environment.resolve_text(value, name).ok());
        secrets.extend(resolved.map(|header| header.expose().to_owned()));
        Mask::hiding(secrets)
    }

    fn hiding(mut secrets: Vec<String>) -> Self {
        secrets.retain(|secret| secret.trim().len() >= SHORTEST);
        // The longest first: one secret may be the beginning of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Mask { secrets }
    }

    /// `value` with every secret in it masked, in keys too.
    pub fn apply(&self, value: Value) -> Value {
        if self.secrets.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.apply(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (self.text(name), self.apply(value)))
                    .collect(),
            ),
            other => other,
        }
    }

    fn text(&self, text: String) -> String {
        self.secrets
            .iter()
            .fold(text, |text, secret| match text.contains(secret.as_str()) {
                true => text.replace(secret.as_str(), "***"),
                false => text,
            })
    }
}
