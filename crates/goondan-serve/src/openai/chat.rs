//! Chat completions.

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

use super::begin::{Begun, begin};
use super::bodies::{ChatBody, Refusals};
use super::error::ApiError;
use super::memory::Reading;
use super::message::Talk;
use super::outcome::Outcome;
use super::request::{Request, Rule};
use super::track::{Answer, BETWEEN, End, News, Reader};
use super::{format, headers};
use crate::service::Service;

const TOOLS: &str =
    "Tools of the client are not supported: an agent calls its own tools, as its project says.";
const ONE: &str = "An agent gives one answer.";
const PROBABILITIES: &str = "Log probabilities are not known here.";

const RULES: [Rule; 12] = [
    Rule {
        name: "tools",
        fine: &[],
        why: TOOLS,
    },
    Rule {
        name: "tool_choice",
        fine: &["\"none\"", "\"auto\""],
        why: TOOLS,
    },
    Rule {
        name: "functions",
        fine: &[],
        why: TOOLS,
    },
    Rule {
        name: "function_call",
        fine: &["\"none\"", "\"auto\""],
        why: TOOLS,
    },
    Rule {
        name: "n",
        fine: &["1"],
        why: ONE,
    },
    Rule {
        name: "logprobs",
        fine: &["false"],
        why: PROBABILITIES,
    },
    Rule {
        name: "top_logprobs",
        fine: &["0"],
        why: PROBABILITIES,
    },
    Rule {
        name: "modalities",
        fine: &["[\"text\"]"],
        why: "An agent answers with text.",
    },
    Rule {
        name: "audio",
        fine: &[],
        why: "An agent answers with text.",
    },
    Rule {
        name: "stop",
        fine: &[],
        why: "An agent ends its answer by itself; `stop` is not supported.",
    },
    Rule {
        name: "web_search_options",
        fine: &[],
        why: "An agent searches the web with its own tools, where it has such tools.",
    },
    Rule {
        name: "background",
        fine: &["false"],
        why: "Chat completions have no background mode.",
    },
];

/// What every part of an answer says of itself.
struct Head {
    id: String,
    model: String,
    created: u64,
}

/// Answers a chat, as OpenAI's chat completions.
///
/// With `stream` the answer is a stream of chunks. `docs/openai.md` tells which parameters are heeded.
#[utoipa::path(
    post,
    path = "/v1/chat/completions",
    params(
        ("X-Goondan-Instance" = Option<String>, Header, pattern = "^[!-~]+$", description = "The conversation."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key twice starts one turn."),
    ),
    request_body = ChatBody,
    responses((status = 200, body = Object, description = "The completion; or a stream of chunks."), Refusals),
)]
pub(super) async fn create(
    State(service): State<Service>,
    header: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let request = Request::read("chat/completions", &header, body)?;
    let has_usage = request.get("stream_options.include_usage") == Some(&Value::Bool(true));
    let talk = |request: &Request| Talk::read(request.list("messages")?, "messages");
    let (model, ask) = request.ask(&service, &header, &RULES, format::CHAT, talk)?;
    let stream = ask.stream;
    let Begun {
        mut reader,
        mut reading,
        instance,
    } = begin(&service, ask).await?;
    let event_id = reader.track.event_id.clone();
    let head = Head {
        id: format!("chatcmpl-{}", super::suffix(&event_id)),
        model,
        created: super::now(),
    };
    let response = match stream {
        true => {
            let chunks = Chunks {
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
            reading.delivered();
            match &*end {
                End::Over(answer) => Json(head.completion(answer)).into_response(),
                End::Failed(error) => error.clone().into_response(),
            }
        }
    };
    Ok(headers(response, &event_id, &instance))
}

impl Head {
    fn completion(&self, answer: &Answer) -> Value {
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

    fn chunk(&self, delta: &Value, outcome: Option<Outcome>) -> Value {
        let finish_reason = outcome.map(Outcome::finish_reason);
        let choice = json!({
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason,
        });
        self.raw_chunk(json!([choice]))
    }

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

fn usage_body(usage: TokenUsage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

/// The answer, piece by piece.
struct Chunks {
    head: Head,
    reader: Reader,
    /// It is let go with the last piece.
    reading: Option<Reading>,
    has_usage: bool,
    is_begun: bool,
    /// What the last piece was part of.
    part: usize,
    /// Index of the last entry of reasoning.
    entry: usize,
}

fn events(chunks: Chunks) -> impl Stream<Item = Result<Event, Infallible>> {
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

impl Chunks {
    /// What is sent next; `None` at the end.
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
            News::Text { part, delta } => {
                let between = if part == self.part { "" } else { BETWEEN };
                self.part = part;
                vec![self.delta("content", &format!("{between}{delta}"))]
            }
            News::Reasoning { entry, delta } => {
                let between = if entry == self.entry { "" } else { BETWEEN };
                self.entry = entry;
                vec![self.delta("reasoning_content", &format!("{between}{delta}"))]
            }
            News::PartOver => Vec::new(),
            News::Void => self.fail(&ApiError::begun_again()),
            News::End(end) => self.end(&end),
        })
    }

    fn delta(&self, field: &str, text: &str) -> String {
        self.with_usage(self.head.chunk(&json!({field: text}), None), None)
    }

    /// Where usage was asked for, every chunk has the field, and the last one has its value.
    fn with_usage(&self, mut chunk: Value, usage: Option<TokenUsage>) -> String {
        if self.has_usage {
            chunk["usage"] = usage.map_or(Value::Null, usage_body);
        }
        chunk.to_string()
    }

    fn end(&mut self, end: &Arc<End>) -> Vec<String> {
        let answer = match &**end {
            End::Failed(error) => return self.fail(error),
            End::Over(answer) => answer,
        };
        let mut chunks = Vec::new();
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
                chunks.push(self.delta(field, &text));
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

    fn fail(&mut self, error: &ApiError) -> Vec<String> {
        self.close();
        vec![json!({"error": error.body()}).to_string()]
    }

    fn close(&mut self) {
        if let Some(mut reading) = self.reading.take() {
            reading.delivered();
        }
    }
}
