//! Errors as responses: a status, and a body with a stable code.

use std::fmt;
use std::marker::PhantomData;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use goondan::SendError;
use goondan::ports::store::StoreError;
use goondan::spec::Code;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::wire::{ErrorBody, ProblemBody};

/// Why a request failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("[{code}] {message}")]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
}

impl Problem {
    /// That a body is larger than the server takes.
    pub(crate) fn too_large() -> Self {
        Problem::new(
            Code::SERVE_TOO_LARGE,
            "The body of the request is too large.",
        )
        .suggest("Send a smaller body, or start the server with a larger --max-body.")
    }

    /// A problem with that code; the code says which status it has.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Problem {
            status: status(code),
            code,
            message: message.into(),
            suggestion: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn suggest(self, suggestion: impl Into<String>) -> Self {
        Problem {
            suggestion: Some(suggestion.into()),
            ..self
        }
    }

    /// The body of the response.
    pub(crate) fn body(&self) -> ProblemBody {
        ProblemBody {
            error: ErrorBody {
                code: self.code.into(),
                message: self.message.clone(),
                suggestion: self.suggestion.clone(),
                help_url: Some(self.code.help_url()),
            },
        }
    }
}

fn status(code: Code) -> StatusCode {
    match code {
        Code::SERVE_TOKEN => StatusCode::UNAUTHORIZED,
        Code::SERVE_ORIGIN => StatusCode::FORBIDDEN,
        Code::SERVE_NOT_FOUND
        | Code::AGENT_NOT_FOUND
        | Code::INSTANCE_NOT_FOUND
        | Code::EVENT_NOT_FOUND => StatusCode::NOT_FOUND,
        Code::SERVE_TOO_LARGE | Code::AGENT_EVENT_TOO_LARGE => StatusCode::PAYLOAD_TOO_LARGE,
        Code::AGENT_QUEUE_FULL | Code::AGENT_INSTANCE_LIMIT => StatusCode::TOO_MANY_REQUESTS,
        Code::SWARM_STOPPING | Code::SWARM_STOPPED | Code::STORE => StatusCode::SERVICE_UNAVAILABLE,
        Code::SERVE_CLOSED => StatusCode::CONFLICT,
        Code::INTERNAL_ERROR => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(
                    "www-authenticate",
                    axum::http::HeaderValue::from_static("Bearer"),
                );
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert("retry-after", axum::http::HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        Problem {
            suggestion: error.suggestion,
            ..Problem::new(error.code, error.message)
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Problem::new(Code::STORE, error.to_string())
            .suggest("Look at the disk and at the log of the server.")
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return Problem::too_large();
        }
        Problem::new(Code::SERVE_REQUEST, rejection.body_text())
            .suggest("/openapi.json describes every body.")
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Problem::new(Code::SERVE_REQUEST, rejection.body_text())
            .suggest("/openapi.json describes every parameter.")
    }
}

/// A body of JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Json(Object(value)) = Json::from_request(request, state).await?;
        Ok(Body(value))
    }
}

/// What stands in an object. A list is none, even if its items are what the fields would be.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Parameters behind the question mark.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(value) = Query::from_request_parts(parts, state).await?;
        Ok(Asked(value))
    }
}
