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
use goondan::spec::{Code, Diagnostic};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error_table;
use crate::wire::{ErrorBody, ProblemBody};

#[derive(Debug, Clone, thiserror::Error)]
#[error("[{code}] {message}")]
pub(crate) struct ApiProblem {
    pub(crate) status: StatusCode,
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
}

impl ApiProblem {
    /// Error for a body that is too large.
    pub(crate) fn too_large() -> Self {
        ApiProblem::new(
            Code::SERVE_TOO_LARGE,
            "The body of the request is too large.",
        )
        .suggest("Send a smaller body, or start the server with a larger --max-body.")
    }

    /// Creates a problem. The code determines the status.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        ApiProblem {
            status: error_table::status(code),
            code,
            message: message.into(),
            suggestion: None,
        }
    }

    /// Adds a suggestion.
    #[must_use]
    pub(crate) fn suggest(self, suggestion: impl Into<String>) -> Self {
        ApiProblem {
            suggestion: Some(suggestion.into()),
            ..self
        }
    }

    /// Encodes the problem.
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

impl IntoResponse for ApiProblem {
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

impl From<SendError> for ApiProblem {
    fn from(error: SendError) -> Self {
        ApiProblem {
            suggestion: error.suggestion,
            ..ApiProblem::new(error.code, error.message)
        }
    }
}

impl From<Diagnostic> for ApiProblem {
    fn from(error: Diagnostic) -> Self {
        ApiProblem {
            suggestion: error.suggestion,
            ..ApiProblem::new(error.code, error.message)
        }
    }
}

impl From<StoreError> for ApiProblem {
    fn from(error: StoreError) -> Self {
        ApiProblem::new(Code::STORE, error.to_string())
            .suggest("Check the disk and the server log.")
    }
}

impl From<JsonRejection> for ApiProblem {
    fn from(rejection: JsonRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return ApiProblem::too_large();
        }
        ApiProblem::new(Code::SERVE_REQUEST, rejection.body_text())
            .suggest("/openapi.json describes every body.")
    }
}

impl From<QueryRejection> for ApiProblem {
    fn from(rejection: QueryRejection) -> Self {
        ApiProblem::new(Code::SERVE_REQUEST, rejection.body_text())
            .suggest("/openapi.json describes every parameter.")
    }
}

/// Extractor of a JSON object body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiProblem> {
        let Json(JsonObjectOnly(value)) = Json::from_request(request, state).await?;
        Ok(JsonBody(value))
    }
}

/// Value that is read only from a JSON object. Serde would also accept a list of the field values.
struct JsonObjectOnly<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObjectOnly<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = JsonObjectOnly<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JsonObjectOnly<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(JsonObjectOnly)
    }
}

/// Extractor of query parameters.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiProblem> {
        let Query(value) = Query::from_request_parts(parts, state).await?;
        Ok(QueryParams(value))
    }
}
