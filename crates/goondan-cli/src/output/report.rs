//! What a program reads about a turn, and which exit code a turn deserves.

use goondan::event::{FinishReason, TurnError, TurnResult};
use goondan::ids::InstanceId;
use goondan::ports::model::TokenUsage;
use goondan::spec::Code;
use serde::Serialize;

use crate::exit::{CliError, Exit};

/// The result of a turn: the one object of `--output-format json`, the last line of `stream-json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnReport {
    #[serde(rename = "type")]
    kind: &'static str,
    /// What the input line called itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    agent_name: String,
    instance_key: String,
    turn_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    finish_reason: FinishReason,
    /// The text of the answer; null where there is none.
    response: Option<String>,
    steps: u32,
    usage: TokenUsage,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<TurnError>,
}

/// What belongs to a turn and is not in its result.
#[derive(Debug, Clone)]
pub(crate) struct TurnFacts {
    /// Whose turn.
    pub(crate) instance: InstanceId,
    /// The chain that it belongs to, once it is known.
    pub(crate) trace_id: Option<String>,
    /// How long it took from acceptance to result, in milliseconds.
    pub(crate) duration_ms: u64,
}

impl TurnReport {
    pub(crate) fn new(id: Option<String>, facts: &TurnFacts, result: &TurnResult) -> Self {
        TurnReport {
            kind: "result",
            id,
            agent_name: facts.instance.agent.clone(),
            instance_key: facts.instance.instance_key.clone(),
            turn_id: result.turn_id.clone(),
            trace_id: facts.trace_id.clone(),
            finish_reason: result.finish_reason,
            response: result.response_message.as_ref().map(|message| message.text()),
            steps: result.step_count,
            usage: result.usage,
            duration_ms: facts.duration_ms,
            error: result.error.clone(),
        }
    }
}

/// The error that a turn ends the command with; `None` where it answered.
pub(crate) fn turn_error(result: &TurnResult) -> Option<CliError> {
    match result.finish_reason {
        FinishReason::TextResponse => None,
        FinishReason::Cancelled => Some(CliError::interrupted()),
        FinishReason::MaxSteps => Some(step_limit(result.step_count)),
        FinishReason::Error => Some(match &result.error {
            Some(error) => failed(error),
            None => CliError::failure(Code::INTERNAL_ERROR, "The turn failed without saying why."),
        }),
    }
}

fn step_limit(steps: u32) -> CliError {
    CliError::failure(
        Code::MAX_STEPS,
        format!("The turn was stopped at the step limit, after {steps} steps without an answer."),
    )
    .suggest("Raise `policy.maxStepsPerTurn` of the Swarm, or look at what the agent keeps calling with `gdn logs`.")
}

fn failed(error: &TurnError) -> CliError {
    let (exit, hint) = match (error.status, Code::find(&error.code)) {
        (Some(401 | 403), _) => {
            (Exit::Authentication, Some("Check the model's `apiKey` and the variable that it comes from."))
        }
        (_, Some(Code::MODEL_CONNECTION)) => (Exit::Network, Some("Check the model's `endpoint` and the network.")),
        (_, Some(Code::MODEL_CONFIGURATION)) => (Exit::Configuration, None),
        _ => (Exit::Failure, None),
    };
    let mut shown = CliError::passed_on(exit, error.code.clone(), error.message.clone());
    shown.suggestion = error.suggestion.clone().or(hint.map(str::to_owned));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(finish_reason: FinishReason, error: Option<(&str, Option<u16>)>) -> TurnResult {
        let error = error.map(|(code, status)| TurnError {
            code: code.to_owned(),
            message: "It broke.".to_owned(),
            suggestion: None,
            status,
        });
        let usage = TokenUsage::default();
        TurnResult { turn_id: "t".to_owned(), finish_reason, response_message: None, error, usage, step_count: 3 }
    }

    fn exit(finish_reason: FinishReason, error: Option<(&str, Option<u16>)>) -> Option<Exit> {
        turn_error(&ended(finish_reason, error)).map(|error| error.exit)
    }

    #[test]
    fn the_exit_code_tells_what_kind_of_failure_it_was() {
        use FinishReason::{Cancelled, Error, MaxSteps, TextResponse};
        assert_eq!(exit(TextResponse, None), None);
        assert_eq!(exit(Cancelled, None), Some(Exit::Interrupt));
        assert_eq!(exit(MaxSteps, None), Some(Exit::Failure));
        assert_eq!(exit(Error, None), Some(Exit::Failure));
        assert_eq!(exit(Error, Some(("E_MODEL_STATUS", Some(401)))), Some(Exit::Authentication));
        assert_eq!(exit(Error, Some(("E_MODEL_STATUS", Some(403)))), Some(Exit::Authentication));
        assert_eq!(exit(Error, Some(("E_MODEL_STATUS", Some(529)))), Some(Exit::Failure));
        assert_eq!(exit(Error, Some(("E_MODEL_CONNECTION", None))), Some(Exit::Network));
        assert_eq!(exit(Error, Some(("E_MODEL_CONFIGURATION", None))), Some(Exit::Configuration));
    }
}
