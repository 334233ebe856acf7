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

/// Performs a step and returns its result; `None` for an action without a result.
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
        StepAction::Partition(partition) => {
            let time = partition.duration()?;
            let NodePartition { node, how, .. } = partition;
            world
                .with_cluster(|nodes, _| nodes.partition(nodes.number(node)?, *how, time))
                .map(|()| None)
        }
        StepAction::Heal(some) => heal(world, some).map(|()| None),
        StepAction::Await(wanted) => wait(world, wanted).map(|()| None),
        StepAction::Second => second(world).map(Some),
        StepAction::Advance(by) => {
            let duration =
                TimeDelta::from_std(by.duration()?).map_err(|error| error.to_string())?;
            world.clock.advance(duration);
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

/// Checks the result of a step. Without `expect`, a live run fails if the result is an error.
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

/// Sends an input, and waits for the answer if the step says so. `may_be_refused`: a refusal is a
/// result, not an error.
fn send(
    world: &mut CaseContext<'_>,
    send: &SendStep,
    may_be_refused: bool,
) -> Result<Value, Broken> {
    let text = substitute::text(&send.input, &world.saved)?;
    let (agent, instance_key) = (send.agent.clone(), send.instance_key.clone());
    let input = Input {
        text,
        agent,
        instance_key,
        ..Input::default()
    };
    let begun = Instant::now();
    let process = running_process(world)?;
    let swarm = leader_swarm(world, process)?;
    let view = match in_time(
        process.run(world, swarm.send(input)),
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
                in_time(process.run(world, turn.result()), "the turn did not end")?;
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

/// Calls a tool directly, without a model.
fn call(world: &mut CaseContext<'_>, call: &CallStep) -> Result<Value, Broken> {
    let arguments = substitute::value(&call.args, &world.saved)?;
    let begun = Instant::now();
    let process = running_process(world)?;
    let (agent, instance) = (call.agent.as_deref(), call.instance_key.as_deref());
    let swarm = leader_swarm(world, process)?;
    let calling = swarm.call_tool(agent, instance, &call.tool, arguments);
    let view = match in_time(process.run(world, calling), "the call did not end")? {
        Ok(result) => view::tool_result(&result, millis(begun)),
        Err(refused) => refusal(&refused),
    };
    world.save(call.save_as.as_deref(), &view);
    Ok(view)
}

/// Runs a connector until it ends or has emitted enough events.
fn connect(world: &CaseContext<'_>, step: &ConnectStep) -> Result<Value, Broken> {
    let process = running_process(world)?;
    let swarm = leader_swarm(world, process)?;
    let running = super::connect::connect(&swarm, step);
    in_time(
        process.run(world, running),
        "the connector neither ended nor emitted `events` events",
    )?
}

/// Converts a rejected input or call to the result of its step.
fn refusal(error: &SendError) -> Value {
    json!({"status": "error", "error": {"code": error.code, "message": error.message, "suggestion": error.suggestion}})
}

/// Reloads the project and returns the result.
fn reload(world: &mut CaseContext<'_>) -> Result<Value, Broken> {
    let process = running_process(world)?;
    let swarm = leader_swarm(world, process)?;
    let outcome = in_time(process.run(world, swarm.reload()), "the reload did not end")?;
    // The reload is also reported as an event, which no step has to wait for.
    in_time(
        process.run(world, process.next_reload(PENDING_EVENT_TIMEOUT)),
        "the reload event did not arrive",
    )?;
    Ok(reload_view(world, &outcome))
}

/// Time limit for an event that was already sent.
const PENDING_EVENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits for an automatic reload. Fails if none happens in time.
fn await_reload(world: &mut CaseContext<'_>, step: &AwaitReload) -> Result<Value, Broken> {
    if !world.case.watch {
        return Err(
            "the swarm does not reload automatically: the case needs `watch: true`".to_owned(),
        );
    }
    let process = running_process(world)?;
    let within = step.limit()?;
    match in_time(
        process.run(world, process.next_reload(within)),
        "no reload happened",
    )? {
        Some(outcome) => Ok(reload_view(world, &outcome)),
        None => Err(format!("no reload within {} ms", within.as_millis())),
    }
}

/// Converts a reload to the result of its step.
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

/// Shuts the swarm down and starts it again. Fails if the bundle has errors.
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
            running_process(world)?.second(world, bundle),
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

/// Waits until the events have occurred. Fails if they do not occur in time.
fn wait(world: &CaseContext<'_>, step: &AwaitEvents) -> Result<(), Broken> {
    let process = running_process(world)?;
    let agent = step.agent.as_deref();
    let within = step.limit()?;
    let waiting = world.events.wait(&step.event, agent, step.count, within);
    match in_time(process.run(world, waiting), "the events did not occur")? {
        Ok(()) => Ok(()),
        Err(seen) => {
            let of_agent = agent
                .map(|agent| format!(" of {agent}"))
                .unwrap_or_default();
            let AwaitEvents { event, count, .. } = step;
            Err(format!(
                "{seen} of {count} `{event}`{of_agent} within {} ms; there were {}",
                within.as_millis(),
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

/// Returns the running swarm process. Fails if the swarm did not start.
fn running_process<'w>(world: &'w CaseContext<'_>) -> Result<&'w SwarmProcess, Broken> {
    world
        .life
        .as_ref()
        .ok_or_else(|| "the swarm did not start".to_owned())
}

/// Returns the swarm of the leader; waits until there is one.
fn leader_swarm(world: &CaseContext<'_>, process: &SwarmProcess) -> Result<Swarm, Broken> {
    in_time(process.swarm(world), "there was no leader")
}

/// Converts the end of the time limit to an error that names what did not happen.
fn in_time<T>(done: Result<T, OutOfTime>, what: &str) -> Result<T, Broken> {
    done.map_err(|OutOfTime| format!("{what} within the case's time limit"))
}

/// Returns the elapsed milliseconds.
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
