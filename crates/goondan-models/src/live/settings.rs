//! What `options` and `params` say about a call.

use std::time::Duration;

use genai::Headers;
use genai::chat::{ChatOptions, ReasoningEffort};
use goondan_core::JsonObject;
use goondan_core::caller::Caller;
use goondan_core::ports::model::{ModelError, ModelRequest};
use goondan_spec::kinds::{Model, ModelApi, ModelParams};
use goondan_spec::{Environment, Resource, Secret, TextOrSource};
use serde_json::Value;

use super::target::Target;
use crate::error::configuration;

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
        let options = &model.spec.options;
        Ok(Settings {
            idle: options
                .timeout_seconds
                .map_or(IDLE, Duration::from_secs_f64),
            responses: options.api.map(|api| api == ModelApi::Responses),
            headers: headers(model, environment)?,
            body: options.body.clone(),
            effort: options.reasoning_effort.and_then(effort_of),
        })
    }

    /// How much a model shall think, and what goes into the body as it stands: `params` go before the Model's effort, and
    /// the Model's body before `params`.
    pub(crate) fn effort_and_body(
        &self,
        params: &ModelParams,
    ) -> (Option<ReasoningEffort>, JsonObject) {
        let mut body = more_params(params);
        let asked = params.reasoning_effort.and_then(effort_of);
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

/// Params that OpenAI's format has under the same names.
fn more_params(params: &ModelParams) -> JsonObject {
    let mut all = params.to_json();
    let names = [
        ("topK", "top_k"),
        ("stop", "stop"),
        ("seed", "seed"),
        ("presencePenalty", "presence_penalty"),
        ("frequencyPenalty", "frequency_penalty"),
    ];
    names
        .into_iter()
        .filter_map(|(name, sent)| Some((sent.to_owned(), all.shift_remove(name)?)))
        .collect()
}

fn effort_of(effort: goondan_spec::kinds::ReasoningEffort) -> Option<ReasoningEffort> {
    ReasoningEffort::from_keyword(effort.as_str())
}

fn headers(
    model: &Resource<Model>,
    environment: &Environment,
) -> Result<Vec<(String, Secret)>, ModelError> {
    let read = |(name, value): &(String, TextOrSource)| {
        let key = format!("headers.{name}");
        let secret = environment
            .resolve_text(value, name)
            .map_err(|tried| missing(model, &key, &tried))?;
        match reqwest::header::HeaderValue::from_str(secret.expose()).is_ok() {
            true => Ok((name.clone(), secret)),
            false => Err(configuration(
                format!("options.{key} of {} is not a valid HTTP header", model.id),
                "use letters, digits and hyphens in its name, and one line of plain characters as its value",
            )),
        }
    };
    model.spec.options.headers.iter().map(read).collect()
}

fn missing(model: &Resource<Model>, key: &str, tried: &[String]) -> ModelError {
    let variable = tried.first().map_or("", String::as_str);
    configuration(
        format!(
            "options.{key} of {} is missing: {variable} is not set",
            model.id
        ),
        format!("set {variable} in the environment or in a .env file"),
    )
}
