//! Agents as OpenAI models.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::bodies::OpenAiErrorResponses;
use super::error::OpenAiError;
use crate::requested_agent::find_agent;
use crate::service::Service;

/// Returns the error for an unknown model.
pub(super) fn unknown_model(service: &Service, model: &str) -> OpenAiError {
    let message = format!(
        "The model `{model}` does not exist. The models of this server are: {}.",
        names(service).join(", ")
    );
    OpenAiError::not_found(message)
        .with_param("model")
        .code("model_not_found")
}

/// Returns the model names, the swarm first.
fn names(service: &Service) -> Vec<String> {
    let (swarm, agents) = (service.swarm().name(), service.swarm().agents());
    let swarm = Some(swarm).filter(|swarm| !agents.contains(swarm));
    swarm.into_iter().chain(agents).collect()
}

/// Encodes a model.
fn body(service: &Service, name: &str) -> Value {
    json!({"id": name, "object": "model", "created": service.inner.openai_began, "owned_by": service.swarm().name()})
}

/// List the agents, as OpenAI models.
#[utoipa::path(
    get,
    path = "/v1/models",
    responses((status = 200, body = Object, description = "The models."), OpenAiErrorResponses),
)]
pub(super) async fn list(State(service): State<Service>) -> Json<Value> {
    let models: Vec<Value> = names(&service)
        .iter()
        .map(|name| body(&service, name))
        .collect();
    Json(json!({"object": "list", "data": models}))
}

/// Return an agent, as an OpenAI model.
#[utoipa::path(
    get,
    path = "/v1/models/{model}",
    params(("model" = String, Path, description = "The name of an agent, or of the swarm for its \
        entry agent.")),
    responses((status = 200, body = Object, description = "The model."), OpenAiErrorResponses),
)]
pub(super) async fn show(
    State(service): State<Service>,
    Path(model): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    match find_agent(&service, &model) {
        Some(_) => Ok(Json(body(&service, &model))),
        None => Err(unknown_model(&service, &model)),
    }
}
