//! Whether the server is alive, and whether it takes inputs. Neither needs the token: supervisors ask.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::service::Service;

pub(super) async fn alive() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

pub(super) async fn ready(State(service): State<Service>) -> (StatusCode, Json<Value>) {
    match service.is_draining() {
        false => (StatusCode::OK, Json(json!({"status": "ok"}))),
        true => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "draining"}))),
    }
}
