//! Requests from a turn or step layer to other agents. They work like those of a tool, and a
//! resumed turn does not repeat a finished one.

use goondan_core::event::TurnError;
use goondan_core::ports::extension::AgentMessage;
use goondan_core::ports::journal::{EffectKind, EffectOutcome, InterruptionPolicy, TurnEffect};
use goondan_core::ports::tool::{AgentEventInput, AgentToolRuntime, RequestOptions, ToolError};
use serde_json::{Value, json};

use crate::tooling::agents::AgentCalls;
use crate::turn::{TurnContext, store_failed};

/// Default timeout for an answer, in milliseconds.
const ANSWER_TIMEOUT_MS: u64 = 60_000;

/// Requests of one run of a layer.
pub(super) struct LayerRequests {
    /// Position of the layer in its turn.
    place: String,
    asked: u32,
}

pub(super) enum RequestMode {
    Request,
    Send,
}

pub(super) type RequestOutcome = Result<Value, ToolError>;

impl LayerRequests {
    pub(super) fn new(place: String) -> Self {
        LayerRequests { place, asked: 0 }
    }

    /// Sends a request and waits for the answer, or sends a message. An outer `Err` ends the turn.
    pub(super) async fn ask(
        &mut self,
        turn: &TurnContext,
        what: AgentMessage,
        how: RequestMode,
    ) -> Result<RequestOutcome, TurnError> {
        if what.target.trim().is_empty() {
            return Ok(Err(ToolError::new("the name of an agent to ask is empty")));
        }
        let place = format!("{}/question-{}", self.place, self.asked);
        self.asked += 1;
        let effect = TurnEffect {
            id: place.clone(),
            kind: EffectKind::ExtensionQuestion,
            intent: json!({"target": what.target}),
            // A repeated request is a duplicate: its id is derived from its position.
            when_interrupted: InterruptionPolicy::RunAgain,
        };
        let calls = AgentCalls::of_turn(turn, &place);
        let work = Box::pin(async {
            encode_outcome(match how {
                RequestMode::Request => request(&calls, what).await,
                RequestMode::Send => send(&calls, what).await,
            })
        });
        match turn
            .journal
            .run(effect, work)
            .await
            .map_err(|error| store_failed(&error))?
        {
            EffectOutcome::Done { value, .. } => Ok(decode_outcome(value)),
            EffectOutcome::Interrupted => unreachable!("an interrupted effect runs again"),
        }
    }
}

async fn request(calls: &AgentCalls, what: AgentMessage) -> RequestOutcome {
    let options = RequestOptions {
        timeout_ms: Some(what.timeout_ms.unwrap_or(ANSWER_TIMEOUT_MS)),
        async_: what.async_,
    };
    let (target, input) = agent_input(what);
    let result = calls.request(&target, input, options).await?;
    let response = match result.response {
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
        None => String::new(),
    };
    Ok(json!({
        "target": result.target,
        "response": response,
        "correlationId": result.correlation_id,
        "accepted": result.accepted,
        "async": result.async_,
    }))
}

async fn send(calls: &AgentCalls, what: AgentMessage) -> RequestOutcome {
    let (target, input) = agent_input(what);
    let result = calls.send(&target, input).await?;
    Ok(json!({"accepted": result.accepted}))
}

fn agent_input(what: AgentMessage) -> (String, AgentEventInput) {
    let input = AgentEventInput {
        input: what.input,
        instance_key: what.instance_key,
        metadata: what.metadata,
        ..AgentEventInput::default()
    };
    (what.target, input)
}

/// Encodes an outcome for the journal.
fn encode_outcome(outcome: RequestOutcome) -> Value {
    match outcome {
        Ok(value) => json!({"value": value}),
        Err(error) => {
            json!({"error": {"message": error.message, "code": error.code, "suggestion": error.suggestion}})
        }
    }
}

fn decode_outcome(mut noted: Value) -> RequestOutcome {
    let text = |field: &Value| field.as_str().map(str::to_owned);
    match noted.get_mut("error") {
        None => Ok(noted["value"].take()),
        Some(error) => Err(ToolError {
            code: text(&error["code"]),
            suggestion: text(&error["suggestion"]),
            ..ToolError::new(text(&error["message"]).unwrap_or_default())
        }),
    }
}
