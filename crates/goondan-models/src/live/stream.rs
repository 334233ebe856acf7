//! Reads an answer as it arrives, within bounds.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt;
use genai::chat::{ChatStream, ChatStreamEvent, StreamEnd, Usage};
use goondan_core::ports::model::{ModelChunk, ModelError, ModelErrorKind, TokenUsage};
use tokio::time::{Instant, timeout_at};

use super::calls::Calls;
use super::failure::{Caller, host, is_html};
use super::meter::Meter;
use super::{Http, Signatures, limits};
use crate::wire::Wire;

/// An answer that is still coming.
pub(crate) struct Answer {
    pub(crate) events: ChatStream,
    pub(crate) meter: Arc<Meter>,
    pub(crate) caller: Arc<Caller>,
    pub(crate) base_url: String,
    pub(crate) idle: Duration,
    pub(crate) calls: Calls,
    pub(crate) signatures: Arc<Signatures>,
    pub(crate) state: State,
}

/// How far it has come.
#[derive(Debug, Default)]
pub(crate) struct State {
    ready: VecDeque<ModelChunk>,
    text_bytes: usize,
    over: bool,
}

impl Answer {
    /// The next chunk. After `Finish` or an error nothing more comes.
    pub(crate) async fn next(&mut self) -> Option<Result<ModelChunk, ModelError>> {
        loop {
            if let Some(chunk) = self.state.ready.pop_front() {
                return Some(Ok(chunk));
            }
            if self.state.over {
                return None;
            }
            let step = match self.event().await {
                Ok(event) => self.take(event),
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                self.state.ready.clear();
                self.state.over = true;
                return Some(Err(error));
            }
        }
    }

    /// `error`, or a better one where nothing at all came: then the address itself is asked what it is.
    pub(crate) async fn explain(self, http: &Http, error: ModelError) -> ModelError {
        let silent = self.meter.frames() == 0 && error.kind == ModelErrorKind::Connection;
        let broken = self.caller.broken(&self.host());
        if !silent || error.message != broken.message {
            return error;
        }
        let probe = http.probe(&self.address()).await;
        self.caller.nothing(&self.host(), probe)
    }

    /// genai's next event, as long as the answer keeps moving and keeps within bounds.
    async fn event(&mut self) -> Result<Option<ChatStreamEvent>, ModelError> {
        loop {
            let deadline = self.meter.last() + self.idle;
            match timeout_at(deadline, next_within(&mut self.events, &self.meter)).await {
                Ok(Some(event)) => return event.transpose().map_err(|error| self.failure(error)),
                Ok(None) => return Err(self.caller.too_large(&self.host(), limits::WIRE)),
                Err(_) if self.meter.last() + self.idle > Instant::now() => {}
                Err(_) => return Err(self.caller.silent(&self.host())),
            }
        }
    }

    fn take(&mut self, event: Option<ChatStreamEvent>) -> Result<(), ModelError> {
        match event {
            Some(ChatStreamEvent::Chunk(chunk)) => {
                self.state.text_bytes += chunk.content.len();
                if !chunk.content.is_empty() {
                    self.state.ready.push_back(ModelChunk::Text(chunk.content));
                }
            }
            Some(ChatStreamEvent::ReasoningChunk(chunk)) => {
                self.state.text_bytes += chunk.content.len()
            }
            Some(ChatStreamEvent::ToolCallChunk(chunk)) => self.calls.piece(chunk.tool_call),
            Some(ChatStreamEvent::End(end)) => return self.end(end),
            Some(
                ChatStreamEvent::Start
                | ChatStreamEvent::Heartbeat
                | ChatStreamEvent::ThoughtSignatureChunk(_),
            ) => {}
            None => return Err(self.caller.broken(&self.host())),
        }
        match self.state.text_bytes + self.calls.bytes() > limits::ANSWER {
            true => Err(self.caller.too_large(&self.host(), limits::ANSWER)),
            false => Ok(()),
        }
    }

    fn end(&mut self, end: StreamEnd) -> Result<(), ModelError> {
        if !is_the_providers_end(self.calls.wire(), &end) {
            return Err(self.caller.broken(&self.host()));
        }
        let usage = end.captured_usage.as_ref().and_then(token_usage);
        for call in self
            .calls
            .finish(end.captured_into_tool_calls().unwrap_or_default())
        {
            if let Some(signatures) = call.signatures {
                self.signatures.keep(&call.id, signatures);
            }
            let chunk = ModelChunk::ToolCall {
                id: call.id,
                name: call.name,
                arguments: call.arguments,
            };
            self.state.ready.push_back(chunk);
        }
        self.state.ready.push_back(ModelChunk::Finish { usage });
        self.state.over = true;
        Ok(())
    }

    fn failure(&self, error: genai::Error) -> ModelError {
        let unreadable = matches!(error, genai::Error::StreamParse { .. });
        if unreadable && is_html(&self.meter.sample()) {
            return self.caller.html(&self.host());
        }
        self.caller.failure(&self.host(), error)
    }

    fn host(&self) -> String {
        host(&self.base_url)
    }

    /// Where the call went, as far as a GET can follow it.
    fn address(&self) -> String {
        let path = match self.calls.wire() {
            Wire::Chat => "chat/completions",
            Wire::Responses => "responses",
            Wire::Anthropic => "messages",
            Wire::Ollama => "api/chat",
            Wire::Gemini | Wire::Converse => "",
        };
        format!("{}{path}", self.base_url)
    }
}

/// The next event, or `None` once more has come over the wire than any answer needs.
async fn next_within(
    events: &mut ChatStream,
    meter: &Meter,
) -> Option<Option<genai::Result<ChatStreamEvent>>> {
    poll_fn(|context| match meter.bytes() > limits::WIRE {
        true => Poll::Ready(None),
        false => events.poll_next_unpin(context).map(Some),
    })
    .await
}

/// genai makes up an end where some formats just stop; theirs has a reason to it (or at least usage, from Ollama).
fn is_the_providers_end(wire: Wire, end: &StreamEnd) -> bool {
    match wire {
        Wire::Chat | Wire::Anthropic => true,
        Wire::Ollama => end.captured_stop_reason.is_some() || end.captured_usage.is_some(),
        Wire::Responses | Wire::Gemini | Wire::Converse => end.captured_stop_reason.is_some(),
    }
}

/// What the provider says that it cost, if it says anything.
fn token_usage(usage: &Usage) -> Option<TokenUsage> {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let (prompt, completion) = (count(usage.prompt_tokens), count(usage.completion_tokens));
    let total = count(usage.total_tokens);
    if prompt.is_none() && completion.is_none() && total.is_none() {
        return None;
    }
    let (prompt_tokens, completion_tokens) = (prompt.unwrap_or(0), completion.unwrap_or(0));
    let cached = count(
        usage
            .prompt_tokens_details
            .as_ref()
            .and_then(|details| details.cached_tokens),
    );
    Some(TokenUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: total.unwrap_or(prompt_tokens + completion_tokens),
        cached_tokens: cached.unwrap_or(0),
    })
}
