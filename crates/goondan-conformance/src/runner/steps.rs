//! Performs the steps of a test case.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use goondan::event::TurnResult;
use goondan::start::swarm::SendError;
use goondan::{Input, ReloadOutcome, StartError, Swarm};
use serde_json::{Value, json};

use super::case_context::CaseContext;
use super::cluster::Broken;
use super::swarm_process::{OutOfTime, SwarmProcess};
use super::{substitute, view};
use crate::case::step::{
    AwaitEvents, AwaitReload, CallStep, ConnectStep, NodePartition, OneNode, SendStep, SomeNode,
};
use crate::case::{CaseStep, StepAction};
use crate::live::step_place;
use crate::matcher::ValueMatcher;
use crate::report::CheckFailure;

/// Result of the steps.
#[derive(Debug, Default)]
pub(super) struct StepResults {
    /// Failed expectations.
    pub(super) failures: Vec<CheckFailure>,
    /// Number of steps performed.
    pub(super) count: usize,
    /// Answers of the `send` steps that waited, by step index.
    pub(super) answers: Vec<(usize, Value)>,
    /// Duration of the steps.
    pub(super) duration: Duration,
}

/// Performs all steps. A step that cannot be performed ends the test case. A failed expectation
/// does not.
pub(super) fn perform(world: &mut CaseContext<'_>) -> StepResults {
    let (begun, mut performed) = (Instant::now(), StepResults::default());
    let case = world.case;
    for (index, step) in case.steps.iter().enumerate() {
        let place = step_place(index, step.action.name());
        let view = match perform_one(world, step) {
            Ok(view) => view,
            Err(message) => {
                performed.failures.push(CheckFailure::new(place, message));
                break;
            }
        };
        performed.count += 1;
        if let Some(view) = view {
            performed.failures.extend(judge(world, step, &place, &view));
            if matches!(&step.action, StepAction::Send(send) if send.wait) {
                performed.answers.push((index, view));
            }
        }
    }
    performed.duration = begun.elapsed();
    performed
}

fn perform_one(world: &mut CaseContext<'_>, step: &CaseStep) -> Result<Option<Value>, Broken> {
    match &step.action {
        StepAction::Send(send) => self::send(world, send, step.expect.is_some()).map(Some),
        StepAction::Call(call) => self::call(world, call).map(Some),
        StepAction::Connect(connect) => self::connect(world, connect).map(Some),
        StepAction::Reload => reload(world).map(Some),
        StepAction::AwaitReload(wanted) => await_reload(world, wanted).map(Some),
        StepAction::Write(path, content) => world
            .project
            .write(path, content)
            .map(|()| None)
            .map_err(|error| error.to_string()),
        StepAction::Replace(edit) => world
            .project
            .replace(&edit.path, &edit.old, &edit.new)
            .map(|()| None),
        StepAction::Remove(path) => world
            .project
            .remove(path)
            .map(|()| None)
            .map_err(|error| error.to_string()),
        StepAction::Approve(answer) => {
            world.answers.keep(answer.clone());
            Ok(None)
        }
        StepAction::Kill(SomeNode { node: Some(node) }) => world
            .with_cluster(|nodes, world| nodes.kill(world, nodes.number(node)?))
            .map(|()| None),
        StepAction::Kill(_) => {
            world.kill();
            Ok(None)
        }
        StepAction::Restart(SomeNode { node: Some(node) }) => world
            .with_cluster(|nodes, world| nodes.restart(world, nodes.number(node)?))
            .map(|()| None),
        StepAction::Restart(_) => restart(world).map(|()| None),
        StepAction::Pause(OneNode { node }) => world
            .with_cluster(|nodes, _| nodes.pause(nodes.number(node)?))
            .map(|()| None),
        StepAction::Resume(some) => resume(world, some).map(|()| None),
        StepAction::Partition(NodePartition { node, how, seconds }) => {
            let time = seconds.map(|seconds| Duration::from_secs(seconds.into()));
            world
                .with_cluster(|nodes, _| nodes.partition(nodes.number(node)?, *how, time))
                .map(|()| None)
        }
        StepAction::Heal(some) => heal(world, some).map(|()| None),
        StepAction::Await(wanted) => wait(world, wanted).map(|()| None),
        StepAction::Second => second(world).map(Some),
        StepAction::Advance(by) => {
            world
                .clock
                .advance(TimeDelta::seconds(i64::from(by.seconds)));
            Ok(None)
        }
    }
}

/// Resumes one node, or all suspended nodes.
fn resume(world: &mut CaseContext<'_>, SomeNode { node }: &SomeNode) -> Result<(), Broken> {
    world.with_cluster(|nodes, world| {
        let numbers = node.as_ref().map_or_else(
            || Ok(nodes.paused()),
            |node| nodes.number(node).map(|one| vec![one]),
        )?;
        numbers
            .into_iter()
            .try_for_each(|number| nodes.resume(world, number))
    })
}

