//! Requests of both APIs: parsing, and rejection of unsupported parameters.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use goondan::spec::{Code, JsonObject};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::error::OpenAiError;
use super::format::{self, FormatParams};
use super::message::ChatInput;
use super::models;
use super::response_head::INSTANCE_HEADER;
use super::submit::{RetryKey, SubmitRequest};
use crate::problem::ApiProblem;
use crate::requested_agent::find_agent;
use crate::service::Service;
use crate::trace_context::caller_trace;

/// Headers that describe the client. Two clients can send the same body.
const CLIENT_HEADERS: [&str; 6] = [
    "authorization",
    "user-agent",
    "forwarded",
    "x-forwarded-for",
    "openai-organization",
    "openai-project",
];

const INSTANCE_KEY: &str = "instanceKey";

pub(super) struct OpenAiRequest {
    fields: Map<String, Value>,
    again: RetryKey,
    instance_key: Option<String>,
}

/// An unsupported parameter that would change the answer. Other unsupported parameters are ignored.
pub(super) struct UnsupportedParam {
    /// Parameter name; a dot precedes the name of a nested field.
    pub(super) name: &'static str,
    /// Values that request the server's normal behavior.
    pub(super) fine: &'static [&'static str],
    /// Reason for the rejection.
    pub(super) why: &'static str,
}

