//! The key of a Model.

use goondan_core::ports::model::ModelError;
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource, Secret, ValueSource};

use crate::error::no_key;
use crate::table::Provider;

/// A key and where it came from.
pub(crate) struct Key {
    /// Absent where none is needed.
    pub(crate) value: Option<Secret>,
    /// What to tell a person to look at.
    pub(crate) place: String,
}

/// The key that `model` asks for, or the provider's customary variable. A Model with an address of its own needs
/// none, and is never given the customary one: that belongs to the provider, not to a stranger.
pub(crate) fn find(
    model: &Resource<Model>,
    provider: &Provider,
    environment: &Environment,
) -> Result<Key, ModelError> {
    match &model.spec.api_key {
        Some(source) => declared(model, source, environment),
        None => customary(model, provider, environment),
    }
}

fn declared(
    model: &Resource<Model>,
    source: &ValueSource,
    environment: &Environment,
) -> Result<Key, ModelError> {
    let value = environment.resolve(source, "apiKey").map_err(|names| {
        no_key(
            format!(
                "the key of {} is missing: {} is not set",
                model.id,
                names.join(" or ")
            ),
            format!("set {} in the environment or in a .env file", names[0]),
        )
    })?;
    let place = match source {
        ValueSource::Value(_) => format!("the value under apiKey of {}", model.id),
        ValueSource::Env(name) => format!("the variable {name}"),
        ValueSource::SecretRef { name, .. } => format!("Secret/{name}"),
    };
    Ok(Key {
        value: Some(Secret::new(value.expose().trim())),
        place,
    })
}

fn customary(
    model: &Resource<Model>,
    provider: &Provider,
    environment: &Environment,
) -> Result<Key, ModelError> {
    let Some(variable) = provider.key_variable else {
        return Ok(Key {
            value: None,
            place: format!("apiKey of {}", model.id),
        });
    };
    let place = format!("the variable {variable}");
    if model.spec.endpoint.is_some() {
        return Ok(Key {
            value: None,
            place: format!("apiKey of {}", model.id),
        });
    }
    match environment.get(variable) {
        Some(value) => Ok(Key {
            value: Some(Secret::new(value.trim())),
            place,
        }),
        None => Err(no_key(
            format!("{} has no key: {} needs one", model.id, provider.name),
            format!(
                "set {variable}, and in {} write `apiKey: {{valueFrom: {{env: {variable}}}}}`",
                model.id
            ),
        )),
    }
}
