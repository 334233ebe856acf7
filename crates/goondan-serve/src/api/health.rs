//! Health checks and metrics. The health checks need no token, because supervisors call them.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use serde_json::{Value, json};

use super::ErrorResponses;
use crate::metrics::MetricsFormat;
use crate::service::Service;

pub(super) async fn alive() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

pub(super) async fn ready(State(service): State<Service>) -> (StatusCode, Json<Value>) {
    if service.is_draining() {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            Json(json!({"status": "draining"})),
        )
    } else {
        (StatusCode::OK, Json(json!({"status": "ok"})))
    }
}

/// Return the swarm's metrics since the server began, for Prometheus.
///
/// The form depends on `Accept`: OpenMetrics for clients that name it, else Prometheus' text format.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, content((String = "text/plain"), (String = "application/openmetrics-text"))),
    ErrorResponses,
))]
pub(super) async fn metrics(
    State(service): State<Service>,
    headers: HeaderMap,
) -> ([(HeaderName, &'static str); 2], String) {
    let inner = &service.inner;
    let format = MetricsFormat::from_headers(&headers);
    (
        [(CONTENT_TYPE, format.media_type()), (VARY, "accept")],
        inner.metrics.text(inner.gateway.hub().running(), format),
    )
}
