//! Performs the steps of a test case.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use goondan::event::{ConversationOperation, TurnResult};
use goondan::ids::InstanceId;
use goondan::start::swarm::SendError;
use goondan::{Input, ReloadOutcome, StartError, Swarm};
use serde_json::{Value, json};

use super::case_context::CaseContext;
use super::cluster::StepError;
use super::swarm_process::{OutOfTime, SwarmProcess};
use super::{substitute, view};
use crate::case::conversation::ConversationStep;
use crate::case::step::{
    AwaitEvents, AwaitReload, CallStep, ConnectStep, NodePartition, OneNode, SendStep, SomeNode,
};
use crate::case::{CaseStep, StepAction};
use crate::live::step_label;
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
pub(super) fn perform_all(context: &mut CaseContext<'_>) -> StepResults {
    let begun = Instant::now();
    let mut performed = StepResults::default();
    let case = context.case;
    for (index, step) in case.steps.iter().enumerate() {
        let place = step_label(index, step.action.name());
        let view = match perform_one(context, step) {
            Ok(view) => view,
            Err(message) => {
                performed.failures.push(CheckFailure::new(place, message));
                break;
            }
        };
        performed.count += 1;
        if let Some(view) = view {
            performed
                .failures
                .extend(check_result(context, step, &place, &view));
            if matches!(&step.action, StepAction::Send(send) if send.wait) {
                performed.answers.push((index, view));
            }
        }
    }
    performed.duration = begun.elapsed();
    performed
}

/// Performs a step and returns its result; `None` for an action without a result.
fn perform_one(context: &mut CaseContext<'_>, step: &CaseStep) -> Result<Option<Value>, StepError> {
    match &step.action {
        StepAction::Send(send) => self::send(context, send, step.expect.is_some()).map(Some),
        StepAction::Call(call) => self::call(context, call).map(Some),
        StepAction::Compact(one) => {
            run_operation(context, one, ConversationOperation::Compact).map(Some)
        }
        StepAction::Undo(one) => run_operation(context, one, ConversationOperation::Undo).map(Some),
        StepAction::Connect(connect) => self::connect(context, connect).map(Some),
        StepAction::Reload => reload_project(context).map(Some),
        StepAction::AwaitReload(wanted) => await_reload(context, wanted).map(Some),
        StepAction::Write(path, content) => context
            .project
            .write(path, content)
            .map(|()| None)
            .map_err(|error| error.to_string()),
        StepAction::Replace(edit) => context
            .project
            .replace(&edit.path, &edit.old, &edit.new)
            .map(|()| None),
        StepAction::Remove(path) => context
            .project
            .remove(path)
            .map(|()| None)
            .map_err(|error| error.to_string()),
        StepAction::Approve(answer) => {
            context.answers.add_answer(answer.clone());
            Ok(None)
        }
        StepAction::Kill(SomeNode { node: Some(node) }) => context
            .with_cluster(|nodes, context| nodes.kill(context, nodes.node_number(node)?))
            .map(|()| None),
        StepAction::Kill(_) => {
            context.kill_swarm();
            Ok(None)
        }
        StepAction::Restart(SomeNode { node: Some(node) }) => context
            .with_cluster(|nodes, context| nodes.restart(context, nodes.node_number(node)?))
            .map(|()| None),
        StepAction::Restart(_) => restart_swarm(context).map(|()| None),
        StepAction::Pause(OneNode { node }) => context
            .with_cluster(|nodes, _| nodes.pause(nodes.node_number(node)?))
            .map(|()| None),
        StepAction::Resume(some) => resume(context, some).map(|()| None),
        StepAction::Partition(partition) => {
            let time = partition.duration()?;
            let NodePartition { node, how, .. } = partition;
            context
                .with_cluster(|nodes, _| nodes.partition(nodes.node_number(node)?, *how, time))
                .map(|()| None)
        }
        StepAction::Heal(some) => heal_nodes(context, some).map(|()| None),
        StepAction::Await(wanted) => wait(context, wanted).map(|()| None),
        StepAction::Second => start_second_swarm(context).map(Some),
        StepAction::Advance(by) => {
            let duration =
                TimeDelta::from_std(by.duration()?).map_err(|error| error.to_string())?;
            context.clock.advance(duration);
            Ok(None)
        }
    }
}

/// Resumes one node, or all suspended nodes.
fn resume(context: &mut CaseContext<'_>, SomeNode { node }: &SomeNode) -> Result<(), StepError> {
    context.with_cluster(|nodes, context| {
        let numbers = node.as_ref().map_or_else(
            || Ok(nodes.paused_nodes()),
            |node| nodes.node_number(node).map(|one| vec![one]),
        )?;
        numbers
            .into_iter()
            .try_for_each(|number| nodes.resume(context, number))
    })
}

/// Heals one node, or all nodes with a partition.
fn heal_nodes(
    context: &mut CaseContext<'_>,
    SomeNode { node }: &SomeNode,
) -> Result<(), StepError> {
    context.with_cluster(|nodes, context| {
        let numbers = node.as_ref().map_or_else(
            || Ok(nodes.partitioned_nodes()),
            |node| nodes.node_number(node).map(|one| vec![one]),
        )?;
        numbers
            .into_iter()
            .try_for_each(|number| nodes.heal(context, number))
    })
}

