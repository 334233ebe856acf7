//! Chat completions API.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use goondan::ports::model::TokenUsage;
use serde_json::{Value, json};

use super::answer_stream::{
    AnswerSubscriber, AnswerUpdate, FinishedAnswer, STEP_TEXT_SEPARATOR, TrackEnd,
};
use super::bodies::{ChatBody, OpenAiErrorResponses};
use super::conversation_index::AttemptReader;
use super::error::OpenAiError;
use super::format;
use super::message::ChatInput;
use super::outcome::AnswerOutcome;
use super::request::{OpenAiRequest, UnsupportedParam};
use super::response_head::{headers, now, suffix};
use super::submit::{SubmittedTurn, begin};
use crate::service::Service;

const CLIENT_TOOLS_REASON: &str =
    "Client tools are not supported: an agent calls only the tools in its project.";
const SINGLE_ANSWER_REASON: &str = "An agent returns one answer.";
const LOGPROBS_REASON: &str = "Log probabilities are not supported.";

const UNSUPPORTED_CHAT_PARAMS: [UnsupportedParam; 12] = [
    UnsupportedParam {
        name: "tools",
        fine: &[],
        why: CLIENT_TOOLS_REASON,
    },
    UnsupportedParam {
        name: "tool_choice",
        fine: &["\"none\"", "\"auto\""],
        why: CLIENT_TOOLS_REASON,
    },
    UnsupportedParam {
        name: "functions",
        fine: &[],
        why: CLIENT_TOOLS_REASON,
    },
    UnsupportedParam {
        name: "function_call",
        fine: &["\"none\"", "\"auto\""],
        why: CLIENT_TOOLS_REASON,
    },
    UnsupportedParam {
        name: "n",
        fine: &["1"],
        why: SINGLE_ANSWER_REASON,
    },
    UnsupportedParam {
        name: "logprobs",
        fine: &["false"],
        why: LOGPROBS_REASON,
    },
    UnsupportedParam {
        name: "top_logprobs",
        fine: &["0"],
        why: LOGPROBS_REASON,
    },
    UnsupportedParam {
        name: "modalities",
        fine: &["[\"text\"]"],
        why: "An agent returns text only.",
    },
    UnsupportedParam {
        name: "audio",
        fine: &[],
        why: "An agent returns text only.",
    },
    UnsupportedParam {
        name: "stop",
        fine: &[],
        why: "Stop sequences are not supported.",
    },
    UnsupportedParam {
        name: "web_search_options",
        fine: &[],
        why: "Web search options are not supported: an agent searches the web only with its own \
            tools.",
    },
    UnsupportedParam {
        name: "background",
        fine: &["false"],
        why: "Chat completions have no background mode.",
    },
];

/// Fields of every chunk and completion.
struct ChatHead {
    id: String,
    model: String,
    created: u64,
}

/// Answer a chat, like OpenAI's chat completions.
///
/// With `stream`, the response is a stream of chunks. `docs/openai.md` lists the supported
/// parameters.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    params(
        ("X-Goondan-Instance" = Option<String>, Header, pattern = "^[!-~]+$", description = "The \
            conversation key."),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeated key starts no \
            second turn."),
    ),
    request_body = ChatBody,
    responses((status = 200, body = Object, description = "The completion, or a stream of \
        chunks."), OpenAiErrorResponses),
)]
pub(super) async fn create(
    State(service): State<Service>,
    header: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, OpenAiError> {
    let request = OpenAiRequest::read("chat/completions", &header, body)?;
    let has_usage = request.get("stream_options.include_usage") == Some(&Value::Bool(true));
    let talk = |request: &OpenAiRequest| ChatInput::read(request.list("messages")?, "messages");
    let (model, ask) = request.parse_common_params(
        &service,
        &header,
        &UNSUPPORTED_CHAT_PARAMS,
        format::CHAT_FORMAT_PARAMS,
        talk,
    )?;
    let stream = ask.stream;
    let SubmittedTurn {
        mut reader,
        mut reading,
        instance,
    } = begin(&service, ask).await?;
    let event_id = reader.track.event_id.clone();
    let head = ChatHead {
        id: format!("chatcmpl-{}", suffix(&event_id)),
        model,
        created: now(),
    };
    let response = match stream {
        true => {
            let chunks = ChatChunks {
                head,
                reader,
                reading: Some(reading),
                has_usage,
                is_begun: false,
                part: 0,
                entry: 0,
            };
            Sse::new(events(chunks))
                .keep_alive(KeepAlive::default())
                .into_response()
        }
        false => {
            let end = reader.end().await;
            reading.mark_delivered();
            match &*end {
                TrackEnd::Over(answer) => Json(head.completion(answer)).into_response(),
                TrackEnd::Failed(error) => error.clone().into_response(),
            }
        }
    };
    Ok(headers(response, &event_id, &instance))
}

impl ChatHead {
    /// Encodes a complete answer.
    fn completion(&self, answer: &FinishedAnswer) -> Value {
        let mut message = json!({
            "role": "assistant",
            "content": answer.text(),
            "refusal": answer.refusal(),
            "annotations": [],
        });
        let reasoning = answer.reasoning();
        if !reasoning.is_empty() {
            message["reasoning_content"] = reasoning.into();
        }
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": message,
                "logprobs": null,
                "finish_reason": answer.outcome.finish_reason(),
            }],
            "usage": usage_body(answer.usage),
        })
    }

    /// Encodes a chunk. `outcome` ends the choice.
    fn chunk(&self, delta: &Value, outcome: Option<AnswerOutcome>) -> Value {
        let finish_reason = outcome.map(AnswerOutcome::finish_reason);
        let choice = json!({
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason,
        });
        self.raw_chunk(json!([choice]))
    }

    /// Encodes a chunk with these choices.
    fn raw_chunk(&self, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }
}

