//! API key of a Model, from the variable that its resource or its provider names.

use goondan_core::ports::model::ModelError;
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource, Secret, ValueSource};

use crate::errors::missing_key_error;
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

/// Returns the key in the `apiKey` of `model`, else the key in the provider's variable. A Model
/// with its own endpoint never gets the provider's key, because another server would receive it.
///
/// # Errors
/// A variable is not set.
pub(crate) fn find(
    model: &Resource<Model>,
    provider: &ModelProvider,
    environment: &Environment,
) -> Result<ApiKey, ModelError> {
    match &model.spec.api_key {
        Some(source) => declared_key(model, source, environment),
        None => from_provider_variable(model, provider, environment),
    }
}

/// Returns the key in the Model's `apiKey`.
fn declared_key(
    model: &Resource<Model>,
    source: &ValueSource,
    environment: &Environment,
) -> Result<ApiKey, ModelError> {
    let value = environment.resolve(source, "apiKey").map_err(|names| {
        missing_key_error(
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

/// Returns the key in the provider's variable. Fails if the variable is not set. Returns no key if
/// the provider needs none, or if the Model has its own endpoint (see [`find`]).
fn from_provider_variable(
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
        None => Err(missing_key_error(
            format!("{} has no key, which {} requires.", model.id, provider.name),
            format!(
                "Set {variable}, and write `apiKey: {{valueFrom: {{env: {variable}}}}}` in {}.",
                model.id
            ),
        )),
    }
}
