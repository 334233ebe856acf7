//! The client for OpenAI's chat completions, which most providers speak.
//!
//! It is our own, beside genai for the other formats, for one reason: what a step costs must not grow with the
//! conversation, and genai takes the whole conversation in each call, to convert and encode it anew. Here each message is
//! encoded once, when it is new ([`transcript`]); a request is a row of bytes that stand there already ([`body`]). The answer
//! is read in the task that asks, and no line of it can grow without bound ([`sse`]).

mod answer;
mod body;
mod calls;
mod chunk;
mod dialect;
mod head;
mod message;
mod sse;
mod transcript;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use goondan_core::ports::model::{ModelClient, ModelError, ModelRequest, ModelStream};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, Url};
use serde_json::json;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::embeddings;
use super::failure::{self, Caller};
use super::http::Http;
use super::limits;
use super::settings::Settings;
use super::target::Target;
use answer::Answer;
use body::Body;
use dialect::Dialect;
use head::Heads;
use transcript::Transcript;

/// Talks to one model in this format.
pub(crate) struct ChatClient {
    http: Http,
    target: Target,
    settings: Settings,
    caller: Arc<Caller>,
    dialect: Dialect,
    heads: Heads,
    /// `Err` says what is wrong with them.
    headers: Result<HeaderMap, String>,
    place: OnceCell<Place>,
    takes_schemas: bool,
}

/// Where calls go.
struct Place {
    url: Url,
    host: Arc<str>,
}

impl ChatClient {
    /// Nothing is connected.
    pub(crate) fn new(
        http: &Http,
        target: Target,
        settings: Settings,
        caller: Caller,
        takes_schemas: bool,
    ) -> Self {
        let dialect = Dialect::of(target.adapter());
        ChatClient {
            http: http.clone(),
            heads: Heads::new(dialect, dialect.model(target.model())),
            headers: headers(&target, &settings, dialect),
            dialect,
            target,
            settings,
            caller: Arc::new(caller),
            place: OnceCell::new(),
            takes_schemas,
        }
    }

    async fn place(&self) -> Result<&Place, ModelError> {
        self.place
            .get_or_try_init(|| async { self.find_place().await })
            .await
    }

    async fn find_place(&self) -> Result<Place, ModelError> {
        let base = match self
            .dialect
            .address(self.target.model())
            .filter(|_| !self.target.has_endpoint())
        {
            Some(known) => known.to_owned(),
            None => self.target.base_url(&self.http, &self.caller).await?,
        };
        let host: Arc<str> = failure::host(&base).into();
        let joined = Url::parse(&base).and_then(|base| {
            let mut url = base.join("chat/completions")?;
            url.set_query(base.query());
            Ok(url)
        });
        let url = joined.map_err(|error| self.caller.cannot_be_made(&host, &error.to_string()))?;
        Ok(Place { url, host })
    }

    fn body(&self, request: &ModelRequest) -> Body {
        let head = self.heads.of(request, &self.settings);
        if head.has_messages {
            return Body::of(vec![head.before, Bytes::from_static(b"}")]);
        }
        let mut pieces = vec![head.before];
        let system = request
            .system
            .as_ref()
            .filter(|system| !system.trim().is_empty());
        if let Some(system) = system {
            let message = json!({"role": "system", "content": system});
            pieces.push(Bytes::from(message.to_string()));
        }
        let mut messages = request.messages.kept(|transcript: &mut Transcript| {
            transcript.catch_up(&request.messages);
            transcript.bytes()
        });
        if system.is_none()
            && let Some(first) = messages.first_mut()
        {
            // The comma that no message stands before.
            *first = first.slice(1..);
        }
        pieces.append(&mut messages);
        pieces.push(Bytes::from_static(b"]}"));
        Body::of(pieces)
    }

    /// The head of the answer, once it is sure that it is one.
    async fn ask(&self, place: &Place, request: &ModelRequest) -> Result<Response, ModelError> {
        let headers = self
            .headers
            .as_ref()
            .map_err(|reason| self.caller.cannot_be_made(&place.host, reason))?;
        let client = self.http.client(place.url.scheme() == "https").await?;
        let mut asked = client
            .plain
            .request(Method::POST, place.url.clone())
            .headers(headers.clone());
        for (name, value) in self.settings.trace_headers(request) {
            asked = asked.header(name, value);
        }
        let asked = asked.body(reqwest::Body::wrap(self.body(request))).send();
        let response = timeout(self.settings.idle, asked)
            .await
            .map_err(|_| self.caller.silent(&place.host))?;
        let response = response.map_err(|error| self.caller.sent(&place.host, error))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.refused(place, response).await)
        }
    }

    /// What a refusal means, as far as its body came in time.
    async fn refused(&self, place: &Place, mut response: Response) -> ModelError {
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(piece)) = response.chunk().await
                && body.len() < limits::ERROR
            {
                body.extend_from_slice(&piece);
            }
        };
        // One that comes too slowly is as good as one that is short.
        let _ = timeout(self.settings.idle, reading).await;
        self.caller.refused(
            &place.host,
            status,
            &String::from_utf8_lossy(&body),
            &headers,
        )
    }
}

/// The headers of every request. The user's own go before ours, whatever their case.
fn headers(target: &Target, settings: &Settings, dialect: Dialect) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut key = HeaderValue::from_str(&format!("Bearer {}", target.key()))
        .map_err(|error| error.to_string())?;
    key.set_sensitive(true);
    headers.insert(AUTHORIZATION, key);
    if let Some(accept) = dialect.accept() {
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
    }
    for (name, value) in &settings.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        let mut value = HeaderValue::from_str(value.expose()).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[async_trait]
impl ModelClient for ChatClient {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let place = self.place().await?;
        let response = self.ask(place, &request).await?;
        let idle = self.settings.idle;
        let mut answer = Answer::new(
            response,
            &self.caller,
            &place.host,
            self.dialect,
            request.messages,
            idle,
        );
        // The provider's refusal comes with the first event: better here than in the midst of a stream.
        let first = answer.next().await;
        if let Some(Err(error)) = first {
            return Err(answer.explain(&self.http, place.url.as_str(), error).await);
        }
        let rest = futures::stream::unfold(answer, |mut answer| async move {
            Some((answer.next().await?, answer))
        });
        Ok(futures::stream::iter(first).chain(rest).boxed())
    }

    fn is_schema_sent(&self) -> bool {
        self.takes_schemas
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        embeddings::of(&self.http, &self.target, &self.caller, texts).await
    }
}
