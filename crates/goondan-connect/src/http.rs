//! HTTP client for platforms, and the failures of requests.

use std::sync::OnceLock;
use std::time::Duration;

use chrono::{DateTime, Utc};
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
/// Wait after an exceeded rate limit if the platform does not state one.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// Same as [`DEFAULT_WAIT`], for a limit on creating content, which lasts longer.
const SECONDARY_LIMIT_WAIT: Duration = Duration::from_secs(60);
/// Longest stated wait that counts; a longer one is a mistake of the platform or of its clock.
const MAX_STATED_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Error codes for an exceeded rate limit in the body of a response with status 200.
const RATE_LIMIT_ERRORS: [&str; 2] = ["ratelimited", "rate_limited"];
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

/// Response of a platform.
pub(crate) struct PlatformAnswer {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    /// `Null` if the body is not JSON.
    pub(crate) body: Value,
}

/// Sends a request and returns its response. Fails with [`PlatformFailure::Later`] if a rate limit
/// is exceeded.
pub(crate) async fn ask(
    request: RequestBuilder,
    patience: Duration,
) -> Result<PlatformAnswer, PlatformFailure> {
    let outcome = request.timeout(patience).send().await;
    let mut response = outcome.map_err(|error| match error.is_connect() || error.is_builder() {
        true => PlatformFailure::Unreached(error_text(error)),
        false => PlatformFailure::Unknown(error_text(error)),
    })?;
    let answer = PlatformAnswer {
        status: response.status(),
        headers: std::mem::take(response.headers_mut()),
        body: body(response).await?,
    };
    match answer.requested_wait(Utc::now()) {
        Some(wait) => Err(PlatformFailure::Later(wait)),
        None => Ok(answer),
    }
}

impl PlatformAnswer {
    /// Returns the wait if a rate limit is exceeded. The request had no effect then. Platforms use
    /// different statuses: 429, 403 with a header, 503 with a header, or 200 with an error code.
    fn requested_wait(&self, now: DateTime<Utc>) -> Option<Duration> {
        let is_exhausted = self.header("x-ratelimit-remaining") == Some("0");
        let message = self.body["message"].as_str().unwrap_or_default();
        let is_secondary = message.contains("secondary rate limit") || message.contains("abuse");
        let has_wait = self.header("retry-after").is_some();
        let is_limited = match self.status.as_u16() {
            429 => true,
            403 => has_wait || is_exhausted || is_secondary,
            503 => has_wait,
            200 => self.body["error"]
                .as_str()
                .is_some_and(|error| RATE_LIMIT_ERRORS.contains(&error)),
            _ => false,
        };
        let until_reset = || {
            let reset: i64 = self.header("x-ratelimit-reset")?.parse().ok()?;
            let seconds = u64::try_from(reset - now.timestamp()).unwrap_or(0);
            // The clocks may differ by a second.
            Some(Duration::from_secs(seconds + 1))
        };
        let stated = self
            .stated_wait(now)
            .or_else(|| until_reset().filter(|_| is_exhausted))
            .filter(|wait| *wait <= MAX_STATED_WAIT);
        let default = match is_secondary {
            true => SECONDARY_LIMIT_WAIT,
            false => DEFAULT_WAIT,
        };
        is_limited.then(|| stated.unwrap_or(default))
    }

