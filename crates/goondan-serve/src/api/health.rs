//! Health checks and metrics. The health checks need no token, because supervisors call them.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use serde_json::{Value, json};

use super::ErrorResponses;
use crate::metrics::MEDIA_TYPE;
use crate::service::Service;

pub(super) async fn alive() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

pub(super) async fn ready(State(service): State<Service>) -> (StatusCode, Json<Value>) {
    match service.is_draining() {
        false => (StatusCode::OK, Json(json!({"status": "ok"}))),
        true => (
            StatusCode::SERVICE_UNAVAILABLE,
            Json(json!({"status": "draining"})),
        ),
    }
}

/// Return the swarm's metrics since the server began, for Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String, content_type = "application/openmetrics-text"), ErrorResponses))]
pub(super) async fn metrics(
    State(service): State<Service>,
) -> ([(HeaderName, &'static str); 1], String) {
    let inner = &service.inner;
    (
        [(CONTENT_TYPE, MEDIA_TYPE)],
        inner.metrics.text(inner.hub.running()),
    )
}
