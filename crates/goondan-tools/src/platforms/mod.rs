//! Shared parts of the chat platform tools: the secret token, API calls, and files.

pub(crate) mod discord;
mod file_transfer;
pub(crate) mod github;
mod outgoing_text;
pub(crate) mod slack;
pub(crate) mod telegram;

use std::time::{Duration, Instant};

use chrono::Utc;
use goondan_core::ports::tool::HandlerError;
use goondan_core::rate_limit::PlatformResponse;
use goondan_core::redact::SecretRedactor;
use goondan_spec::{Code, Secret};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::{Url, form_urlencoded};

use crate::builtin_tool::ToolOpenContext;
use crate::config_error::ConfigError;
use crate::errors;
use crate::http::{FileForm, HttpClient, HttpRequestBody, HttpToolRequest, HttpToolResponse};
use crate::net_guard::NetworkGuard;
use crate::value_sources;

/// Maximum size of an API answer in bytes.
const MAX_API_ANSWER_BYTES: usize = 4_000_000;
/// Maximum size in bytes of an answer that states a rate limit.
const MAX_LIMIT_ANSWER_BYTES: usize = 16_000;
/// Longest wait for the end of a rate limit.
const MAX_LIMIT_WAIT: Duration = Duration::from_secs(30);
/// Time of a call that must remain after the wait to repeat the request.
const MIN_REPETITION_TIME: Duration = Duration::from_millis(500);
/// Maximum number of characters of a platform's error message.
const MAX_ERROR_CHARS: usize = 300;

/// Keys of `spec.config` with their descriptions.
pub(crate) const PLATFORM_CONFIG_KEYS: &[(&str, &str)] = &[
    (
        "token",
        "the bot token, a value source such as `{valueFrom: {env: MY_BOT}}`; without `token` and \
        `apiBaseUrl`, a variable is used (see above)",
    ),
    ("apiBaseUrl", "the API URL, if it is not the platform's own"),
    (
        "allowPrivateNetwork",
        "`true` to allow API URLs with private, loopback and link-local addresses",
    ),
    (
        "allowHosts",
        "a list of hosts that are allowed at any address, such as `bots.internal`",
    ),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlatformToolConfig {
    token: Option<Value>,
    api_base_url: Option<String>,
    #[serde(default)]
    allow_private_network: bool,
    #[serde(default)]
    allow_hosts: Vec<String>,
}

struct PlatformDescription {
    /// Display name.
    name: &'static str,
    /// Default URL of the API.
    base: &'static str,
    /// Environment variables that usually contain the token.
    variables: &'static [&'static str],
    /// Authorization scheme in the header.
    scheme: &'static str,
    headers: &'static [(&'static str, &'static str)],
}

pub(crate) struct PlatformClient {
    platform: &'static PlatformDescription,
    /// Calls without a token fail with the name of the variable to set.
    token: Option<Secret>,
    /// URL without a trailing slash.
    base: String,
    http: HttpClient,
}

enum ApiRequestBody {
    Empty,
    Json(Value),
    /// A URL-encoded form.
    Fields(Vec<(&'static str, String)>),
    Form(FileForm),
}

/// Returns the environment variables that may contain the token of a built-in tool.
pub(crate) fn variables_of(tool: &str) -> &'static [&'static str] {
    let platforms = [
        ("discord", &discord::PLATFORM),
        ("github", &github::PLATFORM),
        ("slack", &slack::PLATFORM),
        ("telegram", &telegram::PLATFORM),
    ];
    platforms
        .iter()
        .find(|(name, _)| *name == tool)
        .map_or(&[], |(_, platform)| platform.variables)
}

impl PlatformClient {
    fn open(
        opening: &ToolOpenContext<'_>,
        platform: &'static PlatformDescription,
    ) -> Result<PlatformClient, ConfigError> {
        let config: PlatformToolConfig = opening.config()?;
        let token = match &config.token {
            Some(source) => Some(value_sources::resolve(
                source,
                "token",
                opening.environment,
            )?),
            // The token belongs to the platform, and must not be sent to another URL.
            None if config.api_base_url.is_some() => None,
            None => {
                let present_values = platform
                    .variables
                    .iter()
                    .filter_map(|name| opening.environment.get(name));
                present_values
                    .map(str::trim)
                    .find(|token| !token.is_empty())
                    .map(Secret::new)
            }
        };
        let base = config
            .api_base_url
            .as_deref()
            .unwrap_or(platform.base)
            .trim_end_matches('/')
            .to_owned();
        let http = HttpClient::new(NetworkGuard::new(
            config.allow_private_network,
            config.allow_hosts,
        ));
        Ok(PlatformClient {
            platform,
            token,
            base,
            http,
        })
    }

