//! Errors of model calls, in sentences with a fix. No message contains a key.

use std::time::Duration;

use chrono::Utc;
use goondan_core::ports::model::{ModelError, ModelErrorKind};
use goondan_core::redact::SecretRedactor;
use goondan_spec::Resource;
use goondan_spec::kinds::Model;
use goondan_spec::sent_schema::ProviderWireFormat;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;

use super::endpoint::bare_host;
use super::key::ApiKey;
use super::settings::ClientSettings;
use crate::errors::{
    ProviderError, ReportedError, configuration_error, connection_error, protocol_error,
    read_error_body, retry_after, with_suggestion,
};
use crate::provider::ModelProvider;
use crate::transport::{FramingError, ProbeAnswer, error_chain, limits};

/// Characters of a provider's words that messages contain.
const MAX_MESSAGE_CHARS: usize = 1000;

/// Parts of codes and messages that mean an empty account.
const QUOTA_WORDS: [&str; 7] = [
    "insufficient_quota",
    "exceeded your current quota",
    "billing",
    "credit balance",
    "insufficient balance",
    "insufficient credits",
    "payment required",
];

/// Parts of messages that mean that the schema of a structured answer is not accepted.
const SCHEMA_WORDS: [&str; 7] = [
    "response_format",
    "json_schema",
    "output_config",
    "output_format",
    "responsejsonschema",
    "response_mime_type",
    "structured output",
];

/// Parts of messages that mean that the server, or the server that a gateway calls, is starting.
const STARTING_WORDS: [&str; 4] = [
    "loading",
    "connection error",
    "connection refused",
    "connect error",
];

/// Names and secrets of one client, for its error messages.
pub(crate) struct FailureContext {
    resource: String,
    provider: &'static ModelProvider,
    model: String,
    key_origin: String,
    has_own_endpoint: bool,
    /// The Model's endpoint, if it is a bare host although the format needs a version after it.
    endpoint_without_version: Option<String>,
    idle_timeout: Duration,
    redactor: SecretRedactor,
}

impl FailureContext {
    pub(crate) fn new(
        model: &Resource<Model>,
        provider: &'static ModelProvider,
        wire: ProviderWireFormat,
        key: &ApiKey,
        settings: &ClientSettings,
    ) -> Self {
        let has_version = matches!(
            wire,
            ProviderWireFormat::Anthropic
                | ProviderWireFormat::Chat
                | ProviderWireFormat::Responses
        );
        let endpoint = model.spec.endpoint.as_deref();
        let redactor = SecretRedactor::new();
        let headers = settings.headers.iter().map(|(_, value)| value.clone());
        redactor.add_secrets(key.value.iter().cloned().chain(headers));
        FailureContext {
            resource: model.id.to_string(),
            provider,
            model: model.spec.model.clone(),
            key_origin: key.origin.clone(),
            has_own_endpoint: endpoint.is_some(),
            endpoint_without_version: endpoint.filter(|_| has_version).and_then(bare_host),
            idle_timeout: settings.idle_timeout,
            redactor,
        }
    }

    /// Returns the error for a request or an answer that did not get through.
    pub(crate) fn transport_error(&self, host: &str, error: &reqwest::Error) -> ModelError {
        let reason = error_chain(error);
        let failure = if error.is_builder() {
            self.unsendable_error(host, &reason)
        } else if error.is_connect() || error.is_timeout() {
            let kind = if is_refused(error) {
                ModelErrorKind::Starting
            } else {
                ModelErrorKind::Connection
            };
            let failure = ModelError::new(kind, format!("{host} is not reachable: {reason}."));
            with_suggestion(failure, self.suggestion_to_reach(host, &reason))
        } else {
            connection_error(format!("The stream from {host} broke off: {reason}."))
        };
        self.without_secrets(failure)
    }

    /// Returns the error for a request that cannot be sent.
    pub(crate) fn unsendable_error(&self, host: &str, reason: &str) -> ModelError {
        self.without_secrets(configuration_error(
            format!("The request to {host} cannot be sent: {reason}."),
            format!(
                "Check endpoint, apiKey and options.headers of {}.",
                self.resource
            ),
        ))
    }

