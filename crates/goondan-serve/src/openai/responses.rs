//! Responses API.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use goondan::SubmittedEventState;
use goondan::event::{TurnResult, turn_id};
use goondan::ids::is_message_of;
use goondan::message::Message;
use goondan::ports::model::TokenUsage;
use serde_json::{Value, json};

use super::answer_stream::{StreamedItem, TrackEnd, items_of_turn};
use super::bodies::{OpenAiErrorResponses, ResponseBody};
use super::error::OpenAiError;
use super::format;
use super::message::{ChatEntry, ChatInput, join_paragraphs};
use super::outcome::{AnswerOutcome, refusal_message};
use super::request::{OpenAiRequest, UnsupportedParam};
use super::response_events::ResponseStream;
use super::response_head::{headers, now, suffix};
use super::response_id::ResponseId;
use super::submit::{SubmittedTurn, begin};
use crate::problem::ApiProblem;
use crate::service::Service;

const CLIENT_TOOLS_REASON: &str =
    "Client tools are not supported: an agent calls only the tools in its project.";

const UNSUPPORTED_RESPONSE_PARAMS: [UnsupportedParam; 6] = [
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
        name: "background",
        fine: &["false"],
        why: "Background mode is not supported. Use `stream`, or wait for the response.",
    },
    UnsupportedParam {
        name: "conversation",
        fine: &[],
        why: "OpenAI conversations are not supported. Use `previous_response_id`, or the header \
            `X-Goondan-Instance`.",
    },
    UnsupportedParam {
        name: "prompt",
        fine: &[],
        why: "OpenAI prompt templates are not supported. Use `instructions`.",
    },
    UnsupportedParam {
        name: "top_logprobs",
        fine: &["0"],
        why: "Log probabilities are not supported.",
    },
];

/// Metadata key of the user message for fields of the response that are needed later.
const RESPONSE_METADATA_KEY: &str = "openai";

/// Fields of a response that do not change.
#[derive(Clone)]
pub(super) struct ResponseHead {
    pub(super) id: ResponseId,
    created: u64,
    model: String,
    /// Fields that are returned as the client sent them.
    echoed: Value,
}

pub(super) enum OpenAiResponseStatus<'a> {
    InProgress,
    Over {
        outcome: AnswerOutcome,
        usage: Option<TokenUsage>,
    },
    Failed(&'a OpenAiError),
}

