//! Real providers, through genai. It speaks the wire formats; what is kept here is what it does not do: bounds,
//! idle time-outs, unique call ids, and errors that say what to do next.

mod calls;
mod failure;
mod http;
mod key;
mod meter;
mod retry_after;
mod settings;
mod signatures;
mod stream;
mod target;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{ChatOptions, ChatRequest};
use genai::embed::{EmbedRequest, EmbedResponse};
use goondan_runtime::ports::model::{ModelClient, ModelError, ModelErrorKind, ModelRequest, ModelStream};
use goondan_runtime::spec::kinds::Model;
use goondan_runtime::spec::{Environment, Resource};

pub(crate) use http::Http;
pub(crate) use signatures::Signatures;

use crate::convert;
use crate::table::{Address, Provider};
use failure::Caller;
use meter::Meter;
use settings::Settings;
use stream::Answer;
use target::Target;

/// How long a batch of embeddings may take.
const EMBEDDING: Duration = Duration::from_secs(60);

/// Talks to one model of one provider.
pub(crate) struct LiveClient {
    http: Http,
    target: Target,
    settings: Settings,
    caller: Arc<Caller>,
    signatures: Arc<Signatures>,
}

impl LiveClient {
    /// Reads what `model` says. Nothing is connected.
    pub(crate) fn new(
        http: &Http,
        model: &Resource<Model>,
        provider: &Provider,
        adapter: AdapterKind,
        address: Address,
        environment: &Environment,
    ) -> Result<Self, ModelError> {
        let settings = Settings::of(model, environment)?;
        let key = key::find(model, provider, environment)?;
        let target = Target::of(model, adapter, address, &settings, key.value.clone())?;
        let caller = Caller::new(model, provider, key, &settings);
        Ok(LiveClient { http: http.clone(), target, settings, caller: Arc::new(caller), signatures: Arc::default() })
    }

    fn chat_request(&self, request: &ModelRequest) -> ChatRequest {
        convert::chat_request(request, self.target.wire(), &self.signatures)
    }

    fn chat_options(&self, request: &ModelRequest, meter: &Arc<Meter>) -> ChatOptions {
        self.settings.chat_options(&request.params, &self.target).with_raw_frame_sink_arc(Arc::clone(meter) as _)
    }
}

#[async_trait]
impl ModelClient for LiveClient {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let client = self.http.client().await?;
        let target =
            self.target.resolve(&client.genai).await.map_err(|error| self.caller.failure("the provider", error))?;
        let base_url = target.endpoint.base_url().to_owned();
        let meter = Arc::new(Meter::new());
        let options = self.chat_options(&request, &meter);
        let opened = client.genai.exec_chat_stream(target, self.chat_request(&request), Some(&options)).await;
        let events = opened.map_err(|error| self.caller.failure(&failure::host(&base_url), error))?.stream;
        let mut answer = Answer {
            events,
            meter,
            caller: Arc::clone(&self.caller),
            base_url,
            idle: self.settings.idle,
            calls: calls::Calls::new(self.target.wire(), &request),
            signatures: Arc::clone(&self.signatures),
            state: stream::State::default(),
        };
        // The provider's refusal comes with the first event: better here than in the midst of a stream.
        let first = answer.next().await;
        if let Some(Err(error)) = first {
            return Err(answer.explain(&self.http, error).await);
        }
        let rest = futures::stream::unfold(answer, |mut answer| async move { Some((answer.next().await?, answer)) });
        Ok(futures::stream::iter(first).chain(rest).boxed())
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let client = self.http.client().await?;
        let target =
            self.target.resolve(&client.genai).await.map_err(|error| self.caller.failure("the provider", error))?;
        let host = failure::host(target.endpoint.base_url());
        let asked = client.genai.exec_embed(target, EmbedRequest::new_batch(texts), None);
        let answer = tokio::time::timeout(EMBEDDING, asked).await.map_err(|_| {
            let message = format!("{host} did not answer within {} seconds", EMBEDDING.as_secs());
            ModelError::new(ModelErrorKind::Connection, message)
        })?;
        answer.map(EmbedResponse::into_vectors).map_err(|error| self.caller.failure(&host, error))
    }
}
