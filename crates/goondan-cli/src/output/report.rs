//! Machine-readable turn reports, and the exit code for each turn result.

use goondan::ChainUsage;
use goondan::event::{FinishReason, INPUT_EVENT, TurnError, TurnResult, UsageCost};
use goondan::ids::InstanceId;
use goondan::ports::model::{ModelFinishReason, TokenUsage};
use goondan::spec::Code;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::commands::run::UnpromptedAnswer;
use crate::exit::{CliError, CommandExit};

/// Report of a turn: the object of `--output-format json`, or a line of `stream-json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnReport {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Id of the input that began the turn: the `id` of its line, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Event type that caused the turn, if no input of this run did.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    agent_name: String,
    instance_key: String,
    turn_id: String,
    trace_id: String,
    finish_reason: FinishReason,
    /// Finish reason of the last model call, if its answer is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    model_finish_reason: Option<ModelFinishReason>,
    /// Text of the answer; null if there is none.
    response: Option<String>,
    /// Structured answer, if the agent declares an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    steps: u32,
    #[serde(flatten)]
    usage: Option<TraceUsageReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<TurnError>,
    /// Later answers of the same trace that no input caused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    later: Vec<TurnReport>,
}

/// Accumulated usage of all turns of the trace.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TraceUsageReport {
    usage: TokenUsage,
    /// Usage per agent.
    usage_by_agent: BTreeMap<String, TokenUsage>,
    /// Cost of all turns, if a Model has `pricing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<UsageCost>,
    /// Costs by currency, if the Models have prices in several currencies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    costs: Vec<UsageCost>,
}

impl From<ChainUsage> for TraceUsageReport {
    fn from(chain: ChainUsage) -> Self {
        let cost = |(currency, amount)| UsageCost { amount, currency };
        let mut costs: Vec<UsageCost> = chain.costs.into_iter().map(cost).collect();
        let only = if costs.len() == 1 { costs.pop() } else { None };
        TraceUsageReport {
            usage: chain.total,
            usage_by_agent: chain.by_agent,
            cost: only,
            costs,
        }
    }
}

/// Facts about a turn that its result does not contain.
#[derive(Debug, Clone)]
pub(crate) struct TurnReportFacts {
    pub(crate) instance: InstanceId,
    pub(crate) trace_id: String,
    /// Time from acceptance to result, in milliseconds.
    pub(crate) duration_ms: u64,
}

impl TurnReport {
    /// Creates the report of an input's turn. `usage` covers its whole trace.
    pub(crate) fn result(
        id: Option<String>,
        facts: TurnReportFacts,
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

    /// Creates the report of a turn that no input of this run caused.
    pub(crate) fn answer(answer: &UnpromptedAnswer<'_>, usage: Option<ChainUsage>) -> Self {
        let UnpromptedAnswer {
            instance,
            event_id,
            cause,
            trace_id,
            result,
        } = *answer;
        let report = TurnReport::of("answer", instance, trace_id.to_owned(), result, usage);
        TurnReport {
            id: (cause == INPUT_EVENT).then(|| event_id.to_owned()),
            cause: Some(cause.to_owned()),
            ..report
        }
    }

    /// Adds the answers of later turns of the same trace.
    pub(crate) fn with_later(self, later: Vec<TurnReport>) -> Self {
        TurnReport { later, ..self }
    }

    /// Creates a report without id, cause and duration.
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
            usage: usage.map(TraceUsageReport::from),
            duration_ms: None,
            error: result.error.clone(),
            later: Vec::new(),
        }
    }
}

/// Returns the error that the command ends with, or `None` if the turn answered.
pub(crate) fn turn_error(result: &TurnResult) -> Option<CliError> {
    match result.finish_reason {
        FinishReason::TextResponse => None,
        FinishReason::Cancelled => Some(CliError::interrupted()),
        FinishReason::MaxSteps => Some(step_limit_error(result.step_count)),
        FinishReason::Error => Some(match &result.error {
            Some(error) => turn_failure(error),
            None => CliError::failure(Code::INTERNAL_ERROR, "The turn failed without a reason."),
        }),
    }
}

/// Returns the error of a turn that reached its step limit.
fn step_limit_error(steps: u32) -> CliError {
    CliError::failure(
        Code::MAX_STEPS,
        format!("The turn was stopped at the step limit, after {steps} steps without an answer."),
    )
    .suggest("Raise `policy.maxStepsPerTurn` of the Swarm, or find repeated calls with `gdn logs`.")
}

/// Converts the error of a turn. The exit code depends on the cause.
fn turn_failure(error: &TurnError) -> CliError {
    let (exit, hint) = match (error.status, Code::find(&error.code)) {
        (Some(401 | 403), _) => (
            CommandExit::Authentication,
            Some("Check the model's `apiKey` and the variable that it comes from."),
        ),
        (_, Some(Code::MODEL_CONNECTION)) => (
            CommandExit::Network,
            Some("Check the model's `endpoint` and the network."),
        ),
        (_, Some(Code::MODEL_CONFIGURATION)) => (CommandExit::Configuration, None),
        _ => (CommandExit::Failure, None),
    };
    let mut cli_error =
        CliError::with_foreign_code(exit, error.code.clone(), error.message.clone());
    cli_error.suggestion = error.suggestion.clone().or(hint.map(str::to_owned));
    cli_error
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

    fn exit(
        finish_reason: FinishReason,
        error: Option<(&str, Option<u16>)>,
    ) -> Option<CommandExit> {
        turn_error(&ended(finish_reason, error)).map(|error| error.exit)
    }

    #[test]
    fn the_exit_code_states_the_kind_of_failure() {
        use FinishReason::{Cancelled, Error, MaxSteps, TextResponse};
        assert_eq!(exit(TextResponse, None), None);
        assert_eq!(exit(Cancelled, None), Some(CommandExit::Interrupt));
        assert_eq!(exit(MaxSteps, None), Some(CommandExit::Failure));
        assert_eq!(exit(Error, None), Some(CommandExit::Failure));
        assert_eq!(
            exit(Error, Some(("E_MODEL_STATUS", Some(401)))),
            Some(CommandExit::Authentication)
        );
        assert_eq!(
            exit(Error, Some(("E_MODEL_STATUS", Some(403)))),
            Some(CommandExit::Authentication)
        );
        assert_eq!(
            exit(Error, Some(("E_MODEL_STATUS", Some(529)))),
            Some(CommandExit::Failure)
        );
        assert_eq!(
            exit(Error, Some(("E_MODEL_CONNECTION", None))),
            Some(CommandExit::Network)
        );
        assert_eq!(
            exit(Error, Some(("E_MODEL_CONFIGURATION", None))),
            Some(CommandExit::Configuration)
        );
    }
}
