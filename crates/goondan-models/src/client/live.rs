//! The client of a live provider, for every format.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{Stream, StreamExt};
use goondan_core::caller::CallerTrace;
use goondan_core::model_calls::ExchangeRecorder;
use goondan_core::ports::model::{ModelChunk, ModelClient, ModelError, ModelRequest, ModelStream};
use goondan_spec::Secret;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use tokio::time::timeout;

use super::endpoint::ModelEndpoint;
use super::failure::FailureContext;
use super::recorded::ShownKey;
use super::request::RequestBuilder;
use super::settings::ClientSettings;
use super::stream::{AnswerStream, Completion};
use crate::answer::AnswerBuilder;
use crate::embeddings;
use crate::errors::{ProviderError, configuration_error};
use crate::formats::call_ids::CallIds;
use crate::formats::text_calls::{TextCallFilter, extract_calls};
use crate::formats::{ModelTarget, WireFormat};
use crate::provider::context_windows::context_window;
use crate::transport::limits::{MAX_ANSWER_BYTES, MAX_ERROR_BYTES};
use crate::transport::{EventReader, HttpClients};

/// Time for a batch of embeddings.
const EMBEDDING_TIMEOUT: Duration = Duration::from_secs(60);

/// Client of one model.
pub(crate) struct LiveClient {
    http: HttpClients,
    endpoint: ModelEndpoint,
    host: Arc<str>,
    /// Headers of every request; `Err` states the fault.
    headers: Result<HeaderMap, String>,
    shown_key: ShownKey,
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
        endpoint: ModelEndpoint,
        (key, shown_key): (Option<&Secret>, ShownKey),
        settings: ClientSettings,
        failures: FailureContext,
        (target, format): (ModelTarget, Arc<dyn WireFormat>),
    ) -> Self {
        let transcript_key = format!(
            "{:?} {} {}",
            format.wire_format(),
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
            shown_key,
            settings,
            failures: Arc::new(failures),
            format,
            requests: Arc::new(requests),
            target,
        }
    }

    /// Sends `request` and returns the response, if its status is a success.
    async fn send(&self, url: Url, request: &ModelRequest) -> Result<Response, ModelError> {
        let headers = self.headers_for(request)?;
        let body = self.requests.body(request);
        if let Some(recorder) = &request.exchange {
            recorder.begin(self.shown_key.request_record(&url, &headers, &body));
        }
        let sends_schema = request.output.is_some();
        let body = reqwest::Body::wrap(body);
        self.post(
            url,
            headers,
            body,
            sends_schema,
            request.exchange.as_deref(),
        )
        .await
    }

    /// Sends a request. Fails if the status of the response is not a success. `sends_schema`:
    /// whether the request has an output schema.
    async fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: reqwest::Body,
        sends_schema: bool,
        recorder: Option<&ExchangeRecorder>,
    ) -> Result<Response, ModelError> {
        let client = self.http.client(self.endpoint.is_secure()).await?;
        let sent = client.post(url).headers(headers).body(body).send();
        let response = timeout(self.settings.idle_timeout, sent)
            .await
            .map_err(|_| self.failures.idle_timeout_error(&self.host))?
            .map_err(|error| self.failures.transport_error(&self.host, &error))?;
        let status = response.status();
        if let Some(recorder) = recorder {
            recorder.record_status(status.as_u16());
        }
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = timeout(
            self.settings.idle_timeout,
            start_of_body(response, MAX_ERROR_BYTES),
        )
        .await
        .unwrap_or_default();
        if let Some(recorder) = recorder {
            recorder.record_piece(body.as_bytes());
        }
        Err(self
            .failures
            .http_status_error(&self.host, status, &body, &headers, sends_schema))
    }

    /// Requests the vectors of `texts`. Fails if the provider has no embeddings.
    async fn embed_texts(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let (wire, model) = (self.format.wire_format(), &self.target.model);
        let has_embeddings = self.target.provider.name != "vertex";
        let request = embeddings::request(wire, model, texts).filter(|_| has_embeddings);
        let (path, body) = request.ok_or_else(|| {
            let suggestion =
                "Use a Model of a provider with embeddings, such as openai, gemini or ollama.";
            configuration_error(embeddings::NO_EMBEDDINGS, suggestion)
        })?;
        let headers = self.headers.clone();
        let headers =
            headers.map_err(|reason| self.failures.unsendable_error(&self.host, &reason))?;
        let response = self
            .post(
                self.url(&path)?,
                headers,
                body.to_string().into(),
                false,
                None,
            )
            .await?;
        let answer = start_of_body(response, MAX_ANSWER_BYTES).await;
        serde_json::from_str(&answer)
            .map_err(ProviderError::from)
            .and_then(|answer| embeddings::decode(wire, &answer))
            .map_err(|error| self.failures.embeddings_error(&self.host, &answer, error))
    }

    fn url(&self, path: &str) -> Result<Url, ModelError> {
        self.endpoint
            .join(path)
            .map_err(|reason| self.failures.unsendable_error(&self.host, &reason))
    }

    /// Returns the headers of a model call, including its trace headers.
    fn headers_for(&self, request: &ModelRequest) -> Result<HeaderMap, ModelError> {
        let headers = self.headers.clone();
        let mut headers =
            headers.map_err(|reason| self.failures.unsendable_error(&self.host, &reason))?;
        for (name, value) in request.caller.iter().flat_map(CallerTrace::headers) {
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

    /// Returns the step that combines the pieces of the answer to `request`.
    fn completion_step(&self, request: &ModelRequest) -> Completion {
        let (requests, request) = (Arc::clone(&self.requests), request.clone());
        let recovers = self.settings.text_tool_calls;
        Box::new(move |answer: AnswerBuilder| {
            requests.with_transcript(&request, |transcript| {
                let mut ids = CallIds::new(&transcript.messages.call_ids);
                let answer = answer.complete(&mut ids)?;
                Ok(if recovers {
                    extract_calls(answer, &request.tools, &mut ids)
                } else {
                    answer
                })
            })
        })
    }
}

/// Returns the stream without the text that becomes calls or reasoning.
fn filter_stream(
    chunks: impl Stream<Item = Result<ModelChunk, ModelError>> + Send + 'static,
    mut filter: TextCallFilter,
) -> ModelStream {
    let filtered = chunks.map(move |chunk| match chunk {
        Ok(chunk) => filter.filter(chunk).into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    });
    filtered.flat_map(futures::stream::iter).boxed()
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

/// Reads a body up to a limit. A body that breaks off counts as far as it came.
async fn start_of_body(mut response: Response, max_bytes: usize) -> String {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() >= max_bytes {
            body.truncate(max_bytes);
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
            self.completion_step(&request),
            (&self.failures, &self.host),
            self.settings.idle_timeout,
        )
        .with_recorder(request.exchange.clone());
        // A refusal comes with the first event. It is reported before the stream begins.
        let first = answer.next().await;
        if let Some(Err(error)) = first {
            return Err(answer.explain_error(&self.http, url.as_str(), error).await);
        }
        let rest = futures::stream::unfold(answer, |mut answer| async move {
            Some((answer.next().await?, answer))
        });
        let chunks = futures::stream::iter(first).chain(rest);
        Ok(if self.settings.text_tool_calls {
            filter_stream(chunks, TextCallFilter::new(Arc::clone(&request.tools)))
        } else {
            chunks.boxed()
        })
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let vectors = timeout(EMBEDDING_TIMEOUT, self.embed_texts(&texts)).await;
        vectors.unwrap_or_else(|_| {
            Err(self
                .failures
                .embeddings_timeout_error(&self.host, EMBEDDING_TIMEOUT))
        })
    }

    fn is_schema_sent(&self) -> bool {
        self.target
            .provider
            .takes_schemas(self.format.wire_format())
    }

    fn context_window(&self) -> Option<u64> {
        context_window(self.target.provider, &self.target.model)
    }
}