/// Heals one node, or all nodes with a partition.
fn heal(world: &mut CaseContext<'_>, SomeNode { node }: &SomeNode) -> Result<(), Broken> {
    world.with_cluster(|nodes, world| {
        let numbers = node.as_ref().map_or_else(
            || Ok(nodes.partitioned()),
            |node| nodes.number(node).map(|one| vec![one]),
        )?;
        numbers
            .into_iter()
            .try_for_each(|number| nodes.heal(world, number))
    })
}

fn judge(world: &CaseContext<'_>, step: &CaseStep, place: &str, view: &Value) -> Vec<CheckFailure> {
    let Some(expected) = &step.expect else {
        // A script can expect an error, but a live model has to answer at least.
        let error = view.get("error").filter(|_| world.live.is_some());
        return error
            .map(|error| CheckFailure::new(place, format!("it failed: {error}")))
            .into_iter()
            .collect();
    };
    let filled = substitute::value(&expected.to_value(), &world.saved)
        .and_then(|value| ValueMatcher::parse(&value).map_err(|error| error.to_string()));
    match filled {
        Err(message) => vec![CheckFailure::new(place, message)],
        Ok(matcher) => CheckFailure::of_mismatches(
            place,
            &mismatch_message(expected, view),
            matcher.check(Some(view)),
        ),
    }
}

/// Returns the message of a mismatch. If the step failed unexpectedly, the message contains the
/// error.
fn mismatch_message(expected: &ValueMatcher, view: &Value) -> String {
    let is_meant =
        matches!(expected, ValueMatcher::Map(keys) if keys.iter().any(|(key, _)| key == "error"));
    match view
        .get("error")
        .filter(|error| !is_meant && !error.is_null())
    {
        None => "not as expected".to_owned(),
        Some(error) => {
            let word = |key| error.get(key).and_then(Value::as_str).unwrap_or_default();
            format!(
                "not as expected: it failed with {}: {}",
                word("code"),
                word("message")
            )
        }
    }
}

fn send(
    world: &mut CaseContext<'_>,
    send: &SendStep,
    may_be_refused: bool,
) -> Result<Value, Broken> {
    let text = substitute::text(&send.input, &world.saved)?;
    let (agent, instance_key) = (send.agent.clone(), send.instance.clone());
    let input = Input {
        text,
        agent,
        instance_key,
        ..Input::default()
    };
    let begun = Instant::now();
    let life = alive(world)?;
    let swarm = led(world, life)?;
    let view = match in_time(
        life.run(world, swarm.send(input)),
        "the input was not accepted",
    )? {
        Err(refused) if may_be_refused => refusal(&refused),
        Err(refused) => {
            return Err(format!(
                "the input was refused: {} ({})",
                refused.message, refused.code
            ));
        }
        Ok(turn) if send.wait => {
            let event_id = turn.event_id.clone();
            let result: Option<TurnResult> =
                in_time(life.run(world, turn.result()), "the turn did not end")?;
            let result = result.ok_or("the swarm ended before the turn did")?;
            let mut view = view::turn(&result, millis(begun));
            view["eventId"] = json!(event_id);
            view
        }
        Ok(turn) => json!({"accepted": true, "eventId": turn.event_id}),
    };
    world.save(send.save_as.as_deref(), &view);
    Ok(view)
}

fn call(world: &mut CaseContext<'_>, call: &CallStep) -> Result<Value, Broken> {
    let arguments = substitute::value(&call.args, &world.saved)?;
    let begun = Instant::now();
    let life = alive(world)?;
    let (agent, instance) = (call.agent.as_deref(), call.instance.as_deref());
    let swarm = led(world, life)?;
    let calling = swarm.call_tool(agent, instance, &call.tool, arguments);
    let view = match in_time(life.run(world, calling), "the call did not end")? {
        Ok(result) => view::tool_result(&result, millis(begun)),
        Err(refused) => refusal(&refused),
    };
    world.save(call.save_as.as_deref(), &view);
    Ok(view)
}

fn connect(world: &CaseContext<'_>, wanted: &ConnectStep) -> Result<Value, Broken> {
    let life = alive(world)?;
    let swarm = led(world, life)?;
    let running = super::connect::connect(&swarm, wanted);
    in_time(
        life.run(world, running),
        "the connector neither ended nor emitted `events` events",
    )?
}

fn refusal(error: &SendError) -> Value {
    json!({"status": "error", "error": {"code": error.code, "message": error.message, "suggestion": error.suggestion}})
}

fn reload(world: &mut CaseContext<'_>) -> Result<Value, Broken> {
    let life = alive(world)?;
    let swarm = led(world, life)?;
    let outcome = in_time(life.run(world, swarm.reload()), "the reload did not end")?;
    // The reload is also reported as an event, which no step has to wait for.
    in_time(
        life.run(world, life.next_reload(PENDING_EVENT_TIMEOUT)),
        "the reload event did not arrive",
    )?;
    Ok(reload_view(world, &outcome))
}

