//! Pages that are delivered beside the swarm, so that they need no server of their own.

use std::path::Path;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use goondan::spec::Code;
use tower_http::services::ServeDir;

use crate::problem::Problem;

/// The files of a folder.
pub(super) fn files(folder: &Path) -> ServeDir {
    ServeDir::new(folder)
}

/// Answers with the file that a request is for. Names that begin with a dot stay private: whoever publishes a folder seldom
/// means its `.env` or `.git`.
pub(super) async fn file(mut files: ServeDir, request: Request) -> Response {
    if has_hidden_name(request.uri().path()) {
        return super::nothing_there().await.into_response();
    }
    match files.try_call(request).await {
        Ok(response) if response.status() == StatusCode::NOT_FOUND => super::nothing_there().await.into_response(),
        Ok(response) => response.map(Body::new),
        Err(error) => Problem::new(Code::INTERNAL_ERROR, format!("The file can't be read: {error}.")).into_response(),
    }
}

/// Whether a part of the path begins with a dot, however that is written.
fn has_hidden_name(path: &str) -> bool {
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    path.split(['/', '\\']).any(|name| name.starts_with('.'))
}
