//! The client for all formats but OpenAI's chat completions, through genai. It speaks them; what is kept here is what it does
//! not do: bounds, idle time-outs, unique call ids.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use genai::chat::{ChatOptions, ChatRequest, JsonSpec};
use goondan_core::ports::model::{ModelClient, ModelError, ModelRequest, ModelStream};
use goondan_spec::sent_schema::sent_schema;

use super::calls::Calls;
use super::embeddings;
use super::failure::Caller;
use super::http::Http;
use super::meter::Meter;
use super::settings::Settings;
use super::signatures::Signatures;
use super::stream::{self, Answer};
use super::target::Target;
use crate::convert;

/// Talks to one model of one provider.
pub(crate) struct GenaiClient {
    http: Http,
    target: Target,
    settings: Settings,
    caller: Arc<Caller>,
    signatures: Arc<Signatures>,
    takes_schemas: bool,
}

impl GenaiClient {
    /// Nothing is connected.
    pub(crate) fn new(
        http: &Http,
        target: Target,
        settings: Settings,
        caller: Caller,
        takes_schemas: bool,
    ) -> Self {
        let (caller, signatures) = (Arc::new(caller), Arc::default());
        GenaiClient {
            http: http.clone(),
            target,
            settings,
            caller,
            signatures,
            takes_schemas,
        }
    }

    fn chat_request(&self, request: &ModelRequest) -> ChatRequest {
        convert::chat_request(request, self.target.wire(), &self.signatures)
    }

    fn chat_options(&self, request: &ModelRequest, meter: &Arc<Meter>) -> ChatOptions {
        let options = self.settings.chat_options(request, &self.target);
        let options = options.with_raw_frame_sink_arc(Arc::clone(meter) as _);
        match &request.output {
            Some(schema) => options.with_response_format(JsonSpec::new(
                "answer",
                sent_schema(self.target.wire(), schema),
            )),
            None => options,
        }
    }
}

#[async_trait]
impl ModelClient for GenaiClient {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let client = self.http.client(self.target.is_secure()).await?;
        let target = self
            .target
            .resolve(&client.genai)
            .await
            .map_err(|error| self.caller.failure("the provider", error))?;
        let base_url = target.endpoint.base_url().to_owned();
        let meter = Arc::new(Meter::new());
        let options = self.chat_options(&request, &meter);
        let opened = client
            .genai
            .exec_chat_stream(target, self.chat_request(&request), Some(&options))
            .await;
        let events = opened
            .map_err(|error| self.caller.failure(&super::failure::host(&base_url), error))?
            .stream;
        let mut answer = Answer {
            events,
            meter,
            caller: Arc::clone(&self.caller),
            base_url,
            idle: self.settings.idle,
            calls: Calls::new(self.target.wire(), &request),
            signatures: Arc::clone(&self.signatures),
            state: stream::State::default(),
        };
        // The provider's refusal comes with the first event: better here than in the midst of a stream.
        let first = answer.next().await;
        if let Some(Err(error)) = first {
            return Err(answer.explain(&self.http, error).await);
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
