//! Responses.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use goondan::Found;
use goondan::event::{TurnResult, turn_id};
use goondan::ids::is_message_of;
use goondan::message::Message;
use goondan::ports::model::TokenUsage;
use serde_json::{Value, json};

use super::begin::{Begun, begin};
use super::bodies::{Refusals, ResponseBody};
use super::error::ApiError;
use super::message::{Said, Talk, joined};
use super::outcome::{Outcome, refusal};
use super::request::{Request, Rule};
use super::response_events::Events;
use super::response_id::ResponseId;
use super::track::{End, Item, said_in};
use super::{format, headers};
use crate::problem::Problem;
use crate::service::Service;

const TOOLS: &str =
    "Tools of the client are not supported: an agent calls its own tools, as its project says.";

const RULES: [Rule; 6] = [
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
        name: "background",
        fine: &["false"],
        why: "There is no background mode. Send `stream`, or wait.",
    },
    Rule {
        name: "conversation",
        fine: &[],
        why: "Conversations of OpenAI are not known here. Use `previous_response_id`, or the header `X-Goondan-Instance`.",
    },
    Rule {
        name: "prompt",
        fine: &[],
        why: "Prompt templates of OpenAI are not known here. Use `instructions`.",
    },
    Rule {
        name: "top_logprobs",
        fine: &["0"],
        why: "Log probabilities are not known here.",
    },
];

/// The key of the user message's metadata that holds what has to be told of a response later.
const METADATA: &str = "openai";

/// What stays the same of a response from its first event to its last.
#[derive(Clone)]
pub(super) struct Head {
    pub(super) id: ResponseId,
    created: u64,
    model: String,
    /// Fields that come back as the client gave them.
    echoed: Value,
}

/// How a response stands.
pub(super) enum Status<'a> {
    InProgress,
    Over {
        outcome: Outcome,
        usage: Option<TokenUsage>,
    },
    Failed(&'a ApiError),
}

/// Answers an input, as OpenAI's responses.
///
/// With `stream` the answer is a stream of events. `docs/openai.md` tells which parameters are heeded.
#[utoipa::path(
    post,
    path = "/v1/responses",
    params(
        ("X-Goondan-Instance" = Option<String>, Header, pattern = "^[!-~]+$", description = "The conversation."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key twice starts one turn."),
    ),
    request_body = ResponseBody,
    responses((status = 200, body = Object, description = "The response; or a stream of events."), Refusals),
)]
pub(super) async fn create(
    State(service): State<Service>,
    header: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let request = Request::read("responses", &header, body)?;
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
    let (model, mut ask) = request.ask(&service, &header, &RULES, format::RESPONSES, talk)?;
    ask.metadata.insert(
        METADATA.to_owned(),
        json!({"model": model, "response": echoed}),
    );
    ask.previous = previous.as_deref().map(previous_response).transpose()?;
    let stream = ask.stream;
    let Begun {
        mut reader,
        mut reading,
        instance,
    } = begin(&service, ask).await?;
    let event_id = reader.track.event_id.clone();
    let id = ResponseId {
        event_id: event_id.clone(),
        instance: instance.clone(),
        is_stored,
    };
    let head = Head {
        id,
        created: super::now(),
        model,
        echoed,
    };
    let response = if stream {
        Events::new(head, reader, reading).respond()
    } else {
        let end = reader.end().await;
        reading.delivered();
        match &*end {
            End::Over(answer) => {
                let status = Status::Over {
                    outcome: answer.outcome,
                    usage: Some(answer.usage),
                };
                Json(head.body(&answer.items, &status)).into_response()
            }
            End::Failed(error) => error.clone().into_response(),
        }
    };
    Ok(headers(response, &event_id, &instance))
}

/// Shows a response, also after a restart.
#[utoipa::path(
    get,
    path = "/v1/responses/{id}",
    params(("id" = String, Path, description = "The id of the response.")),
    responses((status = 200, body = Object, description = "The response."), Refusals),
)]
pub(super) async fn show(
    State(service): State<Service>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let unknown =
        || ApiError::not_found(format!("There is no response `{id}`.")).code("response_not_found");
    let id = ResponseId::decode(&id)
        .filter(|id| id.is_stored)
        .ok_or_else(unknown)?;
    let swarm = service.swarm();
    let result = match swarm.find(&id.event_id).await {
        Some(Found::Open(_)) => None,
        Some(Found::Over(result)) => Some(Some(*result)),
        None => Some(None),
    };
    let messages = swarm
        .conversation(&id.instance)
        .await
        .map_err(Problem::from)?;
    let turn_id = turn_id(&id.event_id);
    let own: Vec<&Message> = messages
        .iter()
        .map(|message| &**message)
        .filter(|message| is_message_of(&message.id, &turn_id))
        .collect();
    let asked = own
        .iter()
        .find_map(|message| message.metadata.get(METADATA));
    if asked.is_none() && result.is_some() {
        return Err(unknown());
    }
    let head = Head::told(&id, &own, asked);
    let items = said_in(own.iter().copied(), &turn_id);
    Ok(Json(match result {
        None => head.body(&[], &Status::InProgress),
        Some(result) => head.over(items, result.as_ref()),
    }))
}

