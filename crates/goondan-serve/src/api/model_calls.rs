//! Routes of recorded model calls: list the calls, and show one call or its HTTP exchange.

use axum::Json;
use axum::extract::{Path, State};
use goondan::model_calls::RecordedModelCall;
use goondan::spec::Code;
use serde_json::{Value, json};

use super::ErrorResponses;
use crate::problem::ApiProblem;
use crate::service::Service;
use crate::wire::{HttpExchangeBody, ModelCallBody, ModelCallsBody};

/// List the latest model calls that this process recorded.
#[utoipa::path(get, path = "/api/model-calls", responses((status = 200, body = ModelCallsBody), ErrorResponses))]
pub(super) async fn list(State(service): State<Service>) -> Json<ModelCallsBody> {
    let calls = service.swarm().model_calls().all();
    let summary = |call: &RecordedModelCall| {
        json!({
            "spanId": call.span_id,
            "traceId": call.trace_id,
            "agentName": call.agent_name,
            "instanceKey": call.instance_key,
            "stepId": call.step_id,
            "provider": call.provider,
            "model": call.model,
            "startedAt": call.started_at,
            "durationMs": call.duration_ms,
            "failed": call.error.is_some(),
        })
    };
    Json(ModelCallsBody {
        limit: service.swarm().recorded_model_calls(),
        calls: calls.iter().map(|call| summary(call)).collect(),
    })
}

/// Return the request and the answer of a model call, without secrets.
#[utoipa::path(
    get,
    path = "/api/model-calls/{span}",
    params(("span" = String, Path, description = "The span ID of the model call.")),
    responses((status = 200, body = ModelCallBody), ErrorResponses),
)]
pub(super) async fn call(
    State(service): State<Service>,
    Path(span): Path<String>,
) -> Result<Json<ModelCallBody>, ApiProblem> {
    let call = service.swarm().model_calls().find(&span);
    let call = call.ok_or_else(|| not_recorded_error(&service))?;
    Ok(Json(ModelCallBody {
        has_http: call.http.is_some(),
        call: serde_json::to_value(&*call).unwrap_or_default(),
    }))
}

/// Return the HTTP request of a model call and the response, without secrets.
///
/// Keys in headers are variables such as `$OPENAI_API_KEY`.
#[utoipa::path(
    get,
    path = "/api/model-calls/{span}/http",
    params(("span" = String, Path, description = "The span ID of the model call.")),
    responses((status = 200, body = HttpExchangeBody), ErrorResponses),
)]
pub(super) async fn http(
    State(service): State<Service>,
    Path(span): Path<String>,
) -> Result<Json<HttpExchangeBody>, ApiProblem> {
    let call = service.swarm().model_calls().find(&span);
    let call = call.ok_or_else(|| not_recorded_error(&service))?;
    let exchange = call.http.as_ref().ok_or_else(|| {
        ApiProblem::new(Code::SERVE_NOT_FOUND, "This model is not called over HTTP.")
    })?;
    Ok(Json(HttpExchangeBody {
        exchange: serde_json::to_value(exchange).unwrap_or(Value::Null),
    }))
}

/// Error for a call that is not in the log.
fn not_recorded_error(service: &Service) -> ApiProblem {
    let problem = ApiProblem::new(Code::SERVE_NOT_FOUND, "This model call is not recorded.");
    match service.swarm().recorded_model_calls() {
        0 => {
            problem.suggest("Set `policy.telemetry.modelCalls` of the Swarm to record model calls.")
        }
        limit => problem.suggest(format!(
            "The process keeps its latest {limit} model calls. Set `policy.telemetry.modelCalls` \
             of the Swarm to keep more."
        )),
    }
}
