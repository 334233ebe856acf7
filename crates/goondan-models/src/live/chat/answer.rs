//! Reads an answer as it arrives, within bounds, in the task of whoever asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use goondan_core::history::History;
use goondan_core::ports::model::{ModelChunk, ModelError, ModelErrorKind, TokenUsage};
use reqwest::Response;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::failure::Caller;
use super::super::http::{Http, Probe};
use super::super::limits;
use super::calls::Calls;
use super::chunk::{CallPiece, Choice, Chunk};
use super::dialect::Dialect;
use super::sse::Events;
use super::transcript::Transcript;

/// What stands at the end of every stream.
const DONE: &[u8] = b"[DONE]";

/// How much of what is no stream is kept, in bytes, to tell what it is.
const SAMPLE: usize = 2048;

/// How long the end of a connection's answer may take behind `[DONE]`, for the connection to serve the next call.
const REST: Duration = Duration::from_secs(1);

/// An answer that is still coming.
pub(crate) struct Answer {
    response: Option<Response>,
    idle: Duration,
    /// When the last whole event came.
    heard: Instant,
    bytes: usize,
    events: Events,
    reader: Reader,
}

/// What is made of the events.
struct Reader {
    caller: Arc<Caller>,
    host: Arc<str>,
    dialect: Dialect,
    history: History,
    ready: VecDeque<ModelChunk>,
    calls: Calls,
    text_bytes: usize,
    usage: Option<TokenUsage>,
    /// How many events came that hold data, and how many came in all.
    with_data: usize,
    all: usize,
    /// How the beginning reads, until an event with data came.
    sample: Vec<u8>,
    /// The server gave a reason why the answer ends.
    has_reason: bool,
    end: Option<Result<(), ModelError>>,
}

impl Answer {
    /// The answer in `response`, to a question about `history`. Nothing may be silent for longer than `idle`.
    pub(crate) fn new(
        response: Response,
        caller: &Arc<Caller>,
        host: &Arc<str>,
        dialect: Dialect,
        history: History,
        idle: Duration,
    ) -> Self {
        let reader = Reader {
            caller: Arc::clone(caller),
            host: Arc::clone(host),
            dialect,
            history,
            ready: VecDeque::new(),
            calls: Calls::default(),
            text_bytes: 0,
            usage: None,
            with_data: 0,
            all: 0,
            sample: Vec::new(),
            has_reason: false,
            end: None,
        };
        let events = Events::new(limits::ANSWER);
        Answer {
            response: Some(response),
            idle,
            heard: Instant::now(),
            bytes: 0,
            events,
            reader,
        }
    }

    /// The next chunk. After `Finish` or an error nothing more comes.
    pub(crate) async fn next(&mut self) -> Option<Result<ModelChunk, ModelError>> {
        loop {
            if let Some(chunk) = self.reader.ready.pop_front() {
                return Some(Ok(chunk));
            }
            match &mut self.reader.end {
                Some(end) => return std::mem::replace(end, Ok(())).err().map(Err),
                None => self.read().await,
            }
        }
    }

    /// `error`, or a better one where no event came at all: then whatever did come is looked at, or, where that is nothing,
    /// what `url` says when it is just opened.
    pub(crate) async fn explain(self, http: &Http, url: &str, error: ModelError) -> ModelError {
        let reader = &self.reader;
        let silent = reader.with_data == 0 && error.kind == ModelErrorKind::Connection;
        if !silent || error.message != reader.caller.broken(&reader.host).message {
            return error;
        }
        let sample = String::from_utf8_lossy(&reader.sample);
        let probe = match sample.trim() {
            "" => http.probe(url).await,
            _ => Some(Probe {
                status: 200,
                body: sample.into_owned(),
            }),
        };
        reader.caller.nothing(&reader.host, probe)
    }

