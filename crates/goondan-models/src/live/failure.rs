//! What went wrong, in words that say what to do next. No message holds a key.

use std::str::Utf8Error;
use std::time::Duration;

use chrono::Utc;
use genai::webc::{self, StreamTimeout};
use goondan_core::ports::model::{ModelError, ModelErrorKind};
use goondan_spec::kinds::Model;
use goondan_spec::{Resource, Secret};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;
use url::{Position, Url};

use super::http::{Probe, chain};
use super::key::Key;
use super::retry_after::retry_after;
use super::settings::Settings;
use crate::error::{configuration, connection, protocol, suggest};
use crate::table::{Backend, Provider};
use crate::wire::{Wire, wire_of};

/// How much of a provider's words is passed on, in characters.
const WORDS: usize = 1000;

/// Kinds of error that providers name in the middle of a stream, with the status that they answer otherwise.
const STATUS_OF: &[(&str, u16)] = &[
    ("INTERNAL", 500),
    ("INVALID_ARGUMENT", 400),
    ("NOT_FOUND", 404),
    ("PERMISSION_DENIED", 403),
    ("RESOURCE_EXHAUSTED", 429),
    ("UNAUTHENTICATED", 401),
    ("UNAVAILABLE", 503),
    ("api_error", 500),
    ("authentication_error", 401),
    ("invalid_api_key", 401),
    ("invalid_request_error", 400),
    ("model_not_found", 404),
    ("not_found_error", 404),
    ("overloaded_error", 529),
    ("permission_error", 403),
    ("rate_limit_error", 429),
    ("rate_limit_exceeded", 429),
    ("request_too_large", 413),
    ("server_error", 500),
    ("timeout_error", 504),
];

/// Who calls whom: what an error has to name.
pub(crate) struct Caller {
    resource: String,
    provider: &'static str,
    model: String,
    key_place: String,
    own_endpoint: bool,
    /// The Model's own endpoint, if it is a bare host where the format wants a version behind it.
    without_version: Option<String>,
    idle: Duration,
    secrets: Vec<Secret>,
}

impl Caller {
    /// Notes what errors of `model` will name, and what they must not.
    pub(crate) fn new(
        model: &Resource<Model>,
        provider: &Provider,
        key: Key,
        settings: &Settings,
    ) -> Self {
        let headers = settings.headers.iter().map(|(_, value)| value.clone());
        Caller {
            resource: model.id.to_string(),
            provider: provider.name,
            model: model.spec.model.clone(),
            key_place: key.place,
            own_endpoint: model.spec.endpoint.is_some(),
            without_version: model
                .spec
                .endpoint
                .as_deref()
                .filter(|_| has_version(model, provider))
                .and_then(bare),
            idle: settings.idle,
            secrets: key
                .value
                .into_iter()
                .chain(headers)
                .filter(|secret| !secret.expose().is_empty())
                .collect(),
        }
    }

    /// What genai's error means when it comes from `host`.
    pub(crate) fn failure(&self, host: &str, error: genai::Error) -> ModelError {
        let failure = match error {
            genai::Error::WebStream { error, .. } => self.transport(host, error),
            genai::Error::HttpError {
                status,
                body,
                headers,
                ..
            } => self.status(host, status, &body, Some(&headers)),
            genai::Error::WebModelCall { webc_error, .. }
            | genai::Error::WebAdapterCall { webc_error, .. } => self.web_call(host, webc_error),
            genai::Error::ChatResponse { body, .. } => self.in_stream(host, &body),
            genai::Error::StreamParse { serde_error, .. } => self.unreadable(host, &serde_error),
            genai::Error::JsonValueExt(error) => protocol(format!(
                "{host} sent an answer in which something is missing: {error}"
            )),
            other => configuration(
                format!(
                    "the request can't be made: {}",
                    first_line(&other.to_string())
                ),
                format!("check {}", self.resource),
            ),
        };
        self.without_secrets(failure)
    }

    /// The request did not get through, or its answer did not.
    pub(crate) fn sent(&self, host: &str, error: reqwest::Error) -> ModelError {
        self.without_secrets(self.transport(host, Box::new(error)))
    }

    /// The provider refused.
    pub(crate) fn refused(
        &self,
        host: &str,
        status: StatusCode,
        body: &str,
        headers: &HeaderMap,
    ) -> ModelError {
        self.without_secrets(self.status(host, status, body, Some(headers)))
    }

    /// An event of a stream is no JSON. One that stops in its midst was cut off.
    pub(crate) fn unreadable(&self, host: &str, error: &serde_json::Error) -> ModelError {
        match error.is_eof() {
            true => self.broken(host),
            false => protocol(format!(
                "{host} sent something that is not a model's answer: {error}"
            )),
        }
    }

    /// An event of a stream is not text.
    pub(crate) fn no_text(&self, host: &str, error: &Utf8Error) -> ModelError {
        protocol(format!("{host} sent something that is not text: {error}"))
    }

    /// The request is none that could be sent.
    pub(crate) fn cannot_be_made(&self, host: &str, reason: &str) -> ModelError {
        let failure = configuration(
            format!("the request to {host} can't be made: {reason}"),
            format!(
                "check endpoint, apiKey and options.headers of {}",
                self.resource
            ),
        );
        self.without_secrets(failure)
    }