    /// Converts an unsuccessful HTTP response to a model error. `sent_schema`: whether the request
    /// had an output schema.
    pub(crate) fn http_status_error(
        &self,
        host: &str,
        status: StatusCode,
        body: &str,
        headers: &HeaderMap,
        sent_schema: bool,
    ) -> ModelError {
        let is_web_page = is_html(body);
        // Logins and redirections have better messages, which name the key or the new URL.
        let is_wrong_url = is_web_page
            && is_permanent(status)
            && !matches!(status.as_u16(), 401 | 403)
            && !status.is_redirection();
        if is_wrong_url {
            return self.web_page_error(host);
        }
        let mut reported = match serde_json::from_str(body) {
            Ok(Value::Null) | Err(_) => {
                let message = if is_web_page {
                    "a web page"
                } else {
                    body.trim()
                };
                ReportedError {
                    message: message.to_owned(),
                    ..ReportedError::default()
                }
            }
            Ok(json) => read_error_body(&json),
        };
        reported.retry_after = retry_after(headers, Utc::now()).or(reported.retry_after);
        let location = headers
            .get(LOCATION)
            .and_then(|location| location.to_str().ok());
        self.refused_error(host, status, &reported, location, sent_schema)
    }

    /// Converts an error in a provider's answer to a model error without secrets.
    pub(crate) fn provider_error(&self, host: &str, error: ProviderError) -> ModelError {
        let failure = match error {
            ProviderError::Reported(reported) => self.reported_error(host, &reported),
            ProviderError::Unreadable(error) if error.is_eof() => self.broken_stream_error(host),
            ProviderError::Unreadable(error) => {
                protocol_error(format!("{host} sent an event that is not JSON: {error}."))
            }
            ProviderError::Declined {
                reason,
                explanation,
            } => ModelError::new(
                ModelErrorKind::Declined,
                format!(
                    "The model declined to answer ({reason}){}",
                    quoted_ending(&explanation)
                ),
            ),
            ProviderError::Failed {
                reason,
                explanation,
            } => connection_error(format!(
                "{host} aborted the answer ({reason}){}",
                quoted_ending(&explanation)
            )),
        };
        self.without_secrets(failure)
    }

    /// Returns the error for a JSON body that reports one instead of a stream. Without a status, it
    /// mostly means that the path does not exist, so a retry cannot help.
    pub(crate) fn error_instead_of_stream(&self, host: &str, error: ProviderError) -> ModelError {
        let reported = match error {
            ProviderError::Reported(reported) => reported,
            other => return self.provider_error(host, other),
        };
        if reported.status.is_some() || is_quota(&reported) {
            return self.provider_error(host, ProviderError::Reported(reported));
        }
        self.without_secrets(with_suggestion(
            protocol_error(format!(
                "{host} returned an error instead of a stream{}",
                quoted_ending(&reported.message)
            )),
            format!("Check `endpoint` and `model` of {}.", self.resource),
        ))
    }

    /// Returns the error for an answer in which the provider reported `reported`.
    fn reported_error(&self, host: &str, reported: &ReportedError) -> ModelError {
        match reported
            .status
            .and_then(|status| StatusCode::from_u16(status).ok())
        {
            Some(status) => self.refused_error(host, status, reported, None, false),
            None if is_quota(reported) => {
                let message = format!(
                    "{host} refused the request{}",
                    quoted_ending(&reported.message)
                );
                self.quota_error(402, message)
            }
            None => ModelError {
                retry_after: reported.retry_after,
                ..connection_error(format!(
                    "{host} aborted the answer{}",
                    quoted_ending(&reported.message)
                ))
            },
        }
    }

    /// Returns the error for a request that the provider answered with an error status.
    fn refused_error(
        &self,
        host: &str,
        status: StatusCode,
        reported: &ReportedError,
        location: Option<&str>,
        sent_schema: bool,
    ) -> ModelError {
        let message = format!(
            "{host} answered {}{}",
            code_and_reason(status),
            quoted_ending(&reported.message)
        );
        let code = status.as_u16();
        if is_quota(reported) && matches!(code, 400 | 402 | 403 | 429) || code == 402 {
            return self.without_secrets(self.quota_error(code, message));
        }
        let words = reported.message.to_lowercase();
        let is_starting =
            (500..=504).contains(&code) && STARTING_WORDS.iter().any(|word| words.contains(word));
        let refuses_schema = sent_schema
            && matches!(code, 400 | 422)
            && SCHEMA_WORDS.iter().any(|word| words.contains(word));
        let kind = match () {
            () if is_starting => ModelErrorKind::Starting,
            () if refuses_schema => ModelErrorKind::SchemaRefused(code),
            () if is_overflow(code, reported) => ModelErrorKind::ContextOverflow(code),
            () => ModelErrorKind::Status(code),
        };
        self.without_secrets(ModelError {
            suggestion: if refuses_schema {
                Some(format!(
                    "Write `capabilities: {{structuredOutput: false}}` in {}.",
                    self.resource
                ))
            } else {
                self.suggestion_for_status(status, location)
            },
            retry_after: reported.retry_after,
            ..ModelError::new(kind, message)
        })
    }

