//! Error responses in the OpenAPI document.

/// Error responses of the server.
#[derive(utoipa::IntoResponses)]
#[expect(dead_code, reason = "used only in the OpenAPI document")]
pub(crate) enum ErrorResponses {
    /// The request is invalid.
    #[response(status = 400)]
    Request(crate::wire::ProblemBody),
    /// The token is missing or wrong.
    #[response(status = 401)]
    Token(crate::wire::ProblemBody),
    /// The host or the origin is not allowed.
    #[response(status = 403)]
    Origin(crate::wire::ProblemBody),
    /// The requested object does not exist.
    #[response(status = 404)]
    NotFound(crate::wire::ProblemBody),
    /// Another client was faster, or used the same id.
    #[response(status = 409)]
    Closed(crate::wire::ProblemBody),
    /// A project file has changed since the client read it.
    #[response(status = 412)]
    FileChanged(crate::wire::ProblemBody),
    /// The request body is too large.
    #[response(status = 413)]
    TooLarge(crate::wire::ProblemBody),
    /// There are too many requests or inputs.
    #[response(status = 429)]
    TooMany(crate::wire::ProblemBody),
    /// The server is stopping, or its disk fails.
    #[response(status = 503)]
    Unavailable(crate::wire::ProblemBody),
}