/// Time limit for an event that was already sent.
const PENDING_EVENT_TIMEOUT: Duration = Duration::from_secs(1);

fn await_reload(world: &mut CaseContext<'_>, wanted: &AwaitReload) -> Result<Value, Broken> {
    if !world.case.watch {
        return Err(
            "the swarm does not reload automatically: the case needs `watch: true`".to_owned(),
        );
    }
    let life = alive(world)?;
    let within = Duration::from_millis(wanted.within_ms);
    match in_time(
        life.run(world, life.next_reload(within)),
        "no reload happened",
    )? {
        Some(outcome) => Ok(reload_view(world, &outcome)),
        None => Err(format!("no reload within {} ms", wanted.within_ms)),
    }
}

fn reload_view(world: &mut CaseContext<'_>, outcome: &ReloadOutcome) -> Value {
    if outcome.result.is_ok() {
        world.reloaded();
    }
    let duration = outcome.timing.total_ms();
    match &outcome.result {
        Ok(generation) => json!({
            "ok": true, "generation": generation, "added": outcome.plan.added, "changed": outcome.plan.changed,
            "removed": outcome.plan.removed, "agents": outcome.plan.agents, "durationMs": duration,
        }),
        Err(diagnostics) => {
            json!({"ok": false, "diagnostics": view::diagnostics(diagnostics), "durationMs": duration})
        }
    }
}

fn restart(world: &mut CaseContext<'_>) -> Result<(), Broken> {
    world.end();
    world.start()?;
    match &world.life {
        Some(_) => Ok(()),
        None => Err(format!(
            "the swarm failed to start again:{}",
            view::brief(&world.diagnostics)
        )),
    }
}

/// Starts a second runtime on the state of the first, and ends it if it starts.
fn second(world: &CaseContext<'_>) -> Result<Value, Broken> {
    let project = goondan::load(world.project.root());
    let Some(bundle) = project.bundle else {
        return Ok(json!({"ok": false, "diagnostics": view::diagnostics(&project.diagnostics)}));
    };
    Ok(
        match in_time(
            alive(world)?.second(world, bundle),
            "the second runtime did not start",
        )? {
            Ok(()) => json!({"ok": true}),
            Err(StartError::Diagnostics(diagnostics)) => {
                json!({"ok": false, "diagnostics": view::diagnostics(&diagnostics)})
            }
            Err(error) => {
                json!({"ok": false, "error": {"message": error.to_string(), "suggestion": error.suggestion()}})
            }
        },
    )
}

fn wait(world: &CaseContext<'_>, wanted: &AwaitEvents) -> Result<(), Broken> {
    let life = alive(world)?;
    let agent = wanted.agent.as_deref();
    let waiting = world
        .events
        .wait(&wanted.event, agent, wanted.count, wanted.within());
    match in_time(life.run(world, waiting), "the events did not occur")? {
        Ok(()) => Ok(()),
        Err(seen) => {
            let whose = agent
                .map(|agent| format!(" of {agent}"))
                .unwrap_or_default();
            let AwaitEvents {
                event,
                count,
                within_ms,
                ..
            } = wanted;
            Err(format!(
                "{seen} of {count} `{event}`{whose} within {within_ms} ms; there were {}",
                seen_types(world)
            ))
        }
    }
}

/// Returns the types of all events so far, for a message.
fn seen_types(world: &CaseContext<'_>) -> String {
    let types: Vec<String> = world
        .events
        .all()
        .iter()
        .map(super::events::type_of)
        .collect();
    if types.is_empty() {
        "no events at all".to_owned()
    } else {
        types.join(", ")
    }
}

fn alive<'w>(world: &'w CaseContext<'_>) -> Result<&'w SwarmProcess, Broken> {
    world
        .life
        .as_ref()
        .ok_or_else(|| "the swarm did not start".to_owned())
}

fn led(world: &CaseContext<'_>, life: &SwarmProcess) -> Result<Swarm, Broken> {
    in_time(life.swarm(world), "there was no leader")
}

fn in_time<T>(done: Result<T, OutOfTime>, what: &str) -> Result<T, Broken> {
    done.map_err(|OutOfTime| format!("{what} within the case's time limit"))
}

fn millis(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_failed_says_why_unless_it_was_meant_to() {
        let view = json!({"status": "error", "error": {"code": "E_X", "message": "no such file"}});
        let said =
            |expected: Value| mismatch_message(&ValueMatcher::parse(&expected).unwrap(), &view);
        assert_eq!(
            said(json!({"status": "ok"})),
            "not as expected: it failed with E_X: no such file"
        );
        assert_eq!(said(json!({"error": {"code": "E_Y"}})), "not as expected");
    }
}
