//! Errors in OpenAI's form.

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use goondan::event::TurnError;
use goondan::gateway::SubmissionError;
use goondan::spec::Code;
use serde_json::{Value, json};

use crate::error_table::{SWARM_STOPPED, openai_type};
use crate::problem::ApiProblem;

/// Header that allows or forbids automatic retries of the client.
const SHOULD_RETRY: &str = "x-should-retry";

#[derive(Debug, Clone)]
pub(crate) struct OpenAiError {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<String>,
    /// The turn has run: an automatic retry would start another turn.
    is_final: bool,
}

impl OpenAiError {
    /// Creates an error without parameter and code.
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        OpenAiError {
            status,
            message: message.into(),
            param: None,
            code: None,
            is_final: false,
        }
    }

    /// Error for the value of the parameter `param`.
    pub(super) fn invalid_param(param: impl Into<String>, message: impl Into<String>) -> Self {
        OpenAiError {
            param: Some(param.into()),
            ..OpenAiError::new(StatusCode::BAD_REQUEST, message)
        }
    }

    /// Error for a request that is invalid as a whole.
    pub(super) fn request(message: impl Into<String>) -> Self {
        OpenAiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// Error 404.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        OpenAiError::new(StatusCode::NOT_FOUND, message)
    }

    /// Error 405.
    pub(super) fn method_not_allowed(message: impl Into<String>) -> Self {
        OpenAiError::new(StatusCode::METHOD_NOT_ALLOWED, message)
    }

    /// Sets the parameter that the error is about.
    #[must_use]
    pub(super) fn with_param(self, param: &str) -> Self {
        OpenAiError {
            param: Some(param.to_owned()),
            ..self
        }
    }

    /// Sets the error code.
    #[must_use]
    pub(super) fn code(self, code: impl Into<String>) -> Self {
        OpenAiError {
            code: Some(code.into()),
            ..self
        }
    }

    /// Error for a swarm that stopped during the turn.
    pub(super) fn swarm_stopped() -> Self {
        ApiProblem::new(Code::SWARM_STOPPED, SWARM_STOPPED).into()
    }

    /// The model call was retried and produced a different answer, so sent text is wrong.
    pub(super) fn begun_again() -> Self {
        let message = "The model call failed and was retried with a different answer, so this \
            stream cannot continue. The turn continues: the conversation will contain the complete \
            answer.";
        OpenAiError {
            is_final: true,
            ..OpenAiError::new(StatusCode::BAD_GATEWAY, message)
        }
        .code("answer_begun_again")
    }

    /// Encodes the error.
    pub(super) fn body(&self) -> Value {
        json!({"message": self.message, "type": openai_type(self.status), "param": self.param, "code": self.code})
    }

    /// Returns the `error` of a failed response. OpenAI defines its codes, so the message contains
    /// ours.
    pub(super) fn of_response(&self) -> Value {
        let code = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_exceeded",
            _ => "server_error",
        };
        let code_prefix = self
            .code
            .as_ref()
            .map(|code| format!("[{code}] "))
            .unwrap_or_default();
        json!({"code": code, "message": format!("{code_prefix}{}", self.message)})
    }
}

impl IntoResponse for OpenAiError {
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

impl From<ApiProblem> for OpenAiError {
    fn from(problem: ApiProblem) -> Self {
        let message = match &problem.suggestion {
            Some(suggestion) => format!("{} {suggestion}", as_sentence(&problem.message)),
            None => problem.message.clone(),
        };
        let code = match problem.code {
            Code::SERVE_TOKEN => "invalid_api_key".to_owned(),
            code => code.into(),
        };
        OpenAiError::new(problem.status, message).code(code)
    }
}

impl From<SubmissionError> for OpenAiError {
    fn from(error: SubmissionError) -> Self {
        ApiProblem::from(error).into()
    }
}

impl From<&TurnError> for OpenAiError {
    fn from(error: &TurnError) -> Self {
        // The provider's status concerns its own client. For example, 401 would mean an invalid
        // server token here.
        let status = match error.status {
            Some(429) => StatusCode::TOO_MANY_REQUESTS,
            Some(_) => StatusCode::BAD_GATEWAY,
            None => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let message = match &error.suggestion {
            Some(suggestion) => format!("{} {suggestion}", as_sentence(&error.message)),
            None => error.message.clone(),
        };
        OpenAiError {
            is_final: true,
            ..OpenAiError::new(status, message)
        }
        .code(error.code.clone())
    }
}

/// Ends a text with a full stop if it has no end mark.
fn as_sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{text}{end}")
}
