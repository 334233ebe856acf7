//! How a layer around a turn or a step reaches other agents: as a tool does, and once in the life of the turn.

use goondan_core::event::TurnError;
use goondan_core::ports::extension::AgentQuestion;
use goondan_core::ports::journal::{Effect, EffectKind, Outcome, WhenInterrupted};
use goondan_core::ports::tool::{AgentEventInput, AgentToolRuntime, RequestOptions, ToolError};
use serde_json::{Value, json};

use crate::tooling::agents::AgentCalls;
use crate::turn::{TurnContext, store_failed};

/// How long an answer is waited for where the layer does not say, in milliseconds.
const TIMEOUT_MS: u64 = 60_000;

/// The questions of one run of a layer.
pub(super) struct Questions {
    /// The layer's place in its turn.
    place: String,
    asked: u32,
}

/// Whether an answer is waited for.
pub(super) enum How {
    Request,
    Send,
}

/// What came of a question.
pub(super) type Told = Result<Value, ToolError>;

impl Questions {
    pub(super) fn new(place: String) -> Self {
        Questions { place, asked: 0 }
    }

    /// Asks and waits for the answer, or tells. An `Err` outside means that the turn has to end.
    pub(super) async fn ask(
        &mut self,
        turn: &TurnContext,
        what: AgentQuestion,
        how: How,
    ) -> Result<Told, TurnError> {
        if what.target.trim().is_empty() {
            return Ok(Err(ToolError::new("the name of an agent to ask is empty")));
        }
        let place = format!("{}/question-{}", self.place, self.asked);
        self.asked += 1;
        let effect = Effect {
            id: place.clone(),
            kind: EffectKind::ExtensionQuestion,
            intent: json!({"target": what.target}),
            // Asked again it is the same question: its id comes from its place.
            when_interrupted: WhenInterrupted::RunAgain,
        };
        let calls = AgentCalls::of_turn(turn, &place);
        let work = Box::pin(async {
            told(match how {
                How::Request => request(&calls, what).await,
                How::Send => send(&calls, what).await,
            })
        });
        match turn
            .journal
            .run(effect, work)
            .await
            .map_err(|error| store_failed(&error))?
        {
            Outcome::Done { value, .. } => Ok(untold(value)),
            Outcome::Interrupted => unreachable!("a question is asked again"),
        }
    }
}

async fn request(calls: &AgentCalls, what: AgentQuestion) -> Told {
    let options = RequestOptions {
        timeout_ms: Some(what.timeout_ms.unwrap_or(TIMEOUT_MS)),
        async_: what.async_,
    };
    let (target, input) = said(what);
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

async fn send(calls: &AgentCalls, what: AgentQuestion) -> Told {
    let (target, input) = said(what);
    let result = calls.send(&target, input).await?;
    Ok(json!({"accepted": result.accepted}))
}

fn said(what: AgentQuestion) -> (String, AgentEventInput) {
    let input = AgentEventInput {
        input: what.input,
        instance_key: what.instance_key,
        metadata: what.metadata,
        ..AgentEventInput::default()
    };
    (what.target, input)
}

/// What is noted of an outcome.
fn told(outcome: Told) -> Value {
    match outcome {
        Ok(value) => json!({"value": value}),
        Err(error) => {
            json!({"error": {"message": error.message, "code": error.code, "suggestion": error.suggestion}})
        }
    }
}

fn untold(mut noted: Value) -> Told {
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
