//! Keeps secrets out of cassettes and exports.

use goondan_core::redact::Redactor;
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource, TextOrSource};
use serde_json::Value;

/// What must not be written down.
#[derive(Clone, Default)]
pub struct Mask {
    redactor: Redactor,
}

impl Mask {
    /// The values of variables that are named like secrets.
    pub fn of_environment(environment: &Environment) -> Self {
        let mask = Mask::default();
        mask.redactor.learn_environment(environment);
        mask
    }

    /// The key of `model`, the headers in its options, and variables that are named like secrets.
    pub(crate) fn of(model: &Resource<Model>, environment: &Environment) -> Self {
        let mask = Mask::of_environment(environment);
        let key = model.spec.api_key.as_ref();
        mask.redactor
            .learn(key.and_then(|source| environment.resolve(source, "apiKey").ok()));
        for (name, value) in &model.spec.options.headers {
            let secret = environment.resolve_text(value, name).ok();
            match value {
                TextOrSource::Source(_) => mask.redactor.learn(secret),
                TextOrSource::Plain(_) => mask.redactor.learn_guesses(secret),
            }
        }
        mask
    }

    /// `value` with every secret in it masked, in keys too.
    pub fn apply(&self, mut value: Value) -> Value {
        self.redactor.clean_value(&mut value);
        value
    }
}
