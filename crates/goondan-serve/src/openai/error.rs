//! Errors in OpenAI's shape.

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use goondan::SendError;
use goondan::event::TurnError;
use goondan::spec::Code;
use serde_json::{Value, json};

use crate::problem::Problem;

/// Whether a client that tries again by itself shall do so.
const SHOULD_RETRY: &str = "x-should-retry";

/// Why a request failed.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<String>,
    /// The turn has run: a client that asks again by itself would begin another one.
    is_final: bool,
}

impl ApiError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        ApiError {
            status,
            message: message.into(),
            param: None,
            code: None,
            is_final: false,
        }
    }

    /// A request that makes no sense, and the parameter that is to blame.
    pub(super) fn parameter(param: impl Into<String>, message: impl Into<String>) -> Self {
        ApiError {
            param: Some(param.into()),
            ..ApiError::new(StatusCode::BAD_REQUEST, message)
        }
    }

    /// A request that makes no sense as a whole.
    pub(super) fn request(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// Something that is not there.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::NOT_FOUND, message)
    }

    /// An address that takes no such method.
    pub(super) fn method(message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message)
    }

    /// Says which parameter is to blame.
    #[must_use]
    pub(super) fn about(self, param: &str) -> Self {
        ApiError {
            param: Some(param.to_owned()),
            ..self
        }
    }

    /// Gives it a code.
    #[must_use]
    pub(super) fn code(self, code: impl Into<String>) -> Self {
        ApiError {
            code: Some(code.into()),
            ..self
        }
    }

    /// The swarm ended before the turn did.
    pub(super) fn stopped() -> Self {
        let message = "The swarm ended before the turn did. The turn resumes at the next start.";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message).code(Code::SWARM_STOPPED)
    }

    /// The answer was begun a second time, in other words.
    pub(super) fn begun_again() -> Self {
        let message = "The model's answer broke off and was begun again in other words, so this stream can't go on. The turn \
                       goes on: the conversation has the whole answer.";
        ApiError {
            is_final: true,
            ..ApiError::new(StatusCode::BAD_GATEWAY, message)
        }
        .code("answer_begun_again")
    }

    /// The class of the error, of those that OpenAI has.
    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The `error` of a body or of a chunk.
    pub(super) fn body(&self) -> Value {
        json!({"message": self.message, "type": self.kind(), "param": self.param, "code": self.code})
    }

    /// The `error` of a response that failed: its codes are those of OpenAI alone, so ours stands in the message.
    pub(super) fn of_response(&self) -> Value {
        let code = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_exceeded",
            _ => "server_error",
        };
        let ours = self
            .code
            .as_ref()
            .map(|code| format!("[{code}] "))
            .unwrap_or_default();
        json!({"code": code, "message": format!("{ours}{}", self.message)})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({"error": self.body()}))).into_response();
        let headers = response.headers_mut();
        if self.is_final {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        } else if matches!(
            self.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        ) {
            headers.insert("retry-after", HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        let message = match &problem.suggestion {
            Some(suggestion) => format!("{} {suggestion}", sentence(&problem.message)),
            None => problem.message.clone(),
        };
        let code = match problem.code {
            Code::SERVE_TOKEN => "invalid_api_key".to_owned(),
            code => code.into(),
        };
        ApiError::new(problem.status, message).code(code)
    }
}

impl From<SendError> for ApiError {
    fn from(error: SendError) -> Self {
        Problem::from(error).into()
    }
}

impl From<&TurnError> for ApiError {
    fn from(error: &TurnError) -> Self {
        // What the provider has against its own client is not what this server has against its: 401 would mean its token.
        let status = match error.status {
            Some(429) => StatusCode::TOO_MANY_REQUESTS,
            Some(_) => StatusCode::BAD_GATEWAY,
            None => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let message = match &error.suggestion {
            Some(suggestion) => format!("{} {suggestion}", sentence(&error.message)),
            None => error.message.clone(),
        };
        ApiError {
            is_final: true,
            ..ApiError::new(status, message)
        }
        .code(error.code.clone())
    }
}

/// A sentence that another one may follow.
fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{text}{end}")
}
