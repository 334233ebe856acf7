//! What a program reads about a turn, and which exit code a turn deserves.

use goondan::ChainUsage;
use goondan::event::{Cost, FinishReason, TurnError, TurnResult};
use goondan::ids::InstanceId;
use goondan::ports::model::{ModelFinishReason, TokenUsage};
use goondan::spec::Code;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::commands::run::Unasked;
use crate::exit::{CliError, Exit};

/// What came of a turn: the one object of `--output-format json`, a line of `stream-json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnReport {
    #[serde(rename = "type")]
    kind: &'static str,
    /// What the input line called itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The type of the event that began a turn that no input of this run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    agent_name: String,
    instance_key: String,
    turn_id: String,
    trace_id: String,
    finish_reason: FinishReason,
    /// The reason why the model ended its last answer, if that answer is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    model_finish_reason: Option<ModelFinishReason>,
    /// The text of the answer; null where there is none.
    response: Option<String>,
    /// The answer as data, where the agent states its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    steps: u32,
    #[serde(flatten)]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<TurnError>,
    /// Answers of later turns of the same chain that no input began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    later: Vec<TurnReport>,
}

/// What all turns of the chain have used up so far.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    usage: TokenUsage,
    /// The share of each agent.
    usage_by_agent: BTreeMap<String, TokenUsage>,
    /// Cost of all turns, if a Model has `pricing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
    /// Costs by currency, if the Models have prices in several currencies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    costs: Vec<Cost>,
}

impl From<ChainUsage> for Usage {
    fn from(chain: ChainUsage) -> Self {
        let cost = |(currency, amount)| Cost { amount, currency };
        let mut costs: Vec<Cost> = chain.costs.into_iter().map(cost).collect();
        let only = if costs.len() == 1 { costs.pop() } else { None };
        Usage {
            usage: chain.total,
            usage_by_agent: chain.by_agent,
            cost: only,
            costs,
        }
    }
}

/// What belongs to a turn and is not in its result.
#[derive(Debug, Clone)]
pub(crate) struct TurnFacts {
    /// Whose turn.
    pub(crate) instance: InstanceId,
    /// The chain that it belongs to.
    pub(crate) trace_id: String,
    /// How long it took from acceptance to result, in milliseconds.
    pub(crate) duration_ms: u64,
}

impl TurnReport {
    /// What came of an input. `usage` is that of its chain.
    pub(crate) fn result(
        id: Option<String>,
        facts: TurnFacts,
        result: &TurnResult,
        usage: ChainUsage,
    ) -> Self {
        let report = TurnReport::of(
            "result",
            &facts.instance,
            facts.trace_id,
            result,
            Some(usage),
        );
        TurnReport {
            id,
            duration_ms: Some(facts.duration_ms),
            ..report
        }
    }

    /// What came of a turn that no input of this run began.
    pub(crate) fn answer(unasked: &Unasked<'_>, usage: Option<ChainUsage>) -> Self {
        let Unasked {
            instance,
            cause,
            trace_id,
            result,
        } = *unasked;
        let report = TurnReport::of("answer", instance, trace_id.to_owned(), result, usage);
        TurnReport {
            cause: Some(cause.to_owned()),
            ..report
        }
    }

    /// With what later turns of the same chain have answered.
    pub(crate) fn with_later(self, later: Vec<TurnReport>) -> Self {
        TurnReport { later, ..self }
    }

    fn of(
        kind: &'static str,
        instance: &InstanceId,
        trace_id: String,
        result: &TurnResult,
        usage: Option<ChainUsage>,
    ) -> Self {
        TurnReport {
            kind,
            id: None,
            cause: None,
            agent_name: instance.agent.clone(),
            instance_key: instance.instance_key.clone(),
            turn_id: result.turn_id.clone(),
            trace_id,
            finish_reason: result.finish_reason,
            model_finish_reason: result.model_finish_reason.clone(),
            response: result
                .response_message
                .as_ref()
                .map(|message| message.text()),
            output: result.output.clone(),
            steps: result.step_count,
            usage: usage.map(Usage::from),
            duration_ms: None,
            error: result.error.clone(),
            later: Vec::new(),
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
        (Some(401 | 403), _) => (
            Exit::Authentication,
            Some("Check the model's `apiKey` and the variable that it comes from."),
        ),
        (_, Some(Code::MODEL_CONNECTION)) => (
            Exit::Network,
            Some("Check the model's `endpoint` and the network."),
        ),
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
        TurnResult {
            turn_id: "t".to_owned(),
            finish_reason,
            model_finish_reason: None,
            response_message: None,
            output: None,
            error,
            usage,
            step_count: 3,
        }
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
        assert_eq!(
            exit(Error, Some(("E_MODEL_STATUS", Some(401)))),
            Some(Exit::Authentication)
        );
        assert_eq!(
            exit(Error, Some(("E_MODEL_STATUS", Some(403)))),
            Some(Exit::Authentication)
        );
        assert_eq!(
            exit(Error, Some(("E_MODEL_STATUS", Some(529)))),
            Some(Exit::Failure)
        );
        assert_eq!(
            exit(Error, Some(("E_MODEL_CONNECTION", None))),
            Some(Exit::Network)
        );
        assert_eq!(
            exit(Error, Some(("E_MODEL_CONFIGURATION", None))),
            Some(Exit::Configuration)
        );
    }
}
