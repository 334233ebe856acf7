//! HTTP client for platforms, and the failures of requests.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;

/// Connect time-out.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time-out of ordinary requests.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time-out of file uploads.
pub(crate) const UPLOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum bytes of a response.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// Maximum characters kept of a platform's error message.
const MAX_ERROR_CHARS: usize = 300;

/// Failure of a platform request. Contains no URL, because URLs may contain tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlatformFailure {
    /// The rate limit is exceeded until the given time has passed.
    #[error("the rate limit of the platform is reached for {0:?}")]
    Later(Duration),
    /// The connection failed, so the request had no effect.
    #[error("the platform cannot be reached: {0}")]
    Unreached(String),
    /// The platform refused the request.
    #[error("the platform refused the request: {0}")]
    Refused(String),
    /// The effect of the request is unknown.
    #[error("the result of the request is unknown: {0}")]
    Unknown(String),
}

static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();

/// Returns the shared client.
pub(crate) async fn client() -> Result<Client, PlatformFailure> {
    // Loading the system's certificates blocks.
    let created = tokio::task::spawn_blocking(|| CLIENT.get_or_init(make).clone()).await;
    created
        .map_err(|panic| panic.to_string())
        .flatten()
        .map_err(PlatformFailure::Unreached)
}

/// Creates the client.
fn make() -> Result<Client, String> {
    Client::builder()
        .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        // Callers decide about retries, because only they can tell which requests are repeatable.
        .retry(reqwest::retry::never())
        // A redirect would send the token to another host.
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(goondan_tls::with_system_certificates())
        .build()
        .map_err(|error| error.without_url().to_string())
}

/// Sends a request and returns the status and the JSON body; `Null` if the body is not JSON.
pub(crate) async fn ask(
    request: RequestBuilder,
    patience: Duration,
) -> Result<(StatusCode, Value), PlatformFailure> {
    let outcome = request.timeout(patience).send().await;
    let response = outcome.map_err(|error| match error.is_connect() || error.is_builder() {
        true => PlatformFailure::Unreached(error_text(error)),
        false => PlatformFailure::Unknown(error_text(error)),
    })?;
    let (status, wait) = (response.status(), retry_after(&response));
    let body = body(response).await?;
    if status == StatusCode::TOO_MANY_REQUESTS {
        let requested_seconds = body
            .pointer("/parameters/retry_after")
            .or(body.get("retry_after"))
            .and_then(Value::as_f64);
        let requested_wait = requested_seconds
            .filter(|seconds| (0.0..86_400.0).contains(seconds))
            .map(Duration::from_secs_f64);
        return Err(PlatformFailure::Later(
            requested_wait.or(wait).unwrap_or(Duration::from_secs(5)),
        ));
    }
    Ok((status, body))
}

/// Sends a request and returns the JSON body of a successful response.
pub(crate) async fn done(request: RequestBuilder) -> Result<Value, PlatformFailure> {
    done_within(request, REQUEST_TIMEOUT).await
}

/// Same as [`done`], with the time limit `patience`.
pub(crate) async fn done_within(
    request: RequestBuilder,
    patience: Duration,
) -> Result<Value, PlatformFailure> {
    let (status, body) = ask(request, patience).await?;
    let error_message = || {
        let field = ["description", "message", "error"]
            .iter()
            .find_map(|name| body.get(name)?.as_str());
        let message: String = field
            .unwrap_or_default()
            .chars()
            .take(MAX_ERROR_CHARS)
            .collect();
        format!("{} {message}", status.as_u16())
            .trim_end()
            .to_owned()
    };
    match status {
        _ if status.is_success() => Ok(body),
        _ if status.is_server_error() => Err(PlatformFailure::Unknown(error_message())),
        _ => Err(PlatformFailure::Refused(error_message())),
    }
}

/// Reads a JSON body; `Null` if the body is not JSON.
async fn body(mut response: Response) -> Result<Value, PlatformFailure> {
    let mut bytes = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| PlatformFailure::Unknown(error_text(error)))?
    {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MAX_RESPONSE_BYTES {
            return Err(PlatformFailure::Unknown(
                "the response is too large".to_owned(),
            ));
        }
    }
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Downloads a file. Returns the content and its media type. Fails if the file is larger than
/// `max_bytes`.
pub(crate) async fn content(
    request: RequestBuilder,
    max_bytes: usize,
) -> Result<(Vec<u8>, Option<String>), PlatformFailure> {
    let mut response = request
        .send()
        .await
        .map_err(|error| PlatformFailure::Unknown(error_text(error)))?;
    if !response.status().is_success() {
        return Err(PlatformFailure::Refused(response.status().to_string()));
    }
    let media_type = response
        .headers()
        .get("content-type")
        .and_then(|value| value.to_str().ok());
    let media_type = media_type
        .and_then(|text| text.split(';').next())
        .map(|text| text.trim().to_owned());
    let mut bytes = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| PlatformFailure::Unknown(error_text(error)))?
    {
        bytes.extend_from_slice(&piece);
        if bytes.len() > max_bytes {
            return Err(PlatformFailure::Refused(format!(
                "the file has more than {max_bytes} bytes"
            )));
        }
    }
    Ok((bytes, media_type))
}

/// Returns the wait that the response requests in seconds.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response
        .headers()
        .get("retry-after")?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns the error with its causes, without the URL.
fn error_text(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