/// Answer an input, like OpenAI's responses.
///
/// With `stream`, the response is a stream of events. `docs/openai.md` lists the supported
/// parameters.
#[utoipa::path(
    post,
    path = "/v1/responses",
    params(
        ("X-Goondan-Instance" = Option<String>, Header, pattern = "^[!-~]+$", description = "The \
            conversation key."),
        ("Idempotency-Key" = Option<String>, Header, description = "A repeated key starts no \
            second turn."),
    ),
    request_body = ResponseBody,
    responses((status = 200, body = Object, description = "The response, or a stream of \
        events."), OpenAiErrorResponses),
)]
pub(super) async fn create(
    State(service): State<Service>,
    header: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, OpenAiError> {
    let request = OpenAiRequest::read("responses", &header, body)?;
    let is_stored = request.flag("store", true)?;
    let previous = request.text("previous_response_id")?.map(str::to_owned);
    let mut echoed = json!({
        "instructions": request.get("instructions"),
        "metadata": request.metadata_as_given(),
        "previous_response_id": previous,
        "store": is_stored,
        "user": request.user()?,
    });
    if let Some(format) = request.get("text.format") {
        echoed["text"] = json!({"format": format});
    }
    let (model, mut ask) = request.parse_common_params(
        &service,
        &header,
        &UNSUPPORTED_RESPONSE_PARAMS,
        format::RESPONSE_FORMAT_PARAMS,
        parse_input,
    )?;
    ask.metadata.insert(
        RESPONSE_METADATA_KEY.to_owned(),
        json!({"model": model, "response": echoed}),
    );
    ask.previous = previous.as_deref().map(previous_response).transpose()?;
    let stream = ask.stream;
    let SubmittedTurn {
        mut reader,
        mut reading,
        instance,
    } = begin(&service, ask).await?;
    let event_id = reader.track.event_id.clone();
    let id = ResponseId {
        event_id: event_id.clone(),
        instance: instance.clone(),
    };
    let head = ResponseHead {
        id,
        created: now(),
        model,
        echoed,
    };
    let response = if stream {
        ResponseStream::new(head, reader, reading).respond()
    } else {
        let end = reader.end().await;
        reading.mark_delivered();
        match &*end {
            TrackEnd::Over(answer) => {
                let status = OpenAiResponseStatus::Over {
                    outcome: answer.outcome,
                    usage: Some(answer.usage),
                };
                Json(head.body(&answer.items, &status)).into_response()
            }
            TrackEnd::Failed(error) => error.clone().into_response(),
        }
    };
    Ok(headers(response, &event_id, &instance))
}

/// Return a response, including after a restart.
#[utoipa::path(
    get,
    path = "/v1/responses/{id}",
    params(("id" = String, Path, description = "The id of the response.")),
    responses((status = 200, body = Object, description = "The response."), OpenAiErrorResponses),
)]
pub(super) async fn show(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let unknown = || {
        OpenAiError::not_found(format!("There is no response `{id}`.")).code("response_not_found")
    };
    let id = ResponseId::decode(&id).ok_or_else(unknown)?;
    let swarm = service.swarm();
    let result = match swarm.find(&id.event_id).await {
        // The turn is running.
        Some(SubmittedEventState::Open(_)) => None,
        Some(SubmittedEventState::Over(result)) => Some(Some(*result)),
        // The result is no longer kept, but the conversation may still exist.
        None => Some(None),
    };
    let messages = swarm
        .conversation(&id.instance)
        .await
        .map_err(ApiProblem::from)?;
    let turn_id = turn_id(&id.event_id);
    let turn_messages: Vec<&Message> = messages
        .iter()
        .map(|message| &**message)
        .filter(|message| is_message_of(&message.id, &turn_id))
        .collect();
    let request_metadata = stored_request(turn_messages.iter().copied());
    // A turn that has not begun has no message.
    if request_metadata.is_none() && (result.is_some() || !turn_messages.is_empty()) {
        return Err(unknown());
    }
    let head = ResponseHead::restore(&id, &turn_messages, request_metadata);
    let items = items_of_turn(turn_messages.iter().copied(), &turn_id);
    Ok(Json(match result {
        None => head.body(&[], &OpenAiResponseStatus::InProgress),
        Some(result) => head.finished_response(items, result.as_ref()),
    }))
}

/// Returns the metadata of the request whose turn has these messages; `None` if it was no request
/// for a response, or has `store: false`.
pub(super) fn stored_request<'m>(
    turn_messages: impl IntoIterator<Item = &'m Message>,
) -> Option<&'m Value> {
    let metadata = turn_messages
        .into_iter()
        .find_map(|message| message.metadata.get(RESPONSE_METADATA_KEY));
    metadata.filter(|metadata| metadata.pointer("/response/store") == Some(&Value::Bool(true)))
}

/// Parses the input, a string or items. `instructions` precede the instructions of the items.
fn parse_input(request: &OpenAiRequest) -> Result<ChatInput, OpenAiError> {
    let mut talk = match request.get("input") {
        Some(Value::String(text)) if !text.is_empty() => ChatInput {
            new: vec![ChatEntry::user(&**text)],
            ..ChatInput::default()
        },
        Some(Value::Array(items)) => ChatInput::read(items, "input")?,
        _ => {
            return Err(OpenAiError::invalid_param(
                "input",
                "`input` must be a string or a list of items, and must not be empty.",
            ));
        }
    };
    let instructions = request.text("instructions")?.map(str::to_owned);
    let all: Vec<String> = instructions
        .into_iter()
        .chain(talk.instructions.take())
        .collect();
    talk.instructions = join_paragraphs(&all);
    Ok(talk)
}

/// Parses the id of a previous response.
fn previous_response(id: &str) -> Result<ResponseId, OpenAiError> {
    ResponseId::decode(id).ok_or_else(|| {
        OpenAiError::invalid_param(
            "previous_response_id",
            "There is no previous response with this id.",
        )
        .code("previous_response_not_found")
    })
}

impl ResponseHead {
    /// Restores the fields of a response from its conversation.
    fn restore(
        id: &ResponseId,
        turn_messages: &[&Message],
        request_metadata: Option<&Value>,
    ) -> ResponseHead {
        let created = turn_messages.first().map_or(0, |message| {
            u64::try_from(message.created_at.timestamp()).unwrap_or(0)
        });
        let get = |name: &str| {
            request_metadata
                .and_then(|request_metadata| request_metadata.get(name))
                .cloned()
        };
        let model = get("model").and_then(|model| model.as_str().map(str::to_owned));
        ResponseHead {
            id: id.clone(),
            created,
            model: model.unwrap_or_else(|| id.instance.agent.clone()),
            echoed: get("response").unwrap_or_else(|| json!({"metadata": {}})),
        }
    }

