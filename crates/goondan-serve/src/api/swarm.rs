//! The swarm as a whole: who it is, its reload, and its tools without a model.

use axum::Json;
use axum::extract::{Path, State};
use goondan::ports::model::ToolDefinition;
use goondan::spec::{Code, Diagnostic};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::Problems;
use crate::problem::{Asked, Body, Problem};
use crate::service::Service;
use crate::wire::{CallBody, ReloadBody, SwarmBody};

/// Tells who the swarm is.
#[utoipa::path(get, path = "/api/swarm", responses((status = 200, body = SwarmBody), Problems))]
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

/// Reads the project again. Where it has errors, the generation that serves stays.
#[utoipa::path(post, path = "/api/reload", responses((status = 200, body = ReloadBody), Problems))]
pub(super) async fn reload(State(service): State<Service>) -> Json<ReloadBody> {
    let outcome = service.swarm().reload().await;
    let diagnostics = outcome.result.as_ref().err().unwrap_or(&outcome.warnings);
    Json(ReloadBody {
        generation: service.swarm().generation(),
        ok: outcome.result.is_ok(),
        diagnostics: diagnostics.iter().map(as_json).collect(),
    })
}

fn as_json(diagnostic: &Diagnostic) -> Value {
    serde_json::to_value(diagnostic).unwrap_or_default()
}

/// Whose tools are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Whose {
    /// The agent; the swarm's entry agent by default.
    agent: Option<String>,
}

/// Lists the tools that an agent's model is offered.
#[utoipa::path(get, path = "/api/tools", params(Whose), responses((status = 200, body = Vec<Object>), Problems))]
pub(super) async fn tools(
    State(service): State<Service>,
    Asked(whose): Asked<Whose>,
) -> Result<Json<Vec<ToolDefinition>>, Problem> {
    let swarm = service.swarm();
    let agent = whose.agent.unwrap_or_else(|| swarm.entry_agent());
    swarm.catalog(&agent).map(Json).ok_or_else(|| {
        Problem::new(
            Code::AGENT_NOT_FOUND,
            format!("The swarm {} has no agent `{agent}`.", swarm.name()),
        )
        .suggest(format!("Its agents are: {}.", swarm.agents().join(", ")))
    })
}

/// Calls a tool as an agent would: the same permissions, questions and limits, without a model.
#[utoipa::path(
    post,
    path = "/api/tools/{tool}",
    params(("tool" = String, Path, description = "Such as `file-system__read`.")),
    request_body = CallBody,
    responses((status = 200, body = Object, description = "The result of the call, which may be an error."), Problems),
)]
pub(super) async fn call(
    State(service): State<Service>,
    Path(tool): Path<String>,
    Body(body): Body<CallBody>,
) -> Result<Json<Value>, Problem> {
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