    /// Returns the error for an account without credit.
    fn quota_error(&self, status: u16, message: String) -> ModelError {
        with_suggestion(
            ModelError::new(ModelErrorKind::Quota(status), message),
            format!(
                "Add credit to the account whose key comes from {}, or use another key.",
                self.key_origin
            ),
        )
    }

    /// Returns the fix for an HTTP status, or `None` if there is no usual fix.
    fn suggestion_for_status(&self, status: StatusCode, location: Option<&str>) -> Option<String> {
        match status.as_u16() {
            401 | 403 => Some(format!(
                "Check the key, which comes from {}.",
                self.key_origin
            )),
            404 if self.provider.name == "ollama" => Some(format!(
                "Fetch the model with `ollama pull {}`.",
                self.model
            )),
            404 => Some(self.suggestion_for_not_found()),
            300..=399 => location.map(|to| {
                format!(
                    "The URL moved to {to}. Use the new URL as `endpoint` of {}.",
                    self.resource
                )
            }),
            _ => None,
        }
    }

    /// Returns the fix for a model or URL that does not exist.
    fn suggestion_for_not_found(&self) -> String {
        let checks = format!(
            "Check `model` ({}) and `endpoint` of {}",
            self.model, self.resource
        );
        match &self.endpoint_without_version {
            Some(endpoint) => format!("{checks}: did you mean `endpoint: {endpoint}/v1`?"),
            None => format!("{checks}."),
        }
    }

    /// Returns the error for a stream that ended before the answer did.
    pub(crate) fn broken_stream_error(&self, host: &str) -> ModelError {
        connection_error(format!(
            "The stream broke off: {host} ended it before the answer was complete."
        ))
    }

    /// Returns the error for a provider that sends nothing for too long.
    pub(crate) fn idle_timeout_error(&self, host: &str) -> ModelError {
        with_suggestion(
            connection_error(format!(
                "{host} sent nothing for {} seconds.",
                self.idle_timeout.as_secs_f64()
            )),
            format!("Raise `options.timeoutSeconds` of {}.", self.resource),
        )
    }

    /// Returns the error for an answer that exceeds a limit.
    pub(crate) fn too_large(&self, host: &str, max_bytes: usize) -> ModelError {
        let mebibytes = max_bytes / (1024 * 1024);
        with_suggestion(
            protocol_error(format!(
                "The answer of {host} is larger than {mebibytes} MiB."
            )),
            "Limit the answer with `modelConfig.params.maxTokens`.",
        )
    }

    /// Returns the error for a body that cannot be divided into events.
    pub(crate) fn framing_error(&self, host: &str, error: &FramingError) -> ModelError {
        match error {
            FramingError::TooLong => self.too_large(host, limits::MAX_ANSWER_BYTES),
            FramingError::NotText(error) => {
                protocol_error(format!("{host} sent an event that is not text: {error}."))
            }
            FramingError::Damaged(reason) => {
                connection_error(format!("The stream from {host} is damaged: {reason}."))
            }
        }
    }

    /// Returns the error for an embeddings answer that cannot be used.
    pub(crate) fn embeddings_error(
        &self,
        host: &str,
        body: &str,
        error: ProviderError,
    ) -> ModelError {
        match error {
            _ if is_html(body) => self.web_page_error(host),
            ProviderError::Unreadable(error) if error.is_eof() => {
                connection_error(format!("{host} sent an incomplete answer."))
            }
            ProviderError::Unreadable(error) => protocol_error(format!(
                "The answer of {host} is not a list of embeddings: {error}."
            )),
            error => self.provider_error(host, error),
        }
    }

    /// Returns the error for an embeddings request that takes too long.
    pub(crate) fn embeddings_timeout_error(&self, host: &str, limit: Duration) -> ModelError {
        connection_error(format!(
            "{host} returned no embeddings within {} seconds.",
            limit.as_secs()
        ))
    }