    /// Returns the token. Fails if neither the config nor a variable contains one.
    fn token(&self) -> Result<&str, HandlerError> {
        self.token
            .as_ref()
            .map(|token| token.expose().trim())
            .ok_or_else(|| {
                let message = format!("this tool has no token for {}", self.platform.name);
                HandlerError::new(message)
                    .code(Code::TOOL_UNAVAILABLE)
                    .suggest(format!(
                        "the operator can set {}, or give the tool `config: {{token: {{valueFrom: \
                        {{env: NAME}}}}}}`",
                        self.platform.variables.first().unwrap_or(&"a variable")
                    ))
            })
    }

    /// Returns a URL of the API. No component can lead to another path.
    fn address(&self, parts: &[&str]) -> Result<Url, HandlerError> {
        if let Some(odd) = parts.iter().find(|part| matches!(**part, "" | "." | "..")) {
            return Err(errors::invalid_argument(format!(
                "`{odd}` can't be a part of a URL"
            )));
        }
        let broken_answer_error = || {
            errors::invalid_argument(format!("the API URL of {} is invalid", self.platform.name))
        };
        let mut url = Url::parse(&self.base).map_err(|_| broken_answer_error())?;
        url.path_segments_mut()
            .map_err(|()| broken_answer_error())?
            .pop_if_empty()
            .extend(parts);
        Ok(url)
    }

    /// Posts `body` as JSON, and returns the status and the JSON of the answer.
    async fn post_json(
        &self,
        url: String,
        signed: bool,
        body: Value,
        timeout_ms: TimeLimit,
    ) -> Result<ApiAnswer, HandlerError> {
        self.send_request(
            (Method::POST, url, signed),
            ApiRequestBody::Json(body),
            timeout_ms,
        )
        .await
    }

    /// Sends a request, with the token in its header if `signed`. Returns the status and the JSON
    /// of the answer.
    async fn send_request(
        &self,
        (method, url, signed): (Method, String, bool),
        body: ApiRequestBody,
        timeout_ms: TimeLimit,
    ) -> Result<ApiAnswer, HandlerError> {
        let mut headers = self.headers(signed)?;
        let body = match body {
            ApiRequestBody::Empty => None,
            ApiRequestBody::Json(body) => {
                headers.insert(
                    CONTENT_TYPE,
                    HeaderValue::from_static("application/json; charset=utf-8"),
                );
                Some(body.to_string().into())
            }
            ApiRequestBody::Fields(fields) => {
                headers.insert(
                    CONTENT_TYPE,
                    HeaderValue::from_static("application/x-www-form-urlencoded"),
                );
                Some(
                    form_urlencoded::Serializer::new(String::new())
                        .extend_pairs(fields)
                        .finish()
                        .into(),
                )
            }
            ApiRequestBody::Form(form) => Some(HttpRequestBody::Form(form)),
        };
        let timeout = timeout_ms.duration();
        let response = self
            .send(HttpToolRequest {
                method,
                url,
                headers,
                body,
                timeout,
                max_bytes: MAX_API_ANSWER_BYTES,
            })
            .await?;
        Ok((
            response.status,
            serde_json::from_slice(&response.body).unwrap_or_default(),
        ))
    }

    /// Calls an API that reports errors in its status, and returns the answer. `what` describes the
    /// operation in errors.
    async fn call(
        &self,
        what: &str,
        (method, url): (Method, Url),
        body: ApiRequestBody,
        timeout_ms: TimeLimit,
    ) -> Result<Value, HandlerError> {
        let (status, answer) = self
            .send_request((method, url.into(), true), body, timeout_ms)
            .await?;
        if status.is_success() {
            Ok(answer)
        } else {
            Err(self.rejection_error(what, status, answer["message"].as_str()))
        }
    }

