//! The client that platforms are reached with, and what may come of a request.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;

/// How long it may take to reach a platform.
const CONNECT: Duration = Duration::from_secs(15);
/// How long an answer may take that is not waited for on purpose.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to send a file.
pub(crate) const UPLOAD: Duration = Duration::from_secs(120);
/// A larger answer is not read, in bytes.
const LARGEST: usize = 16 * 1024 * 1024;
/// Of what a platform says about an error so much is kept, in characters.
const LONGEST: usize = 300;

/// Why a request to a platform came to nothing. None of it holds an address, since that may hold a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The platform takes no more for a while.
    #[error("the platform takes no more requests for {0:?}")]
    Later(Duration),
    /// Nobody was there: the request has changed nothing.
    #[error("the platform can't be reached: {0}")]
    Unreached(String),
    /// The platform does not want it.
    #[error("the platform refused it: {0}")]
    Refused(String),
    /// It may have been done, or not.
    #[error("the platform did not say what came of it: {0}")]
    Unknown(String),
}

static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();

/// The client, which all connections share.
pub(crate) async fn client() -> Result<Client, Failure> {
    // Reading the certificates of the system takes a while.
    let made = tokio::task::spawn_blocking(|| CLIENT.get_or_init(make).clone()).await;
    made.map_err(|panic| panic.to_string())
        .flatten()
        .map_err(Failure::Unreached)
}

fn make() -> Result<Client, String> {
    Client::builder()
        .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        // What may be repeated is decided where it is known what it was.
        .retry(reqwest::retry::never())
        // A redirect would carry a token to somebody it was not given to.
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(goondan_tls::with_system_certificates())
        .build()
        .map_err(|error| error.without_url().to_string())
}

/// Sends a request and reads the JSON of the answer, whatever its status; `Null` where it is none.
pub(crate) async fn ask(
    request: RequestBuilder,
    patience: Duration,
) -> Result<(StatusCode, Value), Failure> {
    let sent = request.timeout(patience).send().await;
    let response = sent.map_err(|error| match error.is_connect() || error.is_builder() {
        true => Failure::Unreached(told(error)),
        false => Failure::Unknown(told(error)),
    })?;
    let (status, wait) = (response.status(), retry_after(&response));
    let body = body(response).await?;
    if status == StatusCode::TOO_MANY_REQUESTS {
        let named = body
            .pointer("/parameters/retry_after")
            .or(body.get("retry_after"))
            .and_then(Value::as_f64);
        let named = named
            .filter(|seconds| (0.0..86_400.0).contains(seconds))
            .map(Duration::from_secs_f64);
        return Err(Failure::Later(
            named.or(wait).unwrap_or(Duration::from_secs(5)),
        ));
    }
    Ok((status, body))
}

/// The answer where it says that all went well.
pub(crate) async fn done(request: RequestBuilder) -> Result<Value, Failure> {
    done_within(request, PATIENCE).await
}

/// As [`done`], for what takes longer.
pub(crate) async fn done_within(
    request: RequestBuilder,
    patience: Duration,
) -> Result<Value, Failure> {
    let (status, body) = ask(request, patience).await?;
    let said = || {
        let said = ["description", "message", "error"]
            .iter()
            .find_map(|name| body.get(name)?.as_str());
        let said: String = said.unwrap_or_default().chars().take(LONGEST).collect();
        format!("{} {said}", status.as_u16()).trim_end().to_owned()
    };
    match status {
        _ if status.is_success() => Ok(body),
        _ if status.is_server_error() => Err(Failure::Unknown(said())),
        _ => Err(Failure::Refused(said())),
    }
}

async fn body(mut response: Response) -> Result<Value, Failure> {
    let mut bytes = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| Failure::Unknown(told(error)))?
    {
        bytes.extend_from_slice(&piece);
        if bytes.len() > LARGEST {
            return Err(Failure::Unknown("it sent too much".to_owned()));
        }
    }
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

/// What lies at an address, with what it is said to be; nothing that is larger than `most` bytes.
pub(crate) async fn content(
    request: RequestBuilder,
    most: usize,
) -> Result<(Vec<u8>, Option<String>), Failure> {
    let mut response = request
        .send()
        .await
        .map_err(|error| Failure::Unknown(told(error)))?;
    if !response.status().is_success() {
        return Err(Failure::Refused(response.status().to_string()));
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
        .map_err(|error| Failure::Unknown(told(error)))?
    {
        bytes.extend_from_slice(&piece);
        if bytes.len() > most {
            return Err(Failure::Refused(format!("it has more than {most} bytes")));
        }
    }
    Ok((bytes, media_type))
}

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

/// The error with its causes, without the address.
fn told(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
