//! The key of a Model.

use goondan_core::ports::model::ModelError;
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource, Secret, ValueSource};

use crate::errors::no_key;
use crate::provider::ModelProvider;

/// A key and its origin.
pub(crate) struct ApiKey {
    /// Absent if the provider needs no key.
    pub(crate) value: Option<Secret>,
    /// Place of the key, for error messages.
    pub(crate) origin: String,
    /// Variable with the key; `None` if the key comes from elsewhere.
    pub(crate) variable: Option<String>,
}

/// Returns the key of `model`, or the one in the provider's usual variable. A Model with its own endpoint never gets
/// the usual key: that key belongs to the provider, not to the server at another address.
///
/// # Errors
/// A variable is not set.
pub(crate) fn find(
    model: &Resource<Model>,
    provider: &ModelProvider,
    environment: &Environment,
) -> Result<ApiKey, ModelError> {
    match &model.spec.api_key {
        Some(source) => declared(model, source, environment),
        None => usual(model, provider, environment),
    }
}

/// Returns the key in the Model's `apiKey`.
fn declared(
    model: &Resource<Model>,
    source: &ValueSource,
    environment: &Environment,
) -> Result<ApiKey, ModelError> {
    let value = environment.resolve(source, "apiKey").map_err(|names| {
        no_key(
            format!(
                "The key of {} is missing: {} is not set.",
                model.id,
                names.join(" or ")
            ),
            format!("Set {} in the environment or in a .env file.", names[0]),
        )
    })?;
    let origin = match source {
        ValueSource::Value(_) => format!("`apiKey` of {}", model.id),
        ValueSource::Env(name) => format!("the variable {name}"),
        ValueSource::SecretRef { name, .. } => format!("Secret/{name}"),
    };
    let variable = match source {
        ValueSource::Env(name) => Some(name.clone()),
        _ => None,
    };
    Ok(ApiKey {
        value: Some(Secret::new(value.expose().trim())),
        origin,
        variable,
    })
}

/// Returns the key in the provider's variable. Fails if the provider requires a key and the
/// variable is not set.
fn usual(
    model: &Resource<Model>,
    provider: &ModelProvider,
    environment: &Environment,
) -> Result<ApiKey, ModelError> {
    let Some(variable) = provider
        .key_variable
        .as_ref()
        .filter(|_| model.spec.endpoint.is_none())
    else {
        return Ok(ApiKey {
            value: None,
            origin: format!("`apiKey` of {}", model.id),
            variable: None,
        });
    };
    match environment.get(variable) {
        Some(value) => {
            let value = Some(Secret::new(value.trim()));
            Ok(ApiKey {
                value,
                origin: format!("the variable {variable}"),
                variable: Some(variable.clone()),
            })
        }
        None => Err(no_key(
            format!("{} has no key, which {} requires.", model.id, provider.name),
            format!(
                "Set {variable}, and write `apiKey: {{valueFrom: {{env: {variable}}}}}` in {}.",
                model.id
            ),
        )),
    }
}