    /// Returns the error for a web page instead of an answer.
    pub(crate) fn web_page_error(&self, host: &str) -> ModelError {
        with_suggestion(
            protocol_error(format!(
                "{host} answered with a web page instead of JSON, so `endpoint` may be wrong."
            )),
            format!("Check `endpoint` of {}: most end in /v1.", self.resource),
        )
    }

    /// Returns the error for an answer without any event. `probe` is the start of the body, or the
    /// answer to a GET.
    pub(crate) fn without_events(&self, host: &str, probe: Option<ProbeAnswer>) -> ModelError {
        let failure = match probe {
            Some(probe) if is_html(&probe.body) => self.web_page_error(host),
            Some(probe) if probe.status == 200 && probe.body.trim_start().starts_with('{') => {
                with_suggestion(
                    protocol_error(format!(
                        "{host} returned other data instead of a stream: {}",
                        clip_message(probe.body.trim())
                    )),
                    format!("Check `endpoint` of {}.", self.resource),
                )
            }
            _ => with_suggestion(
                self.broken_stream_error(host),
                format!(
                    "If the error recurs, check `endpoint` of {}.",
                    self.resource
                ),
            ),
        };
        self.without_secrets(failure)
    }

    /// Returns the fix for a `host` that is not reachable because of `reason`.
    fn suggestion_to_reach(&self, host: &str, reason: &str) -> String {
        if reason.contains("certificate") {
            return format!(
                "This machine does not trust the certificate of {host}. Install the package \
                ca-certificates, or the \
                 certificate of your company's proxy."
            );
        }
        let is_local = matches!(
            self.provider.name.as_str(),
            "llamacpp" | "lmstudio" | "vllm"
        );
        match self.provider.name.as_str() {
            "ollama" => format!("Start Ollama at {host} with `ollama serve`."),
            _ if is_local || self.has_own_endpoint => {
                format!(
                    "Start the server at {host}, or check `endpoint` of {}.",
                    self.resource
                )
            }
            _ => "Check the network and, if there is one, the proxy (HTTPS_PROXY).".to_owned(),
        }
    }

    /// Redacts the key and the headers in `failure`.
    fn without_secrets(&self, mut failure: ModelError) -> ModelError {
        self.redactor.clean(&mut failure.message);
        if let Some(text) = failure.suggestion.as_mut() {
            self.redactor.clean(text);
        }
        failure
    }
}

/// Returns true if the server refused the connection, as it does while it starts.
fn is_refused(error: &reqwest::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.kind() == std::io::ErrorKind::ConnectionRefused;
        }
        next = error.source();
    }
    false
}

/// Returns true if a retry cannot help after `status`.
fn is_permanent(status: StatusCode) -> bool {
    !ModelError::new(ModelErrorKind::Status(status.as_u16()), "").is_transient()
}

/// Returns true if the provider refused the conversation because it is too long.
fn is_overflow(code: u16, reported: &ReportedError) -> bool {
    let has_code = reported.code.as_deref().is_some_and(|code| {
        code == "context_length_exceeded" || code == "model_context_window_exceeded"
    });
    has_code
        || matches!(code, 400 | 413 | 422) && ModelError::is_overflow_message(&reported.message)
}

/// Returns true if the provider reported an account without credit.
fn is_quota(reported: &ReportedError) -> bool {
    let code = reported.code.as_deref().unwrap_or_default();
    let text = format!("{code} {}", reported.message).to_lowercase();
    QUOTA_WORDS.iter().any(|words| text.contains(words))
}

/// Returns true if `text` begins like a web page.
pub(crate) fn is_html(text: &str) -> bool {
    let start = text
        .trim_start()
        .chars()
        .take(1000)
        .collect::<String>()
        .to_lowercase();
    let tags = ["<!doctype html", "<html", "<head", "<body"];
    start.starts_with('<') && tags.iter().any(|tag| start.contains(tag))
}

/// Returns `429 Too Many Requests`, or only the number if it has no name.
fn code_and_reason(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// Returns the end of a sentence that quotes a provider.
fn quoted_ending(explanation: &str) -> String {
    let explanation = clip_message(explanation.trim());
    match explanation.chars().last() {
        None => ".".to_owned(),
        Some('.' | '!' | '?' | '…') => format!(": {explanation}"),
        Some(_) => format!(": {explanation}."),
    }
}

/// Returns the first characters of `text`, with an ellipsis if it is longer.
fn clip_message(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}