    /// Returns the wait that the body or a header states, in seconds or as a date.
    fn stated_wait(&self, now: DateTime<Utc>) -> Option<Duration> {
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        let in_body = self
            .body
            .pointer("/parameters/retry_after")
            .or(self.body.get("retry_after"))
            .and_then(Value::as_f64);
        if let Some(wait) = in_body.and_then(seconds) {
            return Some(wait);
        }
        let stated = self
            .header("retry-after")
            .or_else(|| self.header("x-ratelimit-reset-after"))?;
        match stated.parse() {
            Ok(number) => seconds(number),
            Err(_) => {
                let date = DateTime::parse_from_rfc2822(stated).ok()?;
                Some((date.to_utc() - now).to_std().unwrap_or_default())
            }
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
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
pub(crate) async fn done(request: RequestBuilder) -> Result<Value, PlatformFailure> {
    done_within(request, REQUEST_TIMEOUT).await
}

/// Same as [`done`], with the time limit `patience`.
pub(crate) async fn done_within(
    request: RequestBuilder,
    patience: Duration,
) -> Result<Value, PlatformFailure> {
    ask(request, patience).await?.success()
}

/// Same as [`done`], and repeats the request once at the URL that a redirect names, such as that of
/// a renamed repository. `request` creates the request for a URL.
pub(crate) async fn done_at(
    url: &str,
    request: impl Fn(Url) -> RequestBuilder,
) -> Result<Value, PlatformFailure> {
    let url = Url::parse(url).map_err(|error| PlatformFailure::Unreached(error.to_string()))?;
    let answer = ask(request(url.clone()), REQUEST_TIMEOUT).await?;
    match answer.redirect(&url) {
        Some(moved) => ask(request(moved), REQUEST_TIMEOUT).await?.success(),
        None => answer.success(),
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
    let answer = PlatformAnswer {
        status: response.status(),
        headers: response.headers().clone(),
        body: Value::Null,
    };
    if let Some(wait) = answer.requested_wait(Utc::now()) {
        return Err(PlatformFailure::Later(wait));
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wait(status: u16, headers: &[(&'static str, &str)], body: Value) -> Option<u64> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let answer = PlatformAnswer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.collect(),
            body,
        };
        let now = DateTime::from_timestamp(1_000, 0).unwrap();
        answer.requested_wait(now).map(|wait| wait.as_secs())
    }

    #[test]
    fn a_rate_limit_has_many_shapes() {
        let after = ("retry-after", "7");
        let none_left = ("x-ratelimit-remaining", "0");
        let secondary = json!({"message": "You have exceeded a secondary rate limit."});
        for (status, headers, body, expected) in [
            (429, vec![], Value::Null, 5),
            (429, vec![after], Value::Null, 7),
            (429, vec![], json!({"parameters": {"retry_after": 3}}), 3),
            (429, vec![], json!({"retry_after": 1.5, "global": true}), 1),
            (
                429,
                vec![("x-ratelimit-reset-after", "2.5")],
                Value::Null,
                2,
            ),
            (
                429,
                vec![("retry-after", "Thu, 01 Jan 1970 00:17:00 GMT")],
                Value::Null,
                20,
            ),
            (
                429,
                vec![("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")],
                Value::Null,
                0,
            ),
            (429, vec![("retry-after", "-1")], Value::Null, 5),
            (
                429,
                vec![none_left, ("x-ratelimit-reset", "1060")],
                Value::Null,
                61,
            ),
            (403, vec![after], Value::Null, 7),
            (
                403,
                vec![none_left, ("x-ratelimit-reset", "1060")],
                Value::Null,
                61,
            ),
            (403, vec![], secondary, 60),
            (503, vec![after], Value::Null, 7),
            (
                200,
                vec![after],
                json!({"ok": false, "error": "ratelimited"}),
                7,
            ),
            (
                200,
                vec![],
                json!({"ok": false, "error": "rate_limited"}),
                5,
            ),
        ] {
            assert_eq!(
                wait(status, &headers, body.clone()),
                Some(expected),
                "{status} {headers:?} {body}"
            );
        }
        for (status, headers, body) in [
            (
                403,
                vec![("x-ratelimit-remaining", "9")],
                json!({"message": "Forbidden"}),
            ),
            (200, vec![none_left], json!({"ok": true})),
            (503, vec![], Value::Null),
            (400, vec![after], Value::Null),
        ] {
            assert_eq!(
                wait(status, &headers, body.clone()),
                None,
                "{status} {headers:?} {body}"
            );
        }
    }
}
