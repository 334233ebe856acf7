//! What requests of both APIs have in common: how they are read, and what of them is not taken.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use goondan::spec::{Code, JsonObject};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::begin::{Again, Ask};
use super::error::ApiError;
use super::format::{self, Names};
use super::message::Talk;
use super::models;
use crate::caller::caller;
use crate::problem::Problem;
use crate::service::Service;

/// The header, and the metadata, that name a conversation.
pub(super) const INSTANCE_HEADER: &str = "x-goondan-instance";
const INSTANCE_KEY: &str = "instanceKey";

/// A request that was read.
pub(super) struct Request {
    fields: Map<String, Value>,
    again: Again,
    instance_key: Option<String>,
}

/// A parameter that would change what the answer is, and that this server can't heed. Others are ignored.
pub(super) struct Rule {
    /// Its name; behind a dot, a field of it.
    pub(super) name: &'static str,
    /// Values that ask for what this server does anyway.
    pub(super) fine: &'static [&'static str],
    /// Why it is refused.
    pub(super) why: &'static str,
}

impl Request {
    /// Reads a request for that address.
    pub(super) fn read(
        path: &str,
        headers: &HeaderMap,
        body: Result<Bytes, BytesRejection>,
    ) -> Result<Request, ApiError> {
        let body = body.map_err(|rejection| unreadable(&rejection))?;
        let fields = match serde_json::from_slice(&body) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => {
                return Err(ApiError::request(
                    "The body of the request must be a JSON object.",
                ));
            }
            Err(error) => {
                return Err(ApiError::request(format!(
                    "The body of the request is not JSON: {error}."
                )));
            }
        };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let instance_key = match headers.get(INSTANCE_HEADER).map(|key| key.to_str()) {
            Some(Ok(key)) if !key.is_empty() => Some(key.to_owned()),
            Some(_) => {
                return Err(ApiError::request(
                    "The header `X-Goondan-Instance` must be visible ASCII characters.",
                ));
            }
            None => None,
        };
        let mut hash = Sha256::new();
        for part in [
            path.as_bytes(),
            instance_key.as_deref().unwrap_or_default().as_bytes(),
            &body,
        ] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(part);
        }
        let again = Again {
            key: header("idempotency-key")
                .filter(|key| !key.is_empty())
                .map(str::to_owned),
            is_retry: header("x-stainless-retry-count")
                .and_then(|count| count.parse().ok())
                .unwrap_or(0_u32)
                > 0,
            fingerprint: hash.finalize().into(),
        };
        Ok(Request {
            fields,
            again,
            instance_key,
        })
    }

    /// A parameter; `None` where it is absent or null.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let (name, inner) = name.split_once('.').unwrap_or((name, ""));
        let value = self.fields.get(name).filter(|value| !value.is_null())?;
        match inner {
            "" => Some(value),
            inner => value
                .pointer(&format!("/{}", inner.replace('.', "/")))
                .filter(|value| !value.is_null()),
        }
    }

    /// A parameter that is a string.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let wrong = || ApiError::parameter(name, format!("`{name}` must be a string."));
        self.get(name)
            .map(|value| value.as_str().ok_or_else(wrong))
            .transpose()
    }

    /// A parameter that is true or false.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        let wrong = || ApiError::parameter(name, format!("`{name}` must be true or false."));
        self.get(name)
            .map_or(Ok(default), |value| value.as_bool().ok_or_else(wrong))
    }

    /// A parameter that is a list.
    pub(super) fn list(&self, name: &str) -> Result<&[Value], ApiError> {
        let wrong = || ApiError::parameter(name, format!("`{name}` must be a list."));
        self.get(name)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .ok_or_else(wrong)
    }

    /// Refuses what would change the meaning of the answer.
    pub(super) fn check(&self, rules: &[Rule]) -> Result<(), ApiError> {
        for rule in rules {
            let Some(value) = self.get(rule.name) else {
                continue;
            };
            let shown = value.to_string();
            if !super::message::is_nothing(value) && !rule.fine.contains(&&*shown) {
                return Err(ApiError::parameter(rule.name, rule.why).code("unsupported_parameter"));
            }
        }
        Ok(())
    }

    /// The model that the client names, and its agent.
    pub(super) fn model(&self, service: &Service) -> Result<(String, String), ApiError> {
        let Some(model) = self.text("model")? else {
            return Err(ApiError::parameter(
                "model",
                "Say which agent shall answer: `model` is the name of an agent.",
            ));
        };
        let agent = models::agent(service, model).ok_or_else(|| models::unknown(service, model))?;
        Ok((model.to_owned(), agent))
    }

    /// For whom the client asks.
    pub(super) fn user(&self) -> Result<Option<String>, ApiError> {
        let user = self.text("user")?.or(self.text("safety_identifier")?);
        Ok(user.map(str::to_owned))
    }

    /// What both APIs ask for in the same way, and the model as the client calls it.
    pub(super) fn ask(
        self,
        service: &Service,
        headers: &HeaderMap,
        rules: &[Rule],
        format: Names,
        talk: impl FnOnce(&Request) -> Result<Talk, ApiError>,
    ) -> Result<(String, Ask), ApiError> {
        let (model, agent) = self.model(service)?;
        self.check(rules)?;
        let output = format::wanted(&self, format, &agent, service)?;
        let (talk, stream) = (talk(&self)?, self.flag("stream", false)?);
        let (instance_key, metadata) = self.metadata()?;
        let (user, caller, again) = (self.user()?, caller(headers), self.again);
        Ok((
            model,
            Ask {
                agent,
                talk,
                user,
                instance_key,
                previous: None,
                metadata,
                stream,
                again,
                output,
                caller,
            },
        ))
    }

    /// The conversation that the client names, and what becomes metadata of the user message.
    pub(super) fn metadata(&self) -> Result<(Option<String>, JsonObject), ApiError> {
        let wrong = || ApiError::parameter("metadata", "`metadata` must be an object.");
        let mut metadata = match self.get("metadata") {
            Some(value) => value.as_object().cloned().ok_or_else(wrong)?,
            None => JsonObject::new(),
        };
        let key = match metadata.remove(INSTANCE_KEY) {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) if !key.is_empty() => Some(key),
            Some(_) => {
                let message = "`metadata.instanceKey` must be a string: the key of a conversation.";
                return Err(ApiError::parameter("metadata.instanceKey", message));
            }
        };
        if let Some(user) = self.user()? {
            metadata.insert("user".to_owned(), user.into());
        }
        Ok((self.instance_key.clone().or(key), metadata))
    }

    /// The metadata as they came.
    pub(super) fn metadata_as_given(&self) -> Value {
        self.get("metadata")
            .cloned()
            .unwrap_or_else(|| Value::Object(Map::new()))
    }
}

fn unreadable(rejection: &BytesRejection) -> ApiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Problem::new(
            Code::SERVE_TOO_LARGE,
            "The body of the request is too large.",
        )
        .suggest("Send a smaller body, or start the server with a larger --max-body.")
        .into();
    }
    ApiError::request(format!(
        "The body of the request can't be read: {}.",
        rejection.body_text()
    ))
}