/// Encodes the token usage.
fn usage_body(usage: TokenUsage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

/// Stream of chunks.
struct ChatChunks {
    head: ChatHead,
    reader: AnswerSubscriber,
    /// Released with the last chunk.
    reading: Option<AttemptReader>,
    has_usage: bool,
    is_begun: bool,
    /// Part of the last chunk.
    part: usize,
    /// Index of the last entry of reasoning.
    entry: usize,
}

/// Converts chunks to an event stream.
fn events(chunks: ChatChunks) -> impl Stream<Item = Result<Event, Infallible>> {
    futures::stream::unfold(
        (chunks, VecDeque::new()),
        |(mut chunks, mut ready)| async move {
            while ready.is_empty() {
                ready.extend(chunks.next().await?);
            }
            let data: String = ready.pop_front()?;
            Some((Ok(Event::default().data(data)), (chunks, ready)))
        },
    )
}

impl ChatChunks {
    /// Returns the next chunks; `None` at the end.
    async fn next(&mut self) -> Option<Vec<String>> {
        self.reading.as_ref()?;
        if !std::mem::replace(&mut self.is_begun, true) {
            return Some(vec![
                self.with_usage(
                    self.head
                        .chunk(&json!({"role": "assistant", "content": ""}), None),
                    None,
                ),
            ]);
        }
        Some(match self.reader.next().await {
            AnswerUpdate::Text { part, delta } => {
                let between = if part == self.part {
                    ""
                } else {
                    STEP_TEXT_SEPARATOR
                };
                self.part = part;
                vec![self.delta_chunk("content", &format!("{between}{delta}"))]
            }
            AnswerUpdate::Reasoning { entry, delta } => {
                let between = if entry == self.entry {
                    ""
                } else {
                    STEP_TEXT_SEPARATOR
                };
                self.entry = entry;
                vec![self.delta_chunk("reasoning_content", &format!("{between}{delta}"))]
            }
            AnswerUpdate::PartOver => Vec::new(),
            AnswerUpdate::Void => self.error_chunks(&OpenAiError::begun_again()),
            AnswerUpdate::End(end) => self.end(&end),
        })
    }

    /// Encodes a chunk with more of a field.
    fn delta_chunk(&self, field: &str, text: &str) -> String {
        self.with_usage(self.head.chunk(&json!({field: text}), None), None)
    }

    /// Adds the usage field. If usage was requested, every chunk has the field and only the last
    /// one has a value.
    fn with_usage(&self, mut chunk: Value, usage: Option<TokenUsage>) -> String {
        if self.has_usage {
            chunk["usage"] = usage.map_or(Value::Null, usage_body);
        }
        chunk.to_string()
    }

    /// Returns the chunks for the end of the turn.
    fn end(&mut self, end: &Arc<TrackEnd>) -> Vec<String> {
        let answer = match &**end {
            TrackEnd::Failed(error) => return self.error_chunks(error),
            TrackEnd::Over(answer) => answer,
        };
        let mut chunks = Vec::new();
        // Streamed parts are not sent again.
        let reasoning = Some(answer.reasoning()).filter(|_| !self.reader.has_reasoning());
        let text = Some(answer.text()).filter(|_| !self.reader.has_begun());
        let refusal = answer.refusal().map(str::to_owned);
        let missing = [
            ("reasoning_content", reasoning),
            ("content", text),
            ("refusal", refusal),
        ];
        for (field, text) in missing {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                chunks.push(self.delta_chunk(field, &text));
            }
        }
        let last = self.head.chunk(&json!({}), Some(answer.outcome));
        chunks.push(self.with_usage(last, None));
        if self.has_usage {
            chunks.push(self.with_usage(self.head.raw_chunk(json!([])), Some(answer.usage)));
        }
        chunks.push("[DONE]".to_owned());
        self.close();
        chunks
    }

    /// Returns the chunks for a failed turn.
    fn error_chunks(&mut self, error: &OpenAiError) -> Vec<String> {
        self.close();
        vec![json!({"error": error.body()}).to_string()]
    }

    /// Ends the stream, and records that the client received the answer.
    fn close(&mut self) {
        if let Some(mut reading) = self.reading.take() {
            reading.mark_delivered();
        }
    }
}