    /// Returns the headers of a request. If `signed`, they contain the token.
    fn headers(&self, signed: bool) -> Result<HeaderMap, HandlerError> {
        let header = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        let mut headers: HeaderMap = self.platform.headers.iter().map(header).collect();
        if signed {
            let value =
                HeaderValue::try_from(format!("{} {}", self.platform.scheme, self.token()?));
            let mut value = value.map_err(|_| {
                HandlerError::new(format!(
                    "the token for {} contains characters that a header cannot contain",
                    self.platform.name
                ))
                .code(Code::TOOL_HTTP)
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    /// Sends a request. Repeats it after an exceeded rate limit if a short wait is enough, because
    /// such a request had no effect.
    async fn send(&self, mut request: HttpToolRequest) -> Result<HttpToolResponse, HandlerError> {
        let end = Instant::now() + request.timeout;
        let mut min_wait = Duration::ZERO;
        loop {
            let response = self.send_once(request.clone()).await?;
            let Some(wait) = requested_wait(&response) else {
                return Ok(response);
            };
            let wait = wait.max(min_wait);
            let rest = end.saturating_duration_since(Instant::now());
            request.timeout = rest.saturating_sub(wait);
            if wait > MAX_LIMIT_WAIT || request.timeout < MIN_REPETITION_TIME {
                return Err(self.rate_limit_error(wait));
            }
            tokio::time::sleep(wait).await;
            min_wait = (min_wait * 2).max(Duration::from_secs(1));
        }
    }

    /// Sends a request once. The URL may contain the token, so it is removed from errors.
    async fn send_once(&self, request: HttpToolRequest) -> Result<HttpToolResponse, HandlerError> {
        let secrets = SecretRedactor::new();
        secrets.add_secrets([Secret::new(self.token()?)]);
        self.http.send(request).await.map_err(|mut error| {
            secrets.clean(&mut error.message);
            error
        })
    }

    /// Returns the error of an operation that the platform refused with `message`.
    fn rejection_error(
        &self,
        method: &str,
        status: StatusCode,
        message: Option<&str>,
    ) -> HandlerError {
        let message: String = message
            .unwrap_or_default()
            .chars()
            .take(MAX_ERROR_CHARS)
            .collect();
        let message = if message.is_empty() {
            format!("status {status}")
        } else {
            message
        };
        HandlerError::new(format!(
            "{} refused {method}: {message}",
            self.platform.name
        ))
        .code(Code::TOOL_HTTP)
    }

    /// Returns the error for a rate limit that lasts too long.
    fn rate_limit_error(&self, wait: Duration) -> HandlerError {
        let seconds = wait.as_secs_f64().ceil();
        let message = format!(
            "{} limits the rate of requests, and accepts the next one in {seconds} s",
            self.platform.name
        );
        HandlerError::new(message)
            .code(Code::TOOL_HTTP)
            .suggest(format!("wait {seconds} s, then call the tool again"))
    }
}

/// Returns the wait that a response requests because a rate limit is exceeded.
fn requested_wait(response: &HttpToolResponse) -> Option<Duration> {
    let body: Value = if response.body.len() <= MAX_LIMIT_ANSWER_BYTES {
        serde_json::from_slice(&response.body).unwrap_or_default()
    } else {
        Value::Null
    };
    let response = PlatformResponse {
        status: response.status.as_u16(),
        header: |name: &str| response.headers.get(name)?.to_str().ok(),
        body: &body,
    };
    response.requested_wait(Utc::now())
}

/// A status with the JSON of an answer; `null` if it is not JSON.
type ApiAnswer = (StatusCode, Value);

/// Removes the `null` fields.
fn without_nulls(fields: Value) -> Value {
    match fields {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect(),
        ),
        other => other,
    }
}

/// Combines one and several emojis, each once, in order.
fn merge_emojis(one: Option<String>, several: Vec<String>, clean: fn(&str) -> &str) -> Vec<String> {
    let mut emojis: Vec<String> = Vec::new();
    for emoji in one
        .iter()
        .chain(&several)
        .map(|emoji| clean(emoji.trim()))
        .filter(|emoji| !emoji.is_empty())
    {
        if !emojis.iter().any(|known| known == emoji) {
            emojis.push(emoji.to_owned());
        }
    }
    emojis
}

/// Returns the error of a call without an emoji.
fn no_emoji_error() -> HandlerError {
    errors::invalid_argument("pass `emoji` or a non-empty `emojis`")
}

/// Time limit.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
struct TimeLimit(#[schemars(range(min = 1, max = 60_000))] u32);

impl TimeLimit {
    fn duration(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

impl Default for TimeLimit {
    fn default() -> Self {
        TimeLimit(15_000)
    }
}
