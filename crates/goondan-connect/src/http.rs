//! HTTP client for platforms, and the failures of requests.

use std::sync::OnceLock;
use std::time::Duration;

use chrono::Utc;
use goondan::rate_limit::PlatformResponse;
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use url::Url;

/// Connect time-out.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time-out of ordinary requests.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time-out of file uploads.
pub(crate) const UPLOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum bytes of a response.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// Minimum wait of a loop that repeats a request until its rate limit ends.
const MIN_LOOP_WAIT: Duration = Duration::from_secs(1);
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

/// Waits until a rate limit ends, before a request is repeated as often as necessary.
pub(crate) async fn wait_for_limit(wait: Duration) {
    tokio::time::sleep(wait.max(MIN_LOOP_WAIT)).await;
}

static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();

/// Returns the shared client.
pub(crate) async fn client() -> Result<Client, PlatformFailure> {
    // Loading the system's certificates blocks.
    let created = tokio::task::spawn_blocking(|| CLIENT.get_or_init(build_client).clone()).await;
    created
        .map_err(|panic| panic.to_string())
        .flatten()
        .map_err(PlatformFailure::Unreached)
}

/// Builds the client. Fails with a message that contains no URL.
fn build_client() -> Result<Client, String> {
    Client::builder()
        .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        // Callers decide about retries, because only they know which requests are repeatable.
        .retry(reqwest::retry::never())
        // A redirect would send the token to another host.
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(goondan_tls::with_system_certificates())
        .build()
        .map_err(|error| error.without_url().to_string())
}

/// Response of a platform.
pub(crate) struct PlatformAnswer {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    /// `Null` if the body is not JSON.
    pub(crate) body: Value,
}

/// Sends a request and returns its response. Fails with [`PlatformFailure::Later`] if a rate limit
/// is exceeded.
pub(crate) async fn send(
    request: RequestBuilder,
    timeout: Duration,
) -> Result<PlatformAnswer, PlatformFailure> {
    let outcome = request.timeout(timeout).send().await;
    let mut response = outcome.map_err(|error| {
        let is_unsent = error.is_connect() || error.is_builder();
        if is_unsent {
            PlatformFailure::Unreached(error_text(error))
        } else {
            PlatformFailure::Unknown(error_text(error))
        }
    })?;
    let answer = PlatformAnswer {
        status: response.status(),
        headers: std::mem::take(response.headers_mut()),
        body: read_json_body(response).await?,
    };
    match answer.requested_wait() {
        Some(wait) => Err(PlatformFailure::Later(wait)),
        None => Ok(answer),
    }
}

impl PlatformAnswer {
    /// Returns the wait if a rate limit is exceeded. The request had no effect then.
    fn requested_wait(&self) -> Option<Duration> {
        let response = PlatformResponse {
            status: self.status.as_u16(),
            header: |name: &str| self.headers.get(name)?.to_str().ok(),
            body: &self.body,
        };
        response.requested_wait(Utc::now())
    }

    /// Returns the URL that a redirect names, if it has the origin of `base`, which may receive the
    /// token.
    fn redirect(&self, base: &Url) -> Option<Url> {
        let is_redirect = matches!(self.status.as_u16(), 301 | 302 | 307 | 308);
        let location = self.headers.get(LOCATION).filter(|_| is_redirect)?;
        let url = base.join(location.to_str().ok()?).ok()?;
        (url.origin() == base.origin()).then_some(url)
    }

    /// Returns the JSON body of a successful response.
    pub(crate) fn success(self) -> Result<Value, PlatformFailure> {
        match self.status {
            status if status.is_success() => Ok(self.body),
            status if status.is_server_error() => Err(PlatformFailure::Unknown(self.message())),
            _ => Err(PlatformFailure::Refused(self.message())),
        }
    }

    /// Returns the status with the platform's error message.
    pub(crate) fn message(&self) -> String {
        let field = ["description", "message", "error"]
            .iter()
            .find_map(|name| self.body.get(name)?.as_str());
        let message: String = field
            .unwrap_or_default()
            .chars()
            .take(MAX_ERROR_CHARS)
            .collect();
        format!("{} {message}", self.status.as_u16())
            .trim_end()
            .to_owned()
    }
}

/// Sends a request and returns the JSON body of a successful response.
pub(crate) async fn request_json(request: RequestBuilder) -> Result<Value, PlatformFailure> {
    request_json_with_timeout(request, REQUEST_TIMEOUT).await
}

/// Sends a request like [`request_json`], with the time limit `timeout`.
pub(crate) async fn request_json_with_timeout(
    request: RequestBuilder,
    timeout: Duration,
) -> Result<Value, PlatformFailure> {
    send(request, timeout).await?.success()
}

/// Same as [`request_json`], and repeats the request once at the URL that a redirect names, such as
/// that of a renamed repository. `request` creates the request for a URL.
pub(crate) async fn request_json_following_redirect(
    url: &str,
    request: impl Fn(Url) -> RequestBuilder,
) -> Result<Value, PlatformFailure> {
    let url = Url::parse(url).map_err(|error| PlatformFailure::Unreached(error.to_string()))?;
    let answer = send(request(url.clone()), REQUEST_TIMEOUT).await?;
    match answer.redirect(&url) {
        Some(moved) => send(request(moved), REQUEST_TIMEOUT).await?.success(),
        None => answer.success(),
    }
}

/// Reads a JSON body; `Null` if the body is not JSON. Fails if it has more than
/// [`MAX_RESPONSE_BYTES`].
async fn read_json_body(mut response: Response) -> Result<Value, PlatformFailure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| PlatformFailure::Unknown(error_text(error)))?
    {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_RESPONSE_BYTES {
            return Err(PlatformFailure::Unknown(
                "the response is too large".to_owned(),
            ));
        }
    }
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

/// A downloaded file.
pub(crate) struct DownloadedFile {
    pub(crate) content: Vec<u8>,
    /// Media type that the server sent, without parameters.
    pub(crate) media_type: Option<String>,
}

/// Downloads a file of at most `max_bytes`.
///
/// # Errors
/// [`PlatformFailure::Later`] if a rate limit is exceeded, [`PlatformFailure::Refused`] if the file
/// is larger or the server returns an error status, else [`PlatformFailure::Unknown`].
pub(crate) async fn download(
    request: RequestBuilder,
    max_bytes: usize,
) -> Result<DownloadedFile, PlatformFailure> {
    let mut response = request
        .send()
        .await
        .map_err(|error| PlatformFailure::Unknown(error_text(error)))?;
    let answer = PlatformAnswer {
        status: response.status(),
        headers: response.headers().clone(),
        body: Value::Null,
    };
    if let Some(wait) = answer.requested_wait() {
        return Err(PlatformFailure::Later(wait));
    }
    if !response.status().is_success() {
        return Err(PlatformFailure::Refused(response.status().to_string()));
    }
    let media_type = media_type_of(response.headers());
    let mut content = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| PlatformFailure::Unknown(error_text(error)))?
    {
        content.extend_from_slice(&chunk);
        if content.len() > max_bytes {
            return Err(PlatformFailure::Refused(format!(
                "the file has more than {max_bytes} bytes"
            )));
        }
    }
    Ok(DownloadedFile {
        content,
        media_type,
    })
}

/// Returns the media type in the header `Content-Type`, without parameters such as the charset.
fn media_type_of(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get("content-type")?.to_str().ok()?;
    let media_type = content_type.split(';').next()?;
    Some(media_type.trim().to_owned())
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
