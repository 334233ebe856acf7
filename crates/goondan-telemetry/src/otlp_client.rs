//! HTTP requests to an OTLP endpoint.

use std::time::Duration;

use chrono::Utc;
use goondan_core::rate_limit;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::otlp::{PartialSuccess, TracesResponse};
use crate::settings::{OtlpEndpoint, OtlpProtocol};

/// Maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// Maximum length of a displayed error message, in characters.
const MAX_REASON_CHARACTERS: usize = 300;

/// HTTP client of one OTLP endpoint.
#[derive(Debug)]
pub struct OtlpClient {
    endpoint: OtlpEndpoint,
    client: OnceCell<Client>,
}

/// Error of an export. The message never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportError {
    /// Message for people.
    pub message: String,
    /// A retry with the same message can succeed.
    pub is_transient: bool,
    /// Minimum wait before a retry, requested by the endpoint.
    pub retry_after: Option<Duration>,
}

impl OtlpClient {
    /// Returns a client that connects with its first request.
    pub fn new(endpoint: OtlpEndpoint) -> Self {
        OtlpClient {
            endpoint,
            client: OnceCell::new(),
        }
    }

    /// Returns the URL without parts that can contain secrets.
    pub fn display_url(&self) -> String {
        let url = &self.endpoint.url;
        format!("{}{}", url.origin().ascii_serialization(), url.path())
    }

    /// Sends a message. Returns the part that the endpoint rejected, if any.
    ///
    /// # Errors
    /// The endpoint did not accept the message.
    pub async fn post(
        &self,
        message: &(impl Message + Serialize),
    ) -> Result<Option<PartialSuccess>, ExportError> {
        let client = self
            .client
            .get_or_try_init(|| build_client(self.endpoint.url.scheme() == "https"))
            .await?;
        let (content_type, body) = match self.endpoint.protocol {
            OtlpProtocol::Protobuf => ("application/x-protobuf", message.encode_to_vec()),
            OtlpProtocol::Json => (
                "application/json",
                serde_json::to_vec(message).unwrap_or_default(),
            ),
        };
        let request = client
            .post(self.endpoint.url.clone())
            .headers(self.headers())
            .header(CONTENT_TYPE, content_type);
        let response = request
            .timeout(self.endpoint.timeout)
            .body(body)
            .send()
            .await
            .map_err(|error| connection_error(&error))?;
        let status = response.status();
        let retry_after = retry_after(&response);
        let answer = read(response).await;
        if status.is_success() {
            return Ok(self.rejected_part(&answer));
        }
        let reason: String = String::from_utf8_lossy(&answer)
            .trim()
            .chars()
            .take(MAX_REASON_CHARACTERS)
            .collect();
        let message = match reason.is_empty() || reason.chars().any(char::is_control) {
            true => format!("status {status}"),
            false => format!("status {status}: {reason}"),
        };
        // Retryable statuses of the OTLP specification.
        let is_transient = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        Err(ExportError {
            message,
            is_transient,
            retry_after,
        })
    }

    /// Returns the configured headers. Invalid headers are omitted.
    fn headers(&self) -> HeaderMap {
        let pairs = self.endpoint.headers.iter().filter_map(|(name, value)| {
            let mut value = HeaderValue::from_str(value.expose()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        });
        pairs.collect()
    }

    /// Returns the rejected part of an accepted request, or its warning, if any.
    fn rejected_part(&self, answer: &[u8]) -> Option<PartialSuccess> {
        let part = match self.endpoint.protocol {
            OtlpProtocol::Protobuf => TracesResponse::decode(answer).ok()?.partial_success,
            OtlpProtocol::Json => partial_success_in_json(answer),
        };
        part.filter(|part| part.rejected > 0 || !part.error_message.trim().is_empty())
    }
}

/// Reads the partial success in a JSON response. Numbers of 64 bits may be strings there.
fn partial_success_in_json(answer: &[u8]) -> Option<PartialSuccess> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let part = answer
        .get("partialSuccess")
        .or(answer.get("partial_success"))?;
    let count = [
        "rejectedSpans",
        "rejectedDataPoints",
        "rejected_spans",
        "rejected_data_points",
    ]
    .iter()
    .find_map(|name| part.get(*name));
    let count = count.and_then(|count| match count {
        Value::String(digits) => digits.parse().ok(),
        count => count.as_i64(),
    });
    let message = part.get("errorMessage").or(part.get("error_message"));
    Some(PartialSuccess {
        rejected: count.unwrap_or_default(),
        error_message: message
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
    })
}

/// Reads the body of a response up to about [`MAX_RESPONSE_BYTES`]. The rest and errors are
/// ignored.
async fn read(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() > MAX_RESPONSE_BYTES {
            break;
        }
    }
    body
}

/// Returns the wait that the response requests.
fn retry_after(response: &Response) -> Option<Duration> {
    let stated = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    rate_limit::retry_after(stated, Utc::now())
}

/// Converts the error of a request without a response.
fn connection_error(error: &reqwest::Error) -> ExportError {
    // The innermost error is the most specific, and contains no URL.
    let mut reason = error as &dyn std::error::Error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    let message = if error.is_timeout() {
        "no answer in time".to_owned()
    } else {
        reason.to_string()
    };
    ExportError {
        message,
        is_transient: true,
        retry_after: None,
    }
}

/// Builds the client on a blocking thread, because it reads certificate files.
async fn build_client(is_secure: bool) -> Result<Client, ExportError> {
    let building = tokio::task::spawn_blocking(move || {
        let tls = if is_secure {
            goondan_tls::with_system_certificates()
        } else {
            goondan_tls::without_certificates()
        };
        Client::builder()
            .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
            // A redirect would send the headers, which can contain keys, to another server.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .tls_backend_preconfigured(tls)
            .build()
    });
    let unusable = |message: String| ExportError {
        message,
        is_transient: false,
        retry_after: None,
    };
    building
        .await
        .map_err(|error| unusable(error.to_string()))?
        .map_err(|error| unusable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use wiremock::matchers::any;
    use wiremock::{Mock, MockServer, ResponseTemplate};

    use super::*;
    use crate::otlp::TracesRequest;

    #[test]
    fn a_partial_success_in_json_is_read() {
        let read = |text: &str| {
            let part = partial_success_in_json(text.as_bytes())?;
            Some((part.rejected, part.error_message))
        };
        for (text, expected) in [
            (
                r#"{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "no tenant"}}"#,
                Some((3, "no tenant")),
            ),
            (
                r#"{"partialSuccess": {"rejectedDataPoints": 2}}"#,
                Some((2, "")),
            ),
            (
                r#"{"partial_success": {"error_message": "slow"}}"#,
                Some((0, "slow")),
            ),
            ("{}", None),
            ("", None),
        ] {
            let expected = expected.map(|(count, message)| (count, message.to_owned()));
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn retry_after_may_be_a_date() {
        let server = MockServer::builder().start().await;
        let past = "Thu, 01 Jan 1970 00:00:00 GMT";
        let busy = ResponseTemplate::new(503).insert_header("retry-after", past);
        Mock::given(any()).respond_with(busy).mount(&server).await;
        let client = OtlpClient::new(OtlpEndpoint {
            url: server.uri().parse().unwrap(),
            protocol: OtlpProtocol::Json,
            headers: Vec::new(),
            timeout: Duration::from_secs(60),
        });
        let error = client.post(&TracesRequest::default()).await.unwrap_err();
        assert_eq!(error.retry_after, Some(Duration::ZERO));
    }
}
