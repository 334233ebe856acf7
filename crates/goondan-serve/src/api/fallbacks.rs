//! Answers to unknown paths and methods.

use goondan::spec::Code;

use crate::problem::ApiProblem;

/// Error 404 for an unknown path.
pub(super) async fn unknown_path_error() -> ApiProblem {
    ApiProblem::new(Code::SERVE_NOT_FOUND, "There is nothing at this URL.")
        .suggest("/openapi.json lists all URLs.")
}

/// Returns error 405 for an unsupported HTTP method.
pub(super) async fn wrong_method() -> ApiProblem {
    let problem = ApiProblem::new(
        Code::SERVE_REQUEST,
        "This URL does not support the HTTP method.",
    );
    ApiProblem {
        status: axum::http::StatusCode::METHOD_NOT_ALLOWED,
        ..problem
    }
    .suggest("/openapi.json lists the methods of each URL.")
}
