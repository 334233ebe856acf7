//! One live run of a case: its steps with the real models of its project, then what a judge says of the answers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::evidence::Evidence;
use super::steps::Performed;
use super::trajectory::{Called, calls};
use super::world::{Conditions, World, alone};
use super::{guarded, perform_and_judge, unsupported};
use crate::case::Action;
use crate::case::read::Located;
use crate::live::judge::{Judge, Question};
use crate::live::{LiveCase, RunReport, judge_place, outcome_judge_place, spent, step_place};
use crate::report::Failure;
use crate::run::Options;

/// Why a case can't be run live here, if it can't.
pub(crate) fn not_here(located: &Located, options: &Options) -> Option<String> {
    unsupported(&located.case, options.database.is_some())
}

/// Does the run of that number, from 1.
pub(crate) fn run_live(
    located: &Located,
    live: &LiveCase,
    number: u32,
    options: &Options,
) -> RunReport {
    let (case, time_limit) = (located.clone(), options.time_limit);
    let (database, live, tool_host) = (
        options.database.clone(),
        Some(live.clone()),
        options.tool_host.clone(),
    );
    let conditions = Conditions {
        time_limit,
        database,
        nodes: 1,
        live,
        tool_host,
    };
    let done = guarded(time_limit, move || run(&case, conditions));
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

fn run(located: &Located, conditions: Conditions) -> RunReport {
    let broken = |message: String| RunReport {
        failures: vec![Failure::new("the case", message)],
        ..RunReport::default()
    };
    let mut world = match World::create(located, conditions) {
        Ok(world) => world,
        Err(message) => return broken(message),
    };
    let report = match perform_and_judge(&mut world, located) {
        Err(message) => broken(message),
        Ok((performed, evidence)) => {
            let duration_ms = u64::try_from(performed.duration.as_millis()).unwrap_or(u64::MAX);
            let questions = questions(located, &performed, &evidence);
            let report = RunReport {
                steps: performed.count,
                duration_ms,
                spent: spent(&evidence.events),
                failures: performed.failures,
                ..RunReport::default()
            };
            judged(report, &world, located, &questions)
        }
    };
    world.end();
    world.forget();
    report
}

/// What is asked about a run. Where the steps broke off there is nothing to judge, and the run has failed.
fn questions(located: &Located, performed: &Performed, evidence: &Evidence<'_>) -> Vec<Question> {
    let case = &located.case;
    if performed.count < case.steps.len() {
        return Vec::new();
    }
    let calls = calls(&evidence.events, &evidence.conversations);
    let turns: Vec<(usize, Value)> = performed
        .answers
        .iter()
        .map(|(index, view)| (*index, exchange(located, *index, view, &calls)))
        .collect();
    let of_steps = turns.iter().filter_map(|(index, turn)| {
        let step = &case.steps[*index];
        let criteria = step.judge.clone()?;
        let check = judge_place(&step_place(*index, step.action.name()));
        Some(Question {
            check,
            criteria,
            conversation: Value::Array(vec![turn.clone()]),
        })
    });
    let whole: Value = turns.iter().map(|(_, turn)| turn.clone()).collect();
    let of_outcome = case
        .expect
        .judge
        .iter()
        .enumerate()
        .map(|(index, criteria)| Question {
            check: outcome_judge_place(index),
            criteria: criteria.clone(),
            conversation: whole.clone(),
        });
    of_steps.chain(of_outcome).collect()
}

/// What was said, what was called and what was answered, as the judge sees it.
fn exchange(located: &Located, index: usize, view: &Value, calls: &[Called]) -> Value {
    let Action::Send(send) = &located.case.steps[index].action else {
        return Value::Null;
    };
    let of_turn = calls
        .iter()
        .filter(|call| view.get("turnId").and_then(Value::as_str) == Some(&call.turn_id));
    let calls: Value = of_turn
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

/// `report` with what the judge says.
fn judged(
    report: RunReport,
    world: &World<'_>,
    located: &Located,
    questions: &[Question],
) -> RunReport {
    if questions.is_empty() {
        return report;
    }
    let refused = |message: String, mut report: RunReport| {
        report.failures.extend(
            questions
                .iter()
                .map(|question| Failure::new(question.check.clone(), message.clone())),
        );
        report
    };
    let Some(live) = &world.live else {
        return report;
    };
    let folder = match world.another_project(located, "judge") {
        Ok(folder) => folder,
        Err(message) => return refused(message, report),
    };
    let (project, state) = (folder.join("project"), folder.join("state"));
    let judge = Judge {
        project: &project,
        state,
        model: live.judge.as_deref(),
        scripts: Arc::clone(&live.scripts),
        environment: world.environment(),
    };
    let (verdicts, spent) = alone(judge.ask(questions));
    let mut report = RunReport {
        judge: spent,
        ..report
    };
    for (question, verdict) in questions.iter().zip(verdicts) {
        let failed = match &verdict {
            Ok(verdict) if verdict.passed => None,
            Ok(verdict) => Some(format!("the judge says no: {}", verdict.reason)),
            Err(message) => Some(message.clone()),
        };
        report
            .failures
            .extend(failed.map(|message| Failure::new(question.check.clone(), message)));
        report.verdicts.extend(verdict);
    }
    report
}