impl OpenAiRequest {
    /// Parses the body of a request.
    pub(super) fn read(
        path: &str,
        headers: &HeaderMap,
        body: Result<Bytes, BytesRejection>,
    ) -> Result<OpenAiRequest, OpenAiError> {
        let body = body.map_err(|rejection| unreadable_body(&rejection))?;
        let fields = match serde_json::from_slice(&body) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => {
                return Err(OpenAiError::request(
                    "The body of the request must be a JSON object.",
                ));
            }
            Err(error) => {
                return Err(OpenAiError::request(format!(
                    "The body of the request is not JSON: {error}."
                )));
            }
        };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let instance_key = match headers.get(INSTANCE_HEADER).map(|key| key.to_str()) {
            Some(Ok(key)) if !key.is_empty() => Some(key.to_owned()),
            Some(_) => {
                return Err(OpenAiError::request(
                    "The header `X-Goondan-Instance` must contain only visible ASCII characters.",
                ));
            }
            None => None,
        };
        let mut hash = Sha256::new();
        let key = header("idempotency-key").filter(|key| !key.is_empty());
        // A key identifies a request by itself.
        let names = if key.is_none() {
            &CLIENT_HEADERS[..]
        } else {
            &[]
        };
        let client = names.iter().map(|name| {
            let value = headers.get(*name);
            value.map_or(&[][..], HeaderValue::as_bytes)
        });
        let request = [
            path.as_bytes(),
            instance_key.as_deref().unwrap_or_default().as_bytes(),
            &body,
        ];
        for part in request.into_iter().chain(client) {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(part);
        }
        let again = RetryKey {
            key: key.map(str::to_owned),
            count: header("x-stainless-retry-count").and_then(|count| count.parse().ok()),
            fingerprint: hash.finalize().into(),
        };
        Ok(OpenAiRequest {
            fields,
            again,
            instance_key,
        })
    }

    /// Returns a parameter; `None` if it is absent or null.
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

    /// Returns a string; `None` if it is absent.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, OpenAiError> {
        let wrong = || OpenAiError::invalid_param(name, format!("`{name}` must be a string."));
        self.get(name)
            .map(|value| value.as_str().ok_or_else(wrong))
            .transpose()
    }

    /// Returns a boolean; `default` if it is absent.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, OpenAiError> {
        let wrong = || OpenAiError::invalid_param(name, format!("`{name}` must be a boolean."));
        self.get(name)
            .map_or(Ok(default), |value| value.as_bool().ok_or_else(wrong))
    }

    /// Returns a list; fails if it is absent.
    pub(super) fn list(&self, name: &str) -> Result<&[Value], OpenAiError> {
        let wrong = || OpenAiError::invalid_param(name, format!("`{name}` must be a list."));
        self.get(name)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .ok_or_else(wrong)
    }

    /// Rejects unsupported parameters that would change the answer.
    pub(super) fn check(&self, rules: &[UnsupportedParam]) -> Result<(), OpenAiError> {
        let is_none = |name: &str| self.get(name).is_some_and(|value| value == "none");
        let calls_no_tool = is_none("tool_choice") || is_none("function_call");
        for rule in rules {
            // Clients send the tools again in the last step of a loop, without a call.
            if calls_no_tool && matches!(rule.name, "tools" | "functions") {
                continue;
            }
            let Some(value) = self.get(rule.name) else {
                continue;
            };
            let shown = value.to_string();
            if !super::message::is_nothing(value) && !rule.fine.contains(&&*shown) {
                return Err(
                    OpenAiError::invalid_param(rule.name, rule.why).code("unsupported_parameter")
                );
            }
        }
        Ok(())
    }

    /// Returns the model name in the request, and its agent.
    pub(super) fn model(&self, service: &Service) -> Result<(String, String), OpenAiError> {
        let Some(model) = self.text("model")? else {
            return Err(OpenAiError::invalid_param(
                "model",
                "Set `model` to the name of an agent.",
            ));
        };
        let agent =
            find_agent(service, model).ok_or_else(|| models::unknown_model(service, model))?;
        Ok((model.to_owned(), agent))
    }

    /// Returns the end user, as named by the client.
    pub(super) fn user(&self) -> Result<Option<String>, OpenAiError> {
        let user = self.text("user")?.or(self.text("safety_identifier")?);
        Ok(user.map(str::to_owned))
    }

    /// Parses the parameters that both APIs share. Also returns the model name.
    pub(super) fn parse_common_params(
        self,
        service: &Service,
        headers: &HeaderMap,
        rules: &[UnsupportedParam],
        format: FormatParams,
        talk: impl FnOnce(&OpenAiRequest) -> Result<ChatInput, OpenAiError>,
    ) -> Result<(String, SubmitRequest), OpenAiError> {
        let (model, agent) = self.model(service)?;
        self.check(rules)?;
        let output = format::requested_schema(&self, format, &agent, service)?;
        let (talk, stream) = (talk(&self)?, self.flag("stream", false)?);
        let (instance_key, metadata) = self.metadata()?;
        let (user, caller, again) = (self.user()?, caller_trace(headers), self.again);
        Ok((
            model,
            SubmitRequest {
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

    /// Returns the conversation key and the metadata of the user message.
    pub(super) fn metadata(&self) -> Result<(Option<String>, JsonObject), OpenAiError> {
        let wrong = || OpenAiError::invalid_param("metadata", "`metadata` must be an object.");
        let mut metadata = match self.get("metadata") {
            Some(value) => value.as_object().cloned().ok_or_else(wrong)?,
            None => JsonObject::new(),
        };
        let key = match metadata.remove(INSTANCE_KEY) {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) if !key.is_empty() => Some(key),
            Some(_) => {
                let message = "`metadata.instanceKey` must be a string, the conversation key.";
                return Err(OpenAiError::invalid_param("metadata.instanceKey", message));
            }
        };
        if let Some(user) = self.user()? {
            metadata.insert("user".to_owned(), user.into());
        }
        Ok((self.instance_key.clone().or(key), metadata))
    }

    /// Returns the metadata of the request, unchanged.
    pub(super) fn metadata_as_given(&self) -> Value {
        self.get("metadata")
            .cloned()
            .unwrap_or_else(|| Value::Object(Map::new()))
    }
}

/// Error for a body that could not be read.
fn unreadable_body(rejection: &BytesRejection) -> OpenAiError {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return ApiProblem::new(
            Code::SERVE_TOO_LARGE,
            "The body of the request is too large.",
        )
        .suggest("Send a smaller body, or start the server with a larger --max-body.")
        .into();
    }
    OpenAiError::request(format!(
        "The request body cannot be read: {}.",
        rejection.body_text()
    ))
}