    /// Waits for the next piece and makes of it what there is to make.
    async fn read(&mut self) {
        let Some(response) = &mut self.response else {
            return self.reader.over();
        };
        match timeout_at(self.heard + self.idle, response.chunk()).await {
            Ok(Ok(Some(piece))) => self.take(&piece),
            Ok(Ok(None)) => {
                let reader = &mut self.reader;
                self.events.finish(|data| reader.event(data));
                reader.over();
            }
            Ok(Err(error)) => self.reader.fail(|caller, host| caller.sent(host, error)),
            Err(_) => self.reader.fail(Caller::silent),
        }
        if let Some(Ok(())) = self.reader.end
            && let Some(response) = self.response.take()
        {
            read_rest(response);
        }
    }

    fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len();
        let reader = &mut self.reader;
        reader.keep_sample(piece);
        let before = reader.all;
        let taken = self.events.take(piece, |data| reader.event(data));
        if taken.is_err() {
            reader.fail(|caller, host| caller.too_large(host, limits::ANSWER));
        } else if self.bytes > limits::WIRE {
            reader.fail(|caller, host| caller.too_large(host, limits::WIRE));
        }
        if reader.all > before {
            self.heard = Instant::now();
        }
    }
}

impl Reader {
    fn keep_sample(&mut self, piece: &[u8]) {
        if self.with_data == 0 {
            let room = SAMPLE.saturating_sub(self.sample.len()).min(piece.len());
            self.sample.extend_from_slice(&piece[..room]);
        }
    }

    /// Takes the data of an event. What comes behind the end does not count.
    fn event(&mut self, data: &[u8]) {
        self.all += 1;
        if data.is_empty() || self.end.is_some() {
            return;
        }
        self.with_data += 1;
        if data == DONE {
            return self.finish();
        }
        match std::str::from_utf8(data).map(Chunk::read) {
            Ok(Ok(chunk)) => self.chunk(chunk),
            Ok(Err(error)) => self.fail(|caller, host| caller.unreadable(host, &error)),
            Err(error) => self.fail(|caller, host| caller.no_text(host, &error)),
        }
    }

    fn chunk(&mut self, mut chunk: Chunk) {
        if let Some(error) = chunk.error.take() {
            return self.fail(|caller, host| caller.in_stream(host, &error));
        }
        self.usage = chunk
            .usage(self.dialect.leaves_reasoning_out())
            .or(self.usage);
        if let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() {
            self.choice(choice);
        }
        if self.text_bytes + self.calls.bytes() > limits::ANSWER {
            self.fail(|caller, host| caller.too_large(host, limits::ANSWER));
        }
    }

    fn choice(&mut self, choice: Choice) {
        self.has_reason |= choice.finish_reason.is_some();
        let Some(delta) = choice.delta else { return };
        let thoughts = delta.reasoning_content.or(delta.reasoning);
        self.text_bytes += thoughts.map_or(0, |thoughts| thoughts.len());
        if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
            self.text_bytes += text.len();
            self.ready.push_back(ModelChunk::Text(text));
        }
        let calls: Vec<CallPiece> = delta.tool_calls.unwrap_or_default();
        calls.into_iter().for_each(|piece| self.calls.take(piece));
    }

    /// The stream is over. Servers that forget `[DONE]` have given a reason at least.
    fn over(&mut self) {
        if self.end.is_none() && self.has_reason {
            self.finish();
        } else if self.end.is_none() {
            self.fail(Caller::broken);
        }
    }

    fn finish(&mut self) {
        let calls = self
            .history
            .kept(|transcript: &mut Transcript| self.calls.finish(transcript));
        for call in calls {
            self.ready.push_back(ModelChunk::ToolCall {
                id: call.id,
                name: call.name,
                arguments: call.arguments,
            });
        }
        self.ready
            .push_back(ModelChunk::Finish { usage: self.usage });
        self.end = Some(Ok(()));
    }

    fn fail(&mut self, error: impl FnOnce(&Caller, &str) -> ModelError) {
        if self.end.is_none() {
            self.end = Some(Err(error(&self.caller, &self.host)));
        }
    }
}

/// Reads what follows `[DONE]`: only a connection whose answer was read to its end serves another call.
fn read_rest(mut response: Response) {
    loop {
        match response.chunk().now_or_never() {
            Some(Ok(Some(_))) => {}
            Some(_) => return,
            None => break,
        }
    }
    tokio::spawn(timeout(REST, async move {
        while let Ok(Some(_)) = response.chunk().await {}
    }));
}
