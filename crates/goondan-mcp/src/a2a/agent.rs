//! One remote agent: its URL, its headers, and its cached card.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::Value;
use tokio::sync::Mutex;

use super::card::AgentCard;
use super::error;
use crate::codes::escaped_error_text;
use crate::http;
use goondan_core::caller::CallerTrace;
use goondan_core::ports::tool::{EntryOpenError, HandlerError};
use goondan_spec::kinds::{A2aAgent, McpValue, Tool};
use goondan_spec::value::Environment;
use goondan_spec::{Code, Resource};

/// Path of a card below the agent's URL.
const CARD_PATH: &str = "/.well-known/agent-card.json";
/// Age after which a card is fetched again.
const CARD_MAX_AGE: Duration = Duration::from_secs(10 * 60);
/// Maximum time to fetch a card.
const CARD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a card in bytes.
const MAX_CARD_BYTES: usize = 1 << 20;
/// Maximum size in bytes of the answer to one request.
pub(super) const MAX_ANSWER_BYTES: usize = 16 << 20;

pub(super) struct RemoteAgent {
    /// The tool's name, for messages.
    pub(super) name: String,
    pub(super) url: String,
    headers: HeaderMap,
    card: Mutex<Option<(Instant, Arc<AgentCard>)>>,
}

impl RemoteAgent {
    pub(super) fn new(
        tool: &Resource<Tool>,
        stated: &A2aAgent,
        environment: &Environment,
    ) -> Result<RemoteAgent, EntryOpenError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &stated.headers {
            let value = match value {
                McpValue::Plain(text) => text.clone(),
                McpValue::Source(source) => environment
                    .resolve(source, name)
                    .map_err(|tried| {
                        let first = tried.first().map(String::as_str).unwrap_or_default();
                        let cause = format!("the header `{name}` has no value");
                        EntryOpenError::new(&tool.id, cause)
                            .code(Code::ENV_MISSING)
                            .suggest(format!("run `export {first}=…`, or add it to `.env`"))
                    })?
                    .expose()
                    .to_owned(),
            };
            let parsed = HeaderName::try_from(name.as_str())
                .ok()
                .zip(HeaderValue::try_from(value).ok());
            let Some((name, mut value)) = parsed else {
                let cause = format!("the header `{name}` has an invalid name or value");
                return Err(EntryOpenError::new(&tool.id, cause)
                    .suggest("use visible ASCII characters in one line"));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(RemoteAgent {
            name: tool.id.name.clone(),
            url: stated.url.clone(),
            headers,
            card: Mutex::default(),
        })
    }

    /// Returns the agent card. Fetches it if the cached card is missing or too old.
    pub(super) async fn card(&self) -> Result<Arc<AgentCard>, HandlerError> {
        let mut cache = self.card.lock().await;
        if let Some((fetched_at, card)) = &*cache
            && fetched_at.elapsed() < CARD_MAX_AGE
        {
            return Ok(Arc::clone(card));
        }
        let url = self.card_url();
        let Ok(response) = tokio::time::timeout(CARD_TIMEOUT, self.fetch(&url)).await else {
            return Err(
                self.connect_error(&format!("did not send its agent card from {url} in time"))
            );
        };
        let card = AgentCard::read(&response?, &self.url).map_err(|why| {
            self.connect_error(&format!("has an unusable agent card at {url}: {why}"))
        })?;
        let card = Arc::new(card);
        *cache = Some((Instant::now(), Arc::clone(&card)));
        Ok(card)
    }

    /// Returns the URL of the agent card: the configured URL if it names a JSON file, else the
    /// well-known path below it.
    fn card_url(&self) -> String {
        if self.url.ends_with(".json") {
            return self.url.clone();
        }
        format!("{}{CARD_PATH}", self.url.trim_end_matches('/'))
    }

    /// Drops the cached card, because the endpoint or the protocol may have changed.
    pub(super) async fn forget_card(&self) {
        *self.card.lock().await = None;
    }

    /// Fetches the agent card as JSON.
    async fn fetch(&self, address: &str) -> Result<Value, HandlerError> {
        let client = http::client()
            .await
            .map_err(|why| self.connect_error(&format!("cannot be reached: {why}")))?;
        let response = self
            .send_request(client.get(address).header(ACCEPT, "application/json"))
            .await?;
        let bytes = self.body(response, MAX_CARD_BYTES).await?;
        let no_card = |_| {
            self.connect_error(&format!(
                "has no agent card at {address}: the response is not JSON"
            ))
        };
        serde_json::from_slice(&bytes).map_err(no_card)
    }

    /// Sends a request to the agent. Fails unless the status is a success.
    pub(super) async fn post(
        &self,
        card: &AgentCard,
        caller: Option<&CallerTrace>,
        accept: &'static str,
        body: &Value,
    ) -> Result<Response, HandlerError> {
        let client = http::client()
            .await
            .map_err(|why| self.connect_error(&format!("cannot be reached: {why}")))?;
        let mut request = client.post(&card.url).header(ACCEPT, accept).json(body);
        if let Some(version) = card.version.header() {
            request = request.header("a2a-version", version);
        }
        for (name, value) in caller.into_iter().flat_map(CallerTrace::headers) {
            request = request.header(name, value);
        }
        self.send_request(request).await
    }

    /// Sends a request. Fails unless the status is a success.
    async fn send_request(&self, request: RequestBuilder) -> Result<Response, HandlerError> {
        let response = request.headers(self.headers.clone()).send().await;
        let response = response.map_err(|error| {
            self.connect_error(&format!("cannot be reached: {}", format_causes(&error)))
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let address = response.url().clone();
        let text = self
            .body(response, MAX_CARD_BYTES)
            .await
            .unwrap_or_default();
        let text = escaped_error_text(&String::from_utf8_lossy(&text));
        let refused = self.connect_error(&format!("returned {status} at {address}: {text}"));
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                refused.suggest("The swarm operator must check `headers` in `spec.a2a`.")
            }
            _ => refused,
        })
    }

    /// Reads the body of a response. Fails if the body is longer than `max_bytes`.
    pub(super) async fn body(
        &self,
        response: Response,
        max_bytes: usize,
    ) -> Result<Vec<u8>, HandlerError> {
        let (mut bytes, mut stream) = (Vec::new(), response.bytes_stream());
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| {
                self.invalid_answer(&format!(
                    "sent an incomplete answer: {}",
                    format_causes(&error)
                ))
            })?;
            if bytes.len() + chunk.len() > max_bytes {
                return Err(self.invalid_answer("sent an answer that is too large"));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Creates the error for an agent that cannot be reached or refuses a request.
    fn connect_error(&self, problem: &str) -> HandlerError {
        error(Code::A2A_CONNECT, &self.name, problem)
    }

    /// Creates the error for an invalid answer.
    pub(super) fn invalid_answer(&self, problem: &str) -> HandlerError {
        error(Code::A2A_PROTOCOL, &self.name, problem)
    }
}

/// Formats the causes without the URL, which may contain a key.
fn format_causes(error: &reqwest::Error) -> String {
    let mut source = std::error::Error::source(error);
    let mut text = if source.is_none() {
        error.to_string()
    } else {
        String::new()
    };
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    text
}
