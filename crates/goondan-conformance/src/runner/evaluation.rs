//! One live run of a test case: its steps with real models, then the verdicts of the judge.

use std::sync::Arc;

use serde_json::{Value, json};

use super::case_context::{CaseContext, RunConditions, run_detached};
use super::evidence::CaseEvidence;
use super::steps::StepResults;
use super::trajectory::{ModelToolCall, model_tool_calls};
use super::{perform_and_judge, run_guarded, unsupported_reason};
use crate::case::StepAction;
use crate::case::read::LocatedCase;
use crate::live::judge::{JudgeQuestion, LlmJudge};
use crate::live::{LiveCase, RunReport, judge_label, outcome_judge_label, step_label, usage_of};
use crate::report::CheckFailure;
use crate::run::RunOptions;

/// Returns the reason why a test case cannot run live here, if any.
pub(crate) fn unsupported_live_reason(
    located: &LocatedCase,
    options: &RunOptions,
) -> Option<String> {
    unsupported_reason(&located.case, options.database.is_some())
}

/// Executes a live run. Runs are numbered from 1.
pub(crate) fn run_live(
    located: &LocatedCase,
    live: &LiveCase,
    number: u32,
    options: &RunOptions,
) -> RunReport {
    let (case, time_limit) = (located.clone(), options.time_limit);
    let (database, live, tool_host) = (
        options.database.clone(),
        Some(live.clone()),
        options.tool_host.clone(),
    );
    let conditions = RunConditions {
        time_limit,
        database,
        nodes: 1,
        live,
        tool_host,
    };
    let done = run_guarded(time_limit, move || run(&case, conditions));
    let done = done.unwrap_or_else(|failure| RunReport {
        failures: vec![failure],
        ..RunReport::default()
    });
    RunReport {
        run: number,
        passed: done.failures.is_empty(),
        ..done
    }
}

/// Runs a live test case once and lets the judge grade it.
fn run(located: &LocatedCase, conditions: RunConditions) -> RunReport {
    let broken_report = |message: String| RunReport {
        failures: vec![CheckFailure::new("the case", message)],
        ..RunReport::default()
    };
    let mut context = match CaseContext::create(located, conditions) {
        Ok(context) => context,
        Err(message) => return broken_report(message),
    };
    let report = match perform_and_judge(&mut context, located) {
        Err(message) => broken_report(message),
        Ok((performed, evidence)) => {
            let duration_ms = u64::try_from(performed.duration.as_millis()).unwrap_or(u64::MAX);
            let questions = judge_questions(located, &performed, &evidence);
            let report = RunReport {
                steps: performed.count,
                duration_ms,
                spent: usage_of(&evidence.events),
                failures: performed.failures,
                ..RunReport::default()
            };
            add_verdicts(report, &context, located, &questions)
        }
    };
    context.end();
    context.delete_workspaces();
    report
}

/// Returns the questions for the judge. If the steps stopped early, the run has failed and there is
/// nothing to judge.
fn judge_questions(
    located: &LocatedCase,
    performed: &StepResults,
    evidence: &CaseEvidence<'_>,
) -> Vec<JudgeQuestion> {
    let case = &located.case;
    if performed.count < case.steps.len() {
        return Vec::new();
    }
    let calls = model_tool_calls(&evidence.events, &evidence.conversations);
    let turns: Vec<(usize, Value)> = performed
        .answers
        .iter()
        .map(|(index, view)| (*index, exchange_for_judge(located, *index, view, &calls)))
        .collect();
    let step_questions = turns.iter().filter_map(|(index, turn)| {
        let step = &case.steps[*index];
        let criteria = step.judge.clone()?;
        let check = judge_label(&step_label(*index, step.action.name()));
        Some(JudgeQuestion {
            check,
            criteria,
            conversation: Value::Array(vec![turn.clone()]),
        })
    });
    let transcript: Value = turns.iter().map(|(_, turn)| turn.clone()).collect();
    let outcome_questions = case
        .expect
        .judge
        .iter()
        .enumerate()
        .map(|(index, criteria)| JudgeQuestion {
            check: outcome_judge_label(index),
            criteria: criteria.clone(),
            conversation: transcript.clone(),
        });
    step_questions.chain(outcome_questions).collect()
}

/// Returns the input, the calls and the answer in the form that the judge receives.
fn exchange_for_judge(
    located: &LocatedCase,
    index: usize,
    view: &Value,
    calls: &[ModelToolCall],
) -> Value {
    let StepAction::Send(send) = &located.case.steps[index].action else {
        return Value::Null;
    };
    let turn_calls = calls
        .iter()
        .filter(|call| view.get("turnId").and_then(Value::as_str) == Some(&call.turn_id));
    let calls: Value = turn_calls
        .map(|call| json!({"tool": call.tool, "args": call.args, "status": call.status}))
        .collect();
    let answer = view
        .get("output")
        .or(view.get("response"))
        .or(view.get("error"))
        .cloned()
        .unwrap_or_default();
    json!({"input": send.input, "toolCalls": calls, "answer": answer})
}

/// Adds the judge's verdicts to `report`.
fn add_verdicts(
    report: RunReport,
    context: &CaseContext<'_>,
    located: &LocatedCase,
    questions: &[JudgeQuestion],
) -> RunReport {
    if questions.is_empty() {
        return report;
    }
    let rejected_report = |message: String, mut report: RunReport| {
        report.failures.extend(
            questions
                .iter()
                .map(|question| CheckFailure::new(question.check.clone(), message.clone())),
        );
        report
    };
    let Some(live) = &context.live else {
        return report;
    };
    let folder = match context.copy_initial_project(located, "judge") {
        Ok(folder) => folder,
        Err(message) => return rejected_report(message, report),
    };
    let (project, state) = (folder.join("project"), folder.join("state"));
    let judge = LlmJudge {
        project: &project,
        state,
        model: live.judge.as_deref(),
        scripts: Arc::clone(&live.scripts),
        environment: context.environment(),
    };
    let (verdicts, spent) = run_detached(judge.evaluate(questions));
    let mut report = RunReport {
        judge: spent,
        ..report
    };
    for (question, verdict) in questions.iter().zip(verdicts) {
        let failed = match &verdict {
            Ok(verdict) if verdict.passed => None,
            Ok(verdict) => Some(format!("the judge's verdict is fail: {}", verdict.reason)),
            Err(message) => Some(message.clone()),
        };
        report
            .failures
            .extend(failed.map(|message| CheckFailure::new(question.check.clone(), message)));
        report.verdicts.extend(verdict);
    }
    report
}
