//! Requests from a turn or step layer to other agents. They work like requests from a tool.
//! A resumed turn does not repeat a finished request.

use goondan_core::event::TurnError;
use goondan_core::ports::extension::LayerRequest;
use goondan_core::ports::journal::{EffectKind, EffectOutcome, InterruptionPolicy, TurnEffect};
use goondan_core::ports::tool::{AgentEventInput, AgentToolRuntime, HandlerError, RequestOptions};
use serde_json::{Value, json};

use crate::tooling::agents::AgentCalls;
use crate::turn::{TurnContext, store_failure_error};

/// Default timeout for an answer, in milliseconds.
const ANSWER_TIMEOUT_MS: u64 = 60_000;

/// Requests of one run of a layer.
pub(super) struct LayerRequests {
    /// Position of the layer in the turn.
    location: String,
    sent_count: u32,
}

pub(super) enum RequestMode {
    Request,
    Send,
}

pub(super) type RequestOutcome = Result<Value, HandlerError>;

impl LayerRequests {
    pub(super) fn new(location: String) -> Self {
        LayerRequests {
            location,
            sent_count: 0,
        }
    }

    /// Sends a request and waits for the answer, or sends a message. An outer `Err` ends the turn.
    pub(super) async fn send(
        &mut self,
        turn: &TurnContext,
        message: LayerRequest,
        how: RequestMode,
    ) -> Result<RequestOutcome, TurnError> {
        if message.target.trim().is_empty() {
            return Ok(Err(HandlerError::new(
                "the name of an agent to ask is empty",
            )));
        }
        let effect_id = format!("{}/question-{}", self.location, self.sent_count);
        self.sent_count += 1;
        let effect = TurnEffect {
            id: effect_id.clone(),
            kind: EffectKind::ExtensionQuestion,
            intent: json!({"target": message.target}),
            // A repeated request is a duplicate: its id is derived from its position.
            when_interrupted: InterruptionPolicy::RunAgain,
        };
        let calls = AgentCalls::of_turn(turn, &effect_id);
        let work = Box::pin(async {
            encode_outcome(match how {
                RequestMode::Request => request(&calls, message).await,
                RequestMode::Send => send(&calls, message).await,
            })
        });
        match turn
            .journal
            .run(effect, work)
            .await
            .map_err(|error| store_failure_error(&error))?
        {
            EffectOutcome::Done { value, .. } => Ok(decode_outcome(value)),
            EffectOutcome::Interrupted => unreachable!("an interrupted effect runs again"),
        }
    }
}

/// Sends a request to another agent and returns the answer as the layer receives it.
async fn request(calls: &AgentCalls, message: LayerRequest) -> RequestOutcome {
    let options = RequestOptions {
        timeout_ms: message
            .timeout_ms
            .or((!message.async_).then_some(ANSWER_TIMEOUT_MS)),
        async_: message.async_,
    };
    let (target, input) = agent_input(message);
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
        "async": result.asynchronous,
    }))
}

/// Sends a message to another agent and returns true if it was accepted.
async fn send(calls: &AgentCalls, message: LayerRequest) -> RequestOutcome {
    let (target, input) = agent_input(message);
    let result = calls.send(&target, input).await?;
    Ok(json!({"accepted": result.accepted}))
}

/// Returns the target and the input of a message.
fn agent_input(message: LayerRequest) -> (String, AgentEventInput) {
    let input = AgentEventInput {
        input: message.input,
        instance_key: message.instance_key,
        metadata: message.metadata,
        ..AgentEventInput::default()
    };
    (message.target, input)
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

/// Decodes an outcome from the journal.
fn decode_outcome(mut noted: Value) -> RequestOutcome {
    let text = |field: &Value| field.as_str().map(str::to_owned);
    match noted.get_mut("error") {
        None => Ok(noted["value"].take()),
        Some(error) => Err(HandlerError {
            code: text(&error["code"]),
            suggestion: text(&error["suggestion"]),
            ..HandlerError::new(text(&error["message"]).unwrap_or_default())
        }),
    }
}