/// Checks the result of a step. Without `expect`, a live run fails if the result is an error.
fn check_result(
    context: &CaseContext<'_>,
    step: &CaseStep,
    place: &str,
    view: &Value,
) -> Vec<CheckFailure> {
    let Some(expected) = &step.expect else {
        // A script can expect an error, but a live model has to answer at least.
        let error = view.get("error").filter(|_| context.live.is_some());
        return error
            .map(|error| CheckFailure::new(place, format!("it failed: {error}")))
            .into_iter()
            .collect();
    };
    let filled = substitute::value(&expected.to_value(), &context.saved)
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

/// Returns the message of a mismatch between the expected and the actual result (`view`) of a step.
/// If the step failed unexpectedly, the message contains the error.
fn mismatch_message(expected: &ValueMatcher, view: &Value) -> String {
    let expects_error = match expected {
        ValueMatcher::Map(fields) => fields.iter().any(|(field, _)| field == "error"),
        _ => false,
    };
    let error = view.get("error").unwrap_or(&Value::Null);
    if expects_error || error.is_null() {
        return "not as expected".to_owned();
    }
    let code = error.get("code").and_then(Value::as_str);
    let message = error.get("message").and_then(Value::as_str);
    format!(
        "not as expected: it failed with {}: {}",
        code.unwrap_or_default(),
        message.unwrap_or_default()
    )
}

/// Sends an input, and waits for the answer if the step requires one. With `may_be_refused`, a
/// refusal is a result instead of an error.
fn send(
    context: &mut CaseContext<'_>,
    send: &SendStep,
    may_be_refused: bool,
) -> Result<Value, StepError> {
    let text = substitute::text(&send.input, &context.saved)?;
    let (agent, instance_key) = (send.agent.clone(), send.instance_key.clone());
    let input = Input {
        text,
        agent,
        instance_key,
        delivery: send.delivery.into(),
        ..Input::default()
    };
    let begun = Instant::now();
    let process = running_process(context)?;
    let swarm = leader_swarm(context, process)?;
    let view = match describe_timeout(
        process.run(context, swarm.send(input)),
        "the input was not accepted",
    )? {
        Err(refused) if may_be_refused => rejection_result(&refused),
        Err(refused) => {
            return Err(format!(
                "the input was refused: {} ({})",
                refused.message, refused.code
            ));
        }
        Ok(turn) if send.wait => {
            let event_id = turn.event_id.clone();
            let result: Option<TurnResult> =
                describe_timeout(process.run(context, turn.result()), "the turn did not end")?;
            let result = result.ok_or("the swarm ended before the turn did")?;
            let mut view = view::turn(&result, elapsed_millis(begun));
            view["eventId"] = json!(event_id);
            view
        }
        Ok(turn) => json!({"accepted": true, "eventId": turn.event_id}),
    };
    context.save(send.save_as.as_deref(), &view);
    Ok(view)
}

/// Runs an operation on a conversation, and waits for its end.
fn run_operation(
    context: &mut CaseContext<'_>,
    one: &ConversationStep,
    operation: ConversationOperation,
) -> Result<Value, StepError> {
    let begun = Instant::now();
    let process = running_process(context)?;
    let swarm = leader_swarm(context, process)?;
    let agent = one.agent.clone().unwrap_or_else(|| swarm.entry_agent());
    let id = InstanceId::new(agent, one.instance_key.as_deref().unwrap_or("main"));
    let operation = async {
        match operation {
            ConversationOperation::Compact => swarm.compact(&id).await,
            ConversationOperation::Undo => swarm.undo(&id).await,
        }
    };
    match describe_timeout(
        process.run(context, operation),
        "the operation was not accepted",
    )? {
        Err(refused) => Ok(rejection_result(&refused)),
        Ok(turn) if !one.wait => Ok(json!({"accepted": true, "eventId": turn.event_id})),
        Ok(turn) => {
            let result: Option<TurnResult> = describe_timeout(
                process.run(context, turn.result()),
                "the operation did not end",
            )?;
            let result = result.ok_or("the swarm ended before the operation did")?;
            Ok(view::turn(&result, elapsed_millis(begun)))
        }
    }
}

/// Calls a tool directly, without a model.
fn call(context: &mut CaseContext<'_>, call: &CallStep) -> Result<Value, StepError> {
    let arguments = substitute::value(&call.args, &context.saved)?;
    let begun = Instant::now();
    let process = running_process(context)?;
    let (agent, instance) = (call.agent.as_deref(), call.instance_key.as_deref());
    let swarm = leader_swarm(context, process)?;
    let calling = swarm.call_tool(agent, instance, &call.tool, arguments);
    let view = match describe_timeout(process.run(context, calling), "the call did not end")? {
        Ok(result) => view::tool_result(&result, elapsed_millis(begun)),
        Err(refused) => rejection_result(&refused),
    };
    context.save(call.save_as.as_deref(), &view);
    Ok(view)
}

/// Runs a connector until it ends or has emitted enough events.
fn connect(context: &CaseContext<'_>, step: &ConnectStep) -> Result<Value, StepError> {
    let process = running_process(context)?;
    let swarm = leader_swarm(context, process)?;
    let running = super::connect::connect(&swarm, step);
    describe_timeout(
        process.run(context, running),
        "the connector neither ended nor emitted `events` events",
    )?
}

/// Converts a rejected input or call to the result of its step.
fn rejection_result(error: &SendError) -> Value {
    json!({"status": "error", "error": {"code": error.code, "message": error.message, "suggestion": error.suggestion}})
}

fn reload_project(context: &mut CaseContext<'_>) -> Result<Value, StepError> {
    let process = running_process(context)?;
    let swarm = leader_swarm(context, process)?;
    let outcome = describe_timeout(
        process.run(context, swarm.reload()),
        "the reload did not end",
    )?;
    // The reload is also reported as an event, which no step has to wait for.
    describe_timeout(
        process.run(context, process.next_reload(PENDING_EVENT_TIMEOUT)),
        "the reload event did not arrive",
    )?;
    Ok(reload_view(context, &outcome))
}

/// Maximum time to receive an event that was already sent.
const PENDING_EVENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits for an automatic reload. Fails if none happens in time.
fn await_reload(context: &mut CaseContext<'_>, step: &AwaitReload) -> Result<Value, StepError> {
    if !context.case.watch {
        return Err(
            "the swarm does not reload automatically: the case needs `watch: true`".to_owned(),
        );
    }
    let process = running_process(context)?;
    let limit = step.limit()?;
    match describe_timeout(
        process.run(context, process.next_reload(limit)),
        "no reload happened",
    )? {
        Some(outcome) => Ok(reload_view(context, &outcome)),
        None => Err(format!("no reload within {} ms", limit.as_millis())),
    }
}

/// Converts a reload to the result of its step.
fn reload_view(context: &mut CaseContext<'_>, outcome: &ReloadOutcome) -> Value {
    if outcome.result.is_ok() {
        context.refresh_workdirs();
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
fn restart_swarm(context: &mut CaseContext<'_>) -> Result<(), StepError> {
    context.end();
    context.start()?;
    match &context.process {
        Some(_) => Ok(()),
        None => Err(format!(
            "the swarm failed to start again:{}",
            view::diagnostics_text(&context.diagnostics)
        )),
    }
}

/// Starts a second runtime on the state of the first, and ends it if it starts.
fn start_second_swarm(context: &CaseContext<'_>) -> Result<Value, StepError> {
    let project = goondan::load(context.project.root());
    let Some(bundle) = project.bundle else {
        return Ok(json!({"ok": false, "diagnostics": view::diagnostics(&project.diagnostics)}));
    };
    Ok(
        match describe_timeout(
            running_process(context)?.start_second_swarm(context, bundle),
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
fn wait(context: &CaseContext<'_>, step: &AwaitEvents) -> Result<(), StepError> {
    let process = running_process(context)?;
    let agent = step.agent.as_deref();
    let limit = step.limit()?;
    let waiting = context.events.wait(&step.event, agent, step.count, limit);
    match describe_timeout(process.run(context, waiting), "the events did not occur")? {
        Ok(()) => Ok(()),
        Err(seen) => {
            let agent_suffix = agent
                .map(|agent| format!(" of {agent}"))
                .unwrap_or_default();
            let AwaitEvents { event, count, .. } = step;
            Err(format!(
                "{seen} of {count} `{event}`{agent_suffix} within {} ms; there were {}",
                limit.as_millis(),
                seen_types(context)
            ))
        }
    }
}

/// Returns the types of all events so far, for a message.
fn seen_types(context: &CaseContext<'_>) -> String {
    let types: Vec<String> = context
        .events
        .to_vec()
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
fn running_process<'w>(context: &'w CaseContext<'_>) -> Result<&'w SwarmProcess, StepError> {
    context
        .process
        .as_ref()
        .ok_or_else(|| "the swarm did not start".to_owned())
}

/// Returns the swarm of the leader; waits until there is one.
fn leader_swarm(context: &CaseContext<'_>, process: &SwarmProcess) -> Result<Swarm, StepError> {
    describe_timeout(process.swarm(context), "there was no leader")
}

/// Converts the end of the time limit to an error that names what did not happen.
fn describe_timeout<T>(done: Result<T, OutOfTime>, what: &str) -> Result<T, StepError> {
    done.map_err(|OutOfTime| format!("{what} within the case's time limit"))
}

fn elapsed_millis(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_message_shows_an_unexpected_step_error() {
        let view = json!({"status": "error", "error": {"code": "E_X", "message": "no such file"}});
        let message =
            |expected: Value| mismatch_message(&ValueMatcher::parse(&expected).unwrap(), &view);
        assert_eq!(
            message(json!({"status": "ok"})),
            "not as expected: it failed with E_X: no such file"
        );
        assert_eq!(
            message(json!({"error": {"code": "E_Y"}})),
            "not as expected"
        );
    }
}