    /// The stream ended before the provider said that it was done.
    pub(crate) fn broken(&self, host: &str) -> ModelError {
        connection(format!(
            "the stream broke off: {host} ended it before the answer was complete"
        ))
    }

    /// Nothing came for that long.
    pub(crate) fn silent(&self, host: &str) -> ModelError {
        suggest(
            connection(format!(
                "{host} said nothing for {} seconds",
                self.idle.as_secs_f64()
            )),
            format!(
                "give it longer with options.timeoutSeconds of {}",
                self.resource
            ),
        )
    }

    /// The answer is larger than anyone wants it.
    pub(crate) fn too_large(&self, host: &str, limit: usize) -> ModelError {
        suggest(
            protocol(format!(
                "the answer of {host} is larger than {} MiB: it was cut off",
                limit / (1024 * 1024)
            )),
            "limit it with modelConfig.params.maxTokens",
        )
    }

    /// The answer is a web page.
    pub(crate) fn html(&self, host: &str) -> ModelError {
        suggest(
            protocol(format!(
                "the endpoint answered with HTML, not JSON: is `endpoint` right? ({host})"
            )),
            format!(
                "most addresses end in /v1; check endpoint of {}",
                self.resource
            ),
        )
    }

    /// The answer held nothing of a stream; `probe` is what the address says to a plain GET.
    pub(crate) fn nothing(&self, host: &str, probe: Option<Probe>) -> ModelError {
        let failure = match probe {
            Some(probe) if is_html(&probe.body) => self.html(host),
            Some(probe) if probe.status == 200 && probe.body.trim_start().starts_with('{') => {
                suggest(
                    protocol(format!(
                        "{host} answered with no stream; it says: {}",
                        clip(probe.body.trim())
                    )),
                    format!("check endpoint of {}", self.resource),
                )
            }
            _ => suggest(
                self.broken(host),
                format!("if it happens again, check endpoint of {}", self.resource),
            ),
        };
        self.without_secrets(failure)
    }

    fn transport(&self, host: &str, error: genai::BoxError) -> ModelError {
        let error = match error.downcast::<genai::Error>() {
            Ok(inner) => return self.failure(host, *inner),
            Err(error) => error,
        };
        if error.downcast_ref::<StreamTimeout>().is_some() {
            return self.silent(host);
        }
        match error.downcast_ref::<reqwest::Error>() {
            Some(error) if error.is_builder() => self.cannot_be_made(host, &chain(error)),
            Some(error) if error.is_connect() || error.is_timeout() => {
                let reason = chain(error);
                let suggestion = self.reach(host, &reason);
                suggest(
                    connection(format!("cannot reach {host}: {reason}")),
                    suggestion,
                )
            }
            Some(error) => connection(format!("the stream broke off: {}", chain(error))),
            None => protocol(format!(
                "{host} sent something that is not text: {}",
                chain(error.as_ref())
            )),
        }
    }

    /// A call that is answered in one piece, such as one for embeddings.
    fn web_call(&self, host: &str, error: webc::Error) -> ModelError {
        match error {
            webc::Error::ResponseFailedStatus {
                status,
                body,
                headers,
            } => self.status(host, status, &body, Some(&headers)),
            webc::Error::ResponseFailedNotJson { body, .. } if is_html(&body) => self.html(host),
            webc::Error::ResponseFailedNotJson { content_type, .. } => protocol(format!(
                "{host} answered with {}, not JSON",
                clip(&content_type)
            )),
            webc::Error::ResponseFailedInvalidJson { cause, .. } => protocol(format!(
                "{host} sent an answer that is not JSON: {}",
                clip(&cause)
            )),
            webc::Error::JsonValueExt(error) => protocol(format!(
                "{host} sent an answer in which something is missing: {error}"
            )),
            webc::Error::Reqwest(error) => self.transport(host, Box::new(error)),
        }
    }

    fn reach(&self, host: &str, reason: &str) -> String {
        if reason.contains("certificate") {
            return format!(
                "the certificate of {host} is not trusted here: install the package ca-certificates, or the \
                 certificate of your company's proxy"
            );
        }
        match (self.provider, self.own_endpoint) {
            ("ollama", _) => format!("is Ollama running at {host}? start it with `ollama serve`"),
            ("llamacpp" | "lmstudio" | "vllm", _) | (_, true) => {
                format!(
                    "is a server listening at {host}? check endpoint of {}",
                    self.resource
                )
            }
            _ => "check the network, and a proxy if there is one (HTTPS_PROXY)".to_owned(),
        }
    }