    /// Encodes a finished response. Results are kept only for a limited time. After that, the
    /// messages determine the status.
    fn finished_response(
        &self,
        mut items: Vec<StreamedItem>,
        result: Option<&TurnResult>,
    ) -> Value {
        let Some(result) = result else {
            let status = OpenAiResponseStatus::Over {
                outcome: AnswerOutcome::Complete,
                usage: None,
            };
            return self.body(&items, &status);
        };
        items.extend(refusal_message(result).map(|words| StreamedItem::Refusal(words.to_owned())));
        match AnswerOutcome::from_result(result) {
            Ok(outcome) => {
                let usage = Some(result.usage);
                self.body(&items, &OpenAiResponseStatus::Over { outcome, usage })
            }
            Err(error) => self.body(&items, &OpenAiResponseStatus::Failed(&error.into())),
        }
    }

    /// Encodes a response.
    pub(super) fn body(&self, items: &[StreamedItem], status: &OpenAiResponseStatus<'_>) -> Value {
        let output: Vec<Value> = (0..items.len())
            .map(|index| self.encode_item(items, index, /* is_complete */ true))
            .collect();
        let mut body = json!({
            "id": self.id.encode(),
            "object": "response",
            "created_at": self.created,
            "status": status.name(),
            "error": null,
            "incomplete_details": null,
            "model": self.model,
            "output": output,
            "usage": null,
            "parallel_tool_calls": true,
            "temperature": null,
            "top_p": null,
            "tool_choice": "auto",
            "tools": [],
            "text": {"format": {"type": "text"}},
            "truncation": "disabled",
        });
        for (name, value) in self.echoed.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        match status {
            OpenAiResponseStatus::Over { outcome, usage } => {
                if let Some(reason) = outcome.incomplete_reason() {
                    body["incomplete_details"] = json!({"reason": reason});
                }
                body["usage"] = usage.map_or(Value::Null, usage_body);
            }
            OpenAiResponseStatus::Failed(error) => body["error"] = error.of_response(),
            OpenAiResponseStatus::InProgress => {}
        }
        body
    }

    /// Returns an item of the output, either complete or as it begins.
    pub(super) fn encode_item(
        &self,
        items: &[StreamedItem],
        index: usize,
        is_complete: bool,
    ) -> Value {
        let (id, item) = (self.item_id(items, index), &items[index]);
        let status = if is_complete {
            "completed"
        } else {
            "in_progress"
        };
        let content: Vec<Value> = is_complete.then(|| encode_part(item)).into_iter().collect();
        match item {
            StreamedItem::Reasoning(_) => {
                json!({"id": id, "type": "reasoning", "summary": [], "content": content, "status": status})
            }
            StreamedItem::Text(_) | StreamedItem::Refusal(_) => {
                json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
            }
        }
    }

    /// Returns the id of an item: messages and reasoning are counted separately.
    pub(super) fn item_id(&self, items: &[StreamedItem], index: usize) -> String {
        let is_reasoning = |item: &StreamedItem| matches!(item, StreamedItem::Reasoning(_));
        let kind = is_reasoning(&items[index]);
        let number = items[..index]
            .iter()
            .filter(|item| is_reasoning(item) == kind)
            .count();
        let prefix = if kind { "rs" } else { "msg" };
        format!("{prefix}_{}_{number}", suffix(&self.id.event_id))
    }
}

/// Encodes the content part of an item.
pub(super) fn encode_part(item: &StreamedItem) -> Value {
    match item {
        StreamedItem::Reasoning(text) => json!({"type": "reasoning_text", "text": text}),
        StreamedItem::Text(text) => {
            json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
        }
        StreamedItem::Refusal(words) => json!({"type": "refusal", "refusal": words}),
    }
}

impl OpenAiResponseStatus<'_> {
    /// Name of the status.
    fn name(&self) -> &'static str {
        match self {
            OpenAiResponseStatus::InProgress => "in_progress",
            OpenAiResponseStatus::Over { outcome, .. } if outcome.incomplete_reason().is_some() => {
                "incomplete"
            }
            OpenAiResponseStatus::Over { .. } => "completed",
            OpenAiResponseStatus::Failed(_) => "failed",
        }
    }
}

/// Returns the usage with all fields of the format. The number of reasoning tokens is not known.
fn usage_body(usage: TokenUsage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total_tokens,
    })
}
