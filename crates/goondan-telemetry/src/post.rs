//! One request to a receiver.

use std::time::Duration;

use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response};
use serde::Serialize;
use tokio::sync::OnceCell;

use crate::otlp::{Answer, PartialSuccess};
use crate::settings::{Endpoint, Protocol};

/// Of what a receiver answers, so much is read, in bytes.
const LONGEST_ANSWER: usize = 64 * 1024;

/// Of what a receiver says, so much is shown, in characters.
const LONGEST_REASON: usize = 300;

/// Posts messages to one address.
#[derive(Debug)]
pub struct Poster {
    endpoint: Endpoint,
    client: OnceCell<Client>,
}

/// Why a receiver has not taken a message. It says nothing that is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostError {
    /// For people.
    pub message: String,
    /// Whether the same message may be taken later.
    pub is_transient: bool,
    /// How long the receiver wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl Poster {
    /// Posts there.
    pub fn new(endpoint: Endpoint) -> Self {
        Poster {
            endpoint,
            client: OnceCell::new(),
        }
    }

    /// Where it posts, without what may be secret in the address.
    pub fn place(&self) -> String {
        let url = &self.endpoint.url;
        format!("{}{}", url.origin().ascii_serialization(), url.path())
    }

    /// Posts a message. What the receiver has left out of it comes back.
    ///
    /// # Errors
    /// Where the receiver did not take it.
    pub async fn post(
        &self,
        message: &(impl Message + Serialize),
    ) -> Result<Option<PartialSuccess>, PostError> {
        let client = self
            .client
            .get_or_try_init(|| connector(self.endpoint.url.scheme() == "https"))
            .await?;
        let (content_type, body) = match self.endpoint.protocol {
            Protocol::Protobuf => ("application/x-protobuf", message.encode_to_vec()),
            Protocol::Json => (
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
            .map_err(|error| lost(&error))?;
        let status = response.status();
        let retry_after = retry_after(&response);
        let answer = read(response).await;
        if status.is_success() {
            return Ok(self.left_out(&answer));
        }
        let reason: String = String::from_utf8_lossy(&answer)
            .trim()
            .chars()
            .take(LONGEST_REASON)
            .collect();
        let message = match reason.is_empty() || reason.chars().any(char::is_control) {
            true => format!("it answered {status}"),
            false => format!("it answered {status}: {reason}"),
        };
        // As the standard has it.
        let is_transient = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        Err(PostError {
            message,
            is_transient,
            retry_after,
        })
    }

    fn headers(&self) -> HeaderMap {
        let pairs = self.endpoint.headers.iter().filter_map(|(name, value)| {
            let mut value = HeaderValue::from_str(value.expose()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        });
        pairs.collect()
    }

    fn left_out(&self, answer: &[u8]) -> Option<PartialSuccess> {
        let answer = match self.endpoint.protocol {
            Protocol::Protobuf => Answer::decode(answer).ok()?,
            Protocol::Json => return None,
        };
        answer
            .partial_success
            .filter(|left_out| left_out.rejected > 0)
    }
}

async fn read(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() > LONGEST_ANSWER {
            break;
        }
    }
    body
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

fn lost(error: &reqwest::Error) -> PostError {
    // What lies deepest says it best, and holds no address.
    let mut reason = error as &dyn std::error::Error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    let message = if error.is_timeout() {
        "it did not answer in time".to_owned()
    } else {
        reason.to_string()
    };
    PostError {
        message,
        is_transient: true,
        retry_after: None,
    }
}

/// The client is made with the first request: certificates are read from files, off the runtime's threads.
async fn connector(is_secure: bool) -> Result<Client, PostError> {
    let made = tokio::task::spawn_blocking(move || {
        let tls = if is_secure {
            goondan_tls::with_system_certificates()
        } else {
            goondan_tls::without_certificates()
        };
        Client::builder()
            .user_agent(concat!("goondan/", env!("CARGO_PKG_VERSION")))
            // A redirect would carry the headers to somebody they were not given to.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .tls_backend_preconfigured(tls)
            .build()
    });
    let unusable = |message: String| PostError {
        message,
        is_transient: false,
        retry_after: None,
    };
    made.await
        .map_err(|error| unusable(error.to_string()))?
        .map_err(|error| unusable(error.to_string()))
}