    fn status(
        &self,
        host: &str,
        status: StatusCode,
        body: &str,
        headers: Option<&HeaderMap>,
    ) -> ModelError {
        let html = is_html(body);
        let failure = ModelError::new(ModelErrorKind::Status(status.as_u16()), "");
        let permanent = !failure.is_transient()
            && !matches!(status.as_u16(), 401 | 403)
            && !status.is_redirection();
        if html && permanent {
            return self.html(host);
        }
        let json = serde_json::from_str(body).unwrap_or(Value::Null);
        let words = match said(&json) {
            Some(words) => words,
            None if html => "a web page".to_owned(),
            None => body.trim().to_owned(),
        };
        let words = if words.is_empty() {
            String::new()
        } else {
            format!(": {}", clip(&words))
        };
        ModelError {
            message: format!("{host} answered {}{words}", named(status)),
            suggestion: self.after_status(status, headers),
            retry_after: retry_after(headers, &json, Utc::now()),
            ..failure
        }
    }

    fn after_status(&self, status: StatusCode, headers: Option<&HeaderMap>) -> Option<String> {
        let location = || headers?.get(LOCATION)?.to_str().ok();
        match status.as_u16() {
            401 | 403 => Some(format!("check the key: it comes from {}", self.key_place)),
            404 if self.provider == "ollama" => {
                Some(format!("fetch the model with `ollama pull {}`", self.model))
            }
            404 => Some(self.after_not_found()),
            300..=399 => location().map(|to| {
                format!(
                    "it points to {to}: put that under endpoint of {}",
                    self.resource
                )
            }),
            _ => None,
        }
    }

    /// Addresses of providers mostly end in a version, which is easily left out of one's own.
    fn after_not_found(&self) -> String {
        let checks = format!(
            "check model ({}) and endpoint of {}",
            self.model, self.resource
        );
        match &self.without_version {
            Some(endpoint) => format!("{checks}: did you mean `endpoint: {endpoint}/v1`?"),
            None => checks,
        }
    }

    /// An error that comes inside a stream which began well.
    pub(crate) fn in_stream(&self, host: &str, body: &Value) -> ModelError {
        let words = said(body).unwrap_or_else(|| "it gave no reason".to_owned());
        self.without_secrets(
            match status_of(body).and_then(|status| StatusCode::from_u16(status).ok()) {
                Some(status) => self.status(host, status, &body_with(body, &words), None),
                None => connection(format!("{host} broke off the answer: {}", clip(&words))),
            },
        )
    }

    fn without_secrets(&self, mut failure: ModelError) -> ModelError {
        for secret in &self.secrets {
            failure.message = failure.message.replace(secret.expose(), "***");
            failure.suggestion = failure
                .suggestion
                .map(|text| text.replace(secret.expose(), "***"));
        }
        failure
    }
}

/// Host and port of an address: what errors name instead of the whole of it.
pub(crate) fn host(base_url: &str) -> String {
    let Ok(url) = Url::parse(base_url) else {
        return "the provider".to_owned();
    };
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => "the provider".to_owned(),
    }
}

/// Whether addresses of what speaks this format end in `/v1`.
fn has_version(model: &Resource<Model>, provider: &Provider) -> bool {
    let Backend::Live { adapter, .. } = provider.backend else {
        return false;
    };
    matches!(
        wire_of(adapter, &model.spec.model),
        Wire::Anthropic | Wire::Chat | Wire::Responses
    )
}

/// `endpoint` without its last slash, if it is nothing but a scheme and a host.
fn bare(endpoint: &str) -> Option<String> {
    let url = Url::parse(endpoint.trim()).ok()?;
    (url.path() == "/" && url.query().is_none()).then(|| url[..Position::AfterPort].to_owned())
}

/// Whether `text` begins like a web page.
pub(crate) fn is_html(text: &str) -> bool {
    let start: String = text
        .trim_start()
        .chars()
        .take(1000)
        .collect::<String>()
        .to_lowercase();
    start.starts_with('<')
        && ["<!doctype html", "<html", "<head", "<body"]
            .iter()
            .any(|tag| start.contains(tag))
}

/// The provider's own words in an error body, wherever it puts them.
fn said(body: &Value) -> Option<String> {
    let error = body.get("error").unwrap_or(body);
    let places = [
        error.get("message"),
        error.get("detail"),
        body.get("message"),
        body.get("detail"),
        Some(error),
    ];
    places
        .into_iter()
        .flatten()
        .find_map(|place| place.as_str().map(str::to_owned))
}

/// The status behind an error that comes inside a stream.
fn status_of(body: &Value) -> Option<u16> {
    let error = body.get("error").unwrap_or(body);
    let fields = ["code", "status", "type"].map(|name| error.get(name));
    let number = fields.iter().flatten().find_map(|field| {
        let number = field.as_u64().or_else(|| field.as_str()?.parse().ok())?;
        u16::try_from(number)
            .ok()
            .filter(|status| (400..600).contains(status))
    });
    number.or_else(|| {
        let word = |field: &&Value| {
            STATUS_OF
                .iter()
                .find(|(word, _)| field.as_str() == Some(word))
                .map(|row| row.1)
        };
        fields.iter().flatten().find_map(word)
    })
}

/// `body` in the shape of an error answer, so that one function reads both.
fn body_with(body: &Value, words: &str) -> String {
    match body.get("error") {
        Some(Value::Object(_)) => body.to_string(),
        _ => serde_json::json!({"error": {"message": words}}).to_string(),
    }
}

/// `429 Too Many Requests`, or the number alone where it has no name.
fn named(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}
