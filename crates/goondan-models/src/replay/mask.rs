//! Keeps secrets out of cassettes and exports.

use goondan_core::redact::SecretRedactor;
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource, TextOrSource};
use serde_json::Value;

/// Masks secrets in recorded data.
#[derive(Clone, Default)]
pub struct CassetteMask {
    redactor: SecretRedactor,
}

impl CassetteMask {
    /// Creates a mask for the values of variables that are named like secrets.
    pub fn of_environment(environment: &Environment) -> Self {
        let mask = CassetteMask::default();
        mask.redactor.add_environment(environment);
        mask
    }

    /// Creates a mask for the secrets of `redactor`.
    pub fn of_redactor(redactor: SecretRedactor) -> Self {
        CassetteMask { redactor }
    }

    /// Creates a mask for the key of `model`, the headers in its options, and variables that are
    /// named like secrets.
    pub(crate) fn for_model(model: &Resource<Model>, environment: &Environment) -> Self {
        let mask = CassetteMask::of_environment(environment);
        let key = model.spec.api_key.as_ref();
        mask.redactor
            .add_secrets(key.and_then(|source| environment.resolve(source, "apiKey").ok()));
        for (name, value) in &model.spec.options.headers {
            let secret = environment.resolve_text(value, name).ok();
            match value {
                TextOrSource::Source(_) => mask.redactor.add_secrets(secret),
                TextOrSource::Plain(_) => mask.redactor.add_likely_secrets(secret),
            }
        }
        mask
    }

    /// Returns `value` with all secrets masked, including in keys.
    pub fn apply(&self, mut value: Value) -> Value {
        self.redactor.clean_value(&mut value);
        value
    }
}
