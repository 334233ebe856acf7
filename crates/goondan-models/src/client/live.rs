//! The client of a live provider, for every format.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use goondan_core::caller::Caller;
use goondan_core::ports::model::{ModelClient, ModelError, ModelRequest, ModelStream};
use goondan_spec::Secret;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::failure::FailureContext;
use super::request::RequestBuilder;
use super::settings::ClientSettings;
use super::stream::{AnswerStream, Completion};
use crate::answer::AnswerBuilder;
use crate::formats::call_ids::CallIds;
use crate::formats::{ModelTarget, WireFormat};
use crate::transport::limits::{MAX_ANSWER_BYTES, MAX_ERROR_BYTES};
use crate::transport::{EventReader, HttpClients};

/// Client of one model.
pub(crate) struct LiveClient {
    http: HttpClients,
    endpoint: Endpoint,
    host: Arc<str>,
    /// Headers of every request; `Err` states the fault.
    headers: Result<HeaderMap, String>,
    settings: ClientSettings,
    failures: Arc<FailureContext>,
    format: Arc<dyn WireFormat>,
    requests: Arc<RequestBuilder>,
    target: ModelTarget,
}

impl LiveClient {
    /// Returns a client. It connects to nothing.
    pub(crate) fn new(
        http: &HttpClients,
        endpoint: Endpoint,
        key: Option<&Secret>,
        settings: ClientSettings,
        failures: FailureContext,
        (target, format): (ModelTarget, Arc<dyn WireFormat>),
    ) -> Self {
        let transcript_key = format!(
            "{:?} {} {}",
            format.wire(),
            target.provider.name,
            target.model
        );
        let requests = RequestBuilder::new(
            Arc::clone(&format),
            transcript_key,
            settings.effort,
            settings.body.clone(),
        );
        LiveClient {
            http: http.clone(),
            host: endpoint.host().into(),
            endpoint,
            headers: headers(&*format, key, &settings),
            settings,
            failures: Arc::new(failures),
            format,
            requests: Arc::new(requests),
            target,
        }
    }

    /// Sends `request` and returns the response, if its status is a success.
    async fn send(&self, url: Url, request: &ModelRequest) -> Result<Response, ModelError> {
        let client = self.http.client(self.endpoint.is_secure()).await?;
        let headers = self.headers_for(request)?;
        let body = reqwest::Body::wrap(self.requests.body(request));
        let sent = client.post(url).headers(headers).body(body).send();
        let response = timeout(self.settings.idle_timeout, sent)
            .await
            .map_err(|_| self.failures.silent(&self.host))?
            .map_err(|error| self.failures.transport(&self.host, &error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = timeout(self.settings.idle_timeout, error_body(response))
            .await
            .unwrap_or_default();
        Err(self.failures.status(
            &self.host,
            status,
            &body,
            &headers,
            request.output.is_some(),
        ))
    }

    fn url(&self, path: &str) -> Result<Url, ModelError> {
        self.endpoint
            .join(path)
            .map_err(|reason| self.failures.unsendable(&self.host, &reason))
    }

    fn headers_for(&self, request: &ModelRequest) -> Result<HeaderMap, ModelError> {
        let headers = self.headers.clone();
        let mut headers =
            headers.map_err(|reason| self.failures.unsendable(&self.host, &reason))?;
        for (name, value) in request.caller.iter().flat_map(Caller::headers) {
            let parsed = (
                HeaderName::from_bytes(name.as_bytes()),
                HeaderValue::from_str(value),
            );
            if let (Ok(name), Ok(value)) = parsed
                && !self.settings.headers.iter().any(|(own, _)| *own == name)
            {
                headers.insert(name, value);
            }
        }
        Ok(headers)
    }

    /// Returns the step that turns the pieces of an answer into the answer to `request`.
    fn completion(&self, request: &ModelRequest) -> Completion {
        let (requests, request) = (Arc::clone(&self.requests), request.clone());
        Box::new(move |answer: AnswerBuilder| {
            requests.with_transcript(&request, |transcript| {
                answer.complete(&mut CallIds::new(&transcript.messages.call_ids))
            })
        })
    }
}

/// Returns the headers of every request. The Model's own headers replace the others.
fn headers(
    format: &dyn WireFormat,
    key: Option<&Secret>,
    settings: &ClientSettings,
) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    format.add_headers(key.map(Secret::expose), &mut headers)?;
    for (name, value) in &settings.headers {
        let mut value = HeaderValue::from_str(value.expose()).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Reads the body of an HTTP error, up to a limit.
async fn error_body(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() >= MAX_ERROR_BYTES {
            body.truncate(MAX_ERROR_BYTES);
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

#[async_trait]
impl ModelClient for LiveClient {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let url = self.url(&self.format.path())?;
        let response = self.send(url.clone(), &request).await?;
        let mut answer = AnswerStream::new(
            response,
            EventReader::new(self.format.framing(), MAX_ANSWER_BYTES),
            self.format.decoder(),
            AnswerBuilder::new(self.target.family()),
            self.completion(&request),
            (&self.failures, &self.host),
            self.settings.idle_timeout,
        );
        // A refusal comes with the first event. It is reported before the stream begins.
        let first = answer.next().await;
        if let Some(Err(error)) = first {
            return Err(answer.explain(&self.http, url.as_str(), error).await);
        }
        let rest = futures::stream::unfold(answer, |mut answer| async move {
            Some((answer.next().await?, answer))
        });
        Ok(futures::stream::iter(first).chain(rest).boxed())
    }

    fn is_schema_sent(&self) -> bool {
        self.target.provider.takes_schemas(self.format.wire())
    }
}
