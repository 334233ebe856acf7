//! The swarm as a whole: identity, reload, and tool calls without a model.

use axum::Json;
use axum::extract::{Path, State};
use goondan::ports::model::ToolDefinition;
use goondan::spec::{Code, Diagnostic};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::ErrorResponses;
use crate::problem::{ApiProblem, JsonBody, QueryParams};
use crate::service::Service;
use crate::wire::{CallBody, ReloadBody, SwarmBody};

/// Return the name, agents, generation and version of the swarm.
#[utoipa::path(get, path = "/api/swarm", responses((status = 200, body = SwarmBody), ErrorResponses))]
pub(super) async fn swarm(State(service): State<Service>) -> Json<SwarmBody> {
    let swarm = service.swarm();
    Json(SwarmBody {
        name: swarm.name(),
        entry_agent: swarm.entry_agent(),
        agents: swarm.agents(),
        generation: swarm.generation(),
        version: service.inner.version.clone(),
    })
}

/// Reload the project. If it has errors, the active generation stays.
#[utoipa::path(post, path = "/api/reload", responses((status = 200, body = ReloadBody), ErrorResponses))]
pub(super) async fn reload(State(service): State<Service>) -> Json<ReloadBody> {
    let outcome = service.swarm().reload().await;
    let diagnostics = outcome.result.as_ref().err().unwrap_or(&outcome.warnings);
    Json(ReloadBody {
        generation: service.swarm().generation(),
        ok: outcome.result.is_ok(),
        diagnostics: diagnostics.iter().map(as_json).collect(),
    })
}

/// Encodes a diagnostic.
fn as_json(diagnostic: &Diagnostic) -> Value {
    serde_json::to_value(diagnostic).unwrap_or_default()
}

/// Filter for the list of tools.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ToolListFilter {
    /// Agent. Default: the swarm's entry agent.
    agent: Option<String>,
}

/// List the tools that an agent's model can call.
#[utoipa::path(get, path = "/api/tools", params(ToolListFilter), responses((status = 200, body = Vec<Object>), ErrorResponses))]
pub(super) async fn tools(
    State(service): State<Service>,
    QueryParams(filter): QueryParams<ToolListFilter>,
) -> Result<Json<Vec<ToolDefinition>>, ApiProblem> {
    let swarm = service.swarm();
    let agent = filter.agent.unwrap_or_else(|| swarm.entry_agent());
    swarm.catalog(&agent).map(Json).ok_or_else(|| {
        ApiProblem::new(
            Code::AGENT_NOT_FOUND,
            format!("Swarm `{}` has no agent `{agent}`.", swarm.name()),
        )
        .suggest(format!("Use one of: {}.", swarm.agents().join(", ")))
    })
}

/// Call a tool with the agent's permissions, approvals and limits, but without a model.
#[utoipa::path(
    post,
    path = "/api/tools/{tool}",
    params(("tool" = String, Path, description = "Tool name, such as `file-system__read`.")),
    request_body = CallBody,
    responses((status = 200, body = Object, description = "The result of the call, possibly an \
        error."), ErrorResponses),
)]
pub(super) async fn call(
    State(service): State<Service>,
    Path(tool): Path<String>,
    JsonBody(body): JsonBody<CallBody>,
) -> Result<Json<Value>, ApiProblem> {
    let arguments = match body.arguments {
        Value::Null => Value::Object(Default::default()),
        arguments => arguments,
    };
    let (agent, key) = (body.agent.as_deref(), body.instance_key.as_deref());
    let result = service
        .swarm()
        .call_tool(agent, key, &tool, arguments)
        .await?;
    Ok(Json(serde_json::to_value(result).unwrap_or_default()))
}
