//! What `options` and `params` say about a call.

use std::time::Duration;

use genai::Headers;
use genai::chat::{ChatOptions, ReasoningEffort};
use goondan_core::JsonObject;
use goondan_core::caller::Caller;
use goondan_core::ports::model::{ModelError, ModelRequest};
use goondan_spec::kinds::{Model, ModelParams};
use goondan_spec::{Environment, Resource, Secret, ValueSource};
use serde_json::Value;

use super::target::Target;
use crate::error::configuration;
use crate::files::string_option;

/// How long a provider may be silent: before its answer begins and between its pieces.
const IDLE: Duration = Duration::from_secs(120);

/// Headers that carry a key, spelt as genai spells them: one of the user's takes its place, whatever its case.
const KEY_HEADERS: [&str; 3] = ["Authorization", "x-api-key", "x-goog-api-key"];

/// The options of a Model that a live client heeds; `maxRetries` is the engine's.
pub(crate) struct Settings {
    /// `options.timeoutSeconds`.
    pub(crate) idle: Duration,
    /// `options.api`: `chat` or `responses`.
    pub(crate) responses: Option<bool>,
    /// `options.headers`.
    pub(crate) headers: Vec<(String, Secret)>,
    /// `options.body`: merged into every request.
    body: JsonObject,
    /// `options.reasoningEffort`.
    effort: Option<ReasoningEffort>,
}

impl Settings {
    /// Reads the options of `model`.
    pub(crate) fn of(
        model: &Resource<Model>,
        environment: &Environment,
    ) -> Result<Self, ModelError> {
        let effort = string_option(model, "reasoningEffort")?
            .map(|word| effort_of(model, word))
            .transpose()?;
        let responses = match string_option(model, "api")? {
            None => None,
            Some("chat") => Some(false),
            Some("responses") => Some(true),
            Some(other) => return Err(wrong(model, "api", other, "chat or responses")),
        };
        Ok(Settings {
            idle: idle(model)?,
            responses,
            headers: headers(model, environment)?,
            body: object(model, "body")?,
            effort,
        })
    }

    /// How much a model shall think, and what goes into the body as it stands: `params` go before the Model's effort, and
    /// the Model's body before `params`.
    pub(crate) fn effort_and_body(
        &self,
        params: &ModelParams,
    ) -> (Option<ReasoningEffort>, JsonObject) {
        let mut body = params.other.clone();
        let asked = body
            .remove("reasoningEffort")
            .and_then(|word| ReasoningEffort::from_keyword(word.as_str()?));
        body.extend(self.body.clone());
        (asked.or_else(|| self.effort.clone()), body)
    }

    /// How genai is told about a call to `target` with `params`.
    pub(crate) fn chat_options(&self, request: &ModelRequest, target: &Target) -> ChatOptions {
        let params = &*request.params;
        let (effort, body) = self.effort_and_body(params);
        let headers = self.genai_headers(request);
        ChatOptions {
            temperature: params.temperature,
            max_tokens: params.max_tokens,
            top_p: params.top_p,
            capture_usage: Some(true),
            capture_tool_calls: Some(true),
            reasoning_effort: effort.or_else(|| target.plain_name()),
            extra_headers: (!headers.is_empty()).then(|| Headers::from(headers)),
            extra_body: (!body.is_empty()).then_some(Value::Object(body)),
            stream_header_timeout: Some(self.idle),
            stream_read_timeout: Some(self.idle),
            ..ChatOptions::default()
        }
    }

    /// The headers that tell the provider of the trace. Those that the user states are the user's.
    pub(crate) fn trace_headers<'r>(
        &self,
        request: &'r ModelRequest,
    ) -> impl Iterator<Item = (&'static str, &'r str)> + use<'r, '_> {
        let is_stated = |name: &str| {
            self.headers
                .iter()
                .any(|(stated, _)| stated.eq_ignore_ascii_case(name))
        };
        request
            .caller
            .iter()
            .flat_map(Caller::headers)
            .filter(move |(name, _)| !is_stated(name))
    }

    fn genai_headers(&self, request: &ModelRequest) -> Vec<(String, String)> {
        let spelt = |name: &str| {
            KEY_HEADERS
                .into_iter()
                .find(|known| known.eq_ignore_ascii_case(name))
                .map(str::to_owned)
        };
        let pair = |(name, value): &(String, Secret)| {
            (
                spelt(name).unwrap_or_else(|| name.clone()),
                value.expose().to_owned(),
            )
        };
        let traced = self
            .trace_headers(request)
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.headers.iter().map(pair).chain(traced).collect()
    }
}

fn idle(model: &Resource<Model>) -> Result<Duration, ModelError> {
    match model.spec.options.get("timeoutSeconds") {
        None | Some(Value::Null) => Ok(IDLE),
        Some(value) => value
            .as_f64()
            .filter(|seconds| *seconds > 0.0)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| {
                wrong(
                    model,
                    "timeoutSeconds",
                    value,
                    "a number of seconds above 0",
                )
            }),
    }
}

fn effort_of(model: &Resource<Model>, word: &str) -> Result<ReasoningEffort, ModelError> {
    ReasoningEffort::from_keyword(word).ok_or_else(|| {
        wrong(
            model,
            "reasoningEffort",
            word,
            "one of none, minimal, low, medium, high, xhigh, max",
        )
    })
}

fn object(model: &Resource<Model>, key: &str) -> Result<JsonObject, ModelError> {
    match model.spec.options.get(key) {
        None | Some(Value::Null) => Ok(JsonObject::new()),
        Some(Value::Object(fields)) => Ok(fields.clone()),
        Some(other) => Err(wrong(model, key, other, "a map")),
    }
}

fn headers(
    model: &Resource<Model>,
    environment: &Environment,
) -> Result<Vec<(String, Secret)>, ModelError> {
    let read = |(name, value): (&String, &Value)| -> Result<(String, Secret), ModelError> {
        let key = format!("headers.{name}");
        let secret = match (
            value.as_str(),
            value.pointer("/valueFrom/env").and_then(Value::as_str),
        ) {
            (Some(text), _) => Secret::new(text),
            (None, Some(variable)) => from_environment(model, &key, variable, environment)?,
            (None, None) => {
                return Err(wrong(
                    model,
                    &key,
                    value,
                    "a text or {valueFrom: {env: NAME}}",
                ));
            }
        };
        let valid = reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_ok()
            && reqwest::header::HeaderValue::from_str(secret.expose()).is_ok();
        match valid {
            true => Ok((name.clone(), secret)),
            false => Err(configuration(
                format!("options.{key} of {} is not a valid HTTP header", model.id),
                "use letters, digits and hyphens in its name, and one line of plain characters as its value",
            )),
        }
    };
    object(model, "headers")?.iter().map(read).collect()
}

fn from_environment(
    model: &Resource<Model>,
    key: &str,
    variable: &str,
    environment: &Environment,
) -> Result<Secret, ModelError> {
    environment
        .resolve(&ValueSource::Env(variable.to_owned()), key)
        .map_err(|_| {
            configuration(
                format!(
                    "options.{key} of {} is missing: {variable} is not set",
                    model.id
                ),
                format!("set {variable} in the environment or in a .env file"),
            )
        })
}

fn wrong(
    model: &Resource<Model>,
    key: &str,
    value: impl std::fmt::Display,
    wanted: &str,
) -> ModelError {
    configuration(
        format!("options.{key} of {} is {value}", model.id),
        format!("options.{key} is {wanted}"),
    )
}