/// What is said: a text, or items; `instructions` come before those of the items.
fn talk(request: &Request) -> Result<Talk, ApiError> {
    let mut talk = match request.get("input") {
        Some(Value::String(text)) if !text.is_empty() => Talk {
            new: vec![Said::user(&**text)],
            ..Talk::default()
        },
        Some(Value::Array(items)) => Talk::read(items, "input")?,
        _ => {
            return Err(ApiError::parameter(
                "input",
                "Say something: `input` is a text or a list of items.",
            ));
        }
    };
    let instructions = request.text("instructions")?.map(str::to_owned);
    let all: Vec<String> = instructions
        .into_iter()
        .chain(talk.instructions.take())
        .collect();
    talk.instructions = joined(&all);
    Ok(talk)
}

fn previous_response(id: &str) -> Result<ResponseId, ApiError> {
    ResponseId::decode(id).ok_or_else(|| {
        ApiError::parameter(
            "previous_response_id",
            "There is no previous response of that id.",
        )
        .code("previous_response_not_found")
    })
}

impl Head {
    /// What a conversation tells of a response.
    fn told(id: &ResponseId, own: &[&Message], asked: Option<&Value>) -> Head {
        let created = own.first().map_or(0, |message| {
            u64::try_from(message.created_at.timestamp()).unwrap_or(0)
        });
        let get = |name: &str| asked.and_then(|asked| asked.get(name)).cloned();
        let model = get("model").and_then(|model| model.as_str().map(str::to_owned));
        Head {
            id: id.clone(),
            created,
            model: model.unwrap_or_else(|| id.instance.agent.clone()),
            echoed: get("response").unwrap_or_else(|| json!({"metadata": {}})),
        }
    }

    /// A response that is over. Without a result, which is kept for a while alone, its messages tell how it ended.
    fn over(&self, mut items: Vec<Item>, result: Option<&TurnResult>) -> Value {
        let Some(result) = result else {
            let status = Status::Over {
                outcome: Outcome::Complete,
                usage: None,
            };
            return self.body(&items, &status);
        };
        items.extend(refusal(result).map(|words| Item::Refusal(words.to_owned())));
        match Outcome::of(result) {
            Ok(outcome) => {
                let usage = Some(result.usage);
                self.body(&items, &Status::Over { outcome, usage })
            }
            Err(error) => self.body(&items, &Status::Failed(&error.into())),
        }
    }

    /// The response as it stands.
    pub(super) fn body(&self, items: &[Item], status: &Status<'_>) -> Value {
        let output: Vec<Value> = (0..items.len())
            .map(|index| self.item(items, index, true))
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
            Status::Over { outcome, usage } => {
                if let Some(reason) = outcome.incomplete_reason() {
                    body["incomplete_details"] = json!({"reason": reason});
                }
                body["usage"] = usage.map_or(Value::Null, usage_body);
            }
            Status::Failed(error) => body["error"] = error.of_response(),
            Status::InProgress => {}
        }
        body
    }

    /// Returns an item of the output, either complete or as it begins.
    pub(super) fn item(&self, items: &[Item], index: usize, is_complete: bool) -> Value {
        let (id, item) = (self.item_id(items, index), &items[index]);
        let status = if is_complete {
            "completed"
        } else {
            "in_progress"
        };
        let content: Vec<Value> = is_complete.then(|| part(item)).into_iter().collect();
        match item {
            Item::Reasoning(_) => {
                json!({"id": id, "type": "reasoning", "summary": [], "content": content, "status": status})
            }
            Item::Text(_) | Item::Refusal(_) => {
                json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
            }
        }
    }

    /// Returns the id of an item: messages and reasoning are counted separately.
    pub(super) fn item_id(&self, items: &[Item], index: usize) -> String {
        let is_reasoning = |item: &Item| matches!(item, Item::Reasoning(_));
        let kind = is_reasoning(&items[index]);
        let number = items[..index]
            .iter()
            .filter(|item| is_reasoning(item) == kind)
            .count();
        let prefix = if kind { "rs" } else { "msg" };
        format!("{prefix}_{}_{number}", super::suffix(&self.id.event_id))
    }
}

/// Returns the content of an item.
pub(super) fn part(item: &Item) -> Value {
    match item {
        Item::Reasoning(text) => json!({"type": "reasoning_text", "text": text}),
        Item::Text(text) => {
            json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
        }
        Item::Refusal(words) => json!({"type": "refusal", "refusal": words}),
    }
}

impl Status<'_> {
    fn name(&self) -> &'static str {
        match self {
            Status::InProgress => "in_progress",
            Status::Over { outcome, .. } if outcome.incomplete_reason().is_some() => "incomplete",
            Status::Over { .. } => "completed",
            Status::Failed(_) => "failed",
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
