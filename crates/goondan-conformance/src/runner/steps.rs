//! Performs the steps of a case, one after another.

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use goondan::event::TurnResult;
use goondan::swarm::SendError;
use goondan::{Input, ReloadOutcome, StartError, Swarm};
use serde_json::{Value, json};

use super::cluster::Broken;
use super::life::{Life, OutOfTime};
use super::world::World;
use super::{substitute, view};
use crate::case::step::{Await, AwaitReload, Call, Connect, OneNode, Partition, Send, SomeNode};
use crate::case::{Action, Step};
use crate::live::step_place;
use crate::matcher::Matcher;
use crate::report::Failure;

/// What came of the steps.
#[derive(Debug, Default)]
pub(super) struct Performed {
    /// What was not as expected.
    pub(super) failures: Vec<Failure>,
    /// How many steps were performed.
    pub(super) count: usize,
    /// What the `send` steps that waited were answered, by step.
    pub(super) answers: Vec<(usize, Value)>,
    /// How long they took.
    pub(super) duration: Duration,
}

/// Performs all steps. A step that can't be done ends the case; an expectation that fails does not.
pub(super) fn perform(world: &mut World<'_>) -> Performed {
    let (begun, mut performed) = (Instant::now(), Performed::default());
    let case = world.case;
    for (index, step) in case.steps.iter().enumerate() {
        let place = step_place(index, step.action.name());
        let view = match perform_one(world, step) {
            Ok(view) => view,
            Err(message) => {
                performed.failures.push(Failure::new(place, message));
                break;
            }
        };
        performed.count += 1;
        if let Some(view) = view {
            performed.failures.extend(judge(world, step, &place, &view));
            if matches!(&step.action, Action::Send(send) if send.wait) {
                performed.answers.push((index, view));
            }
        }
    }
    performed.duration = begun.elapsed();
    performed
}

fn perform_one(world: &mut World<'_>, step: &Step) -> Result<Option<Value>, Broken> {
    match &step.action {
        Action::Send(send) => self::send(world, send, step.expect.is_some()).map(Some),
        Action::Call(call) => self::call(world, call).map(Some),
        Action::Connect(connect) => self::connect(world, connect).map(Some),
        Action::Reload => reload(world).map(Some),
        Action::AwaitReload(wanted) => await_reload(world, wanted).map(Some),
        Action::Write(path, content) => world
            .project
            .write(path, content)
            .map(|()| None)
            .map_err(|error| error.to_string()),
        Action::Replace(edit) => world
            .project
            .replace(&edit.path, &edit.old, &edit.new)
            .map(|()| None),
        Action::Remove(path) => world
            .project
            .remove(path)
            .map(|()| None)
            .map_err(|error| error.to_string()),
        Action::Approve(answer) => {
            world.answers.keep(answer.clone());
            Ok(None)
        }
        Action::Kill(SomeNode { node: Some(node) }) => world
            .trouble(|nodes, world| nodes.kill(world, nodes.number(node)?))
            .map(|()| None),
        Action::Kill(_) => {
            world.kill();
            Ok(None)
        }
        Action::Restart(SomeNode { node: Some(node) }) => world
            .trouble(|nodes, world| nodes.restart(world, nodes.number(node)?))
            .map(|()| None),
        Action::Restart(_) => restart(world).map(|()| None),
        Action::Pause(OneNode { node }) => world
            .trouble(|nodes, _| nodes.pause(nodes.number(node)?))
            .map(|()| None),
        Action::Resume(some) => resume(world, some).map(|()| None),
        Action::Partition(Partition { node, how, seconds }) => {
            let time = seconds.map(|seconds| Duration::from_secs(seconds.into()));
            world
                .trouble(|nodes, _| nodes.part(nodes.number(node)?, *how, time))
                .map(|()| None)
        }
        Action::Heal(some) => heal(world, some).map(|()| None),
        Action::Await(wanted) => wait(world, wanted).map(|()| None),
        Action::Second => second(world).map(Some),
        Action::Advance(by) => {
            world
                .clock
                .advance(TimeDelta::seconds(i64::from(by.seconds)));
            Ok(None)
        }
    }
}

/// The node that is named, or all that stand still.
fn resume(world: &mut World<'_>, SomeNode { node }: &SomeNode) -> Result<(), Broken> {
    world.trouble(|nodes, world| {
        let numbers = node.as_ref().map_or_else(
            || Ok(nodes.paused()),
            |node| nodes.number(node).map(|one| vec![one]),
        )?;
        numbers
            .into_iter()
            .try_for_each(|number| nodes.resume(world, number))
    })
}

/// The node that is named, or all that are kept from their database.
fn heal(world: &mut World<'_>, SomeNode { node }: &SomeNode) -> Result<(), Broken> {
    world.trouble(|nodes, world| {
        let numbers = node.as_ref().map_or_else(
            || Ok(nodes.parted()),
            |node| nodes.number(node).map(|one| vec![one]),
        )?;
        numbers
            .into_iter()
            .try_for_each(|number| nodes.heal(world, number))
    })
}

fn judge(world: &World<'_>, step: &Step, place: &str, view: &Value) -> Vec<Failure> {
    let Some(expected) = &step.expect else {
        // A script says what it wants; of a live model, an answer is the least.
        let error = view.get("error").filter(|_| world.live.is_some());
        return error
            .map(|error| Failure::new(place, format!("it failed: {error}")))
            .into_iter()
            .collect();
    };
    let filled = substitute::value(&expected.to_value(), &world.saved)
        .and_then(|value| Matcher::parse(&value).map_err(|error| error.to_string()));
    match filled {
        Err(message) => vec![Failure::new(place, message)],
        Ok(matcher) => {
            Failure::of_mismatches(place, &otherwise(expected, view), matcher.check(Some(view)))
        }
    }
}

/// That what came is not what was expected, with the reason where a step failed that was not meant to.
fn otherwise(expected: &Matcher, view: &Value) -> String {
    let is_meant =
        matches!(expected, Matcher::Map(keys) if keys.iter().any(|(key, _)| key == "error"));
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

fn send(world: &mut World<'_>, send: &Send, may_be_refused: bool) -> Result<Value, Broken> {
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
        "the input is not accepted",
    )? {
        Err(refused) if may_be_refused => refusal(&refused),
        Err(refused) => {
            return Err(format!(
                "the input is refused: {} ({})",
                refused.message, refused.code
            ));
        }
        Ok(turn) if send.wait => {
            let event_id = turn.event_id.clone();
            let result: Option<TurnResult> =
                in_time(life.run(world, turn.result()), "the turn does not end")?;
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

fn call(world: &mut World<'_>, call: &Call) -> Result<Value, Broken> {
    let arguments = substitute::value(&call.args, &world.saved)?;
    let begun = Instant::now();
    let life = alive(world)?;
    let (agent, instance) = (call.agent.as_deref(), call.instance.as_deref());
    let swarm = led(world, life)?;
    let calling = swarm.call_tool(agent, instance, &call.tool, arguments);
    let view = match in_time(life.run(world, calling), "the call does not end")? {
        Ok(result) => view::tool_result(&result, millis(begun)),
        Err(refused) => refusal(&refused),
    };
    world.save(call.save_as.as_deref(), &view);
    Ok(view)
}

fn connect(world: &World<'_>, wanted: &Connect) -> Result<Value, Broken> {
    let life = alive(world)?;
    let swarm = led(world, life)?;
    let running = super::connect::connect(&swarm, wanted);
    in_time(
        life.run(world, running),
        "the connector has neither ended nor handed in so many events",
    )?
}

fn refusal(error: &SendError) -> Value {
    json!({"status": "error", "error": {"code": error.code, "message": error.message, "suggestion": error.suggestion}})
}

fn reload(world: &mut World<'_>) -> Result<Value, Broken> {
    let life = alive(world)?;
    let swarm = led(world, life)?;
    let outcome = in_time(life.run(world, swarm.reload()), "the reload does not end")?;
    // It was told as well, and nobody has to wait for it.
    in_time(
        life.run(world, life.next_reload(WITHIN_REACH)),
        "the reload is not told",
    )?;
    Ok(reload_view(world, &outcome))
}

/// What is told already comes at once.
const WITHIN_REACH: Duration = Duration::from_secs(1);

fn await_reload(world: &mut World<'_>, wanted: &AwaitReload) -> Result<Value, Broken> {
    if !world.case.watch {
        return Err("nothing reloads by itself here: the case needs `watch: true`".to_owned());
    }
    let life = alive(world)?;
    let within = Duration::from_millis(wanted.within_ms);
    match in_time(life.run(world, life.next_reload(within)), "no reload comes")? {
        Some(outcome) => Ok(reload_view(world, &outcome)),
        None => Err(format!("no reload within {} ms", wanted.within_ms)),
    }
}

fn reload_view(world: &mut World<'_>, outcome: &ReloadOutcome) -> Value {
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

fn restart(world: &mut World<'_>) -> Result<(), Broken> {
    world.end();
    world.start()?;
    match &world.life {
        Some(_) => Ok(()),
        None => Err(format!(
            "the swarm does not start again:{}",
            view::brief(&world.diagnostics)
        )),
    }
}

/// Starts a second runtime on the state of the first, and ends it again where that is possible.
fn second(world: &World<'_>) -> Result<Value, Broken> {
    let project = goondan::load(world.project.root());
    let Some(bundle) = project.bundle else {
        return Ok(json!({"ok": false, "diagnostics": view::diagnostics(&project.diagnostics)}));
    };
    Ok(
        match in_time(
            alive(world)?.second(world, bundle),
            "the second runtime does not start",
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

fn wait(world: &World<'_>, wanted: &Await) -> Result<(), Broken> {
    let life = alive(world)?;
    let agent = wanted.agent.as_deref();
    let waiting = world
        .events
        .wait(&wanted.event, agent, wanted.count, wanted.within());
    match in_time(life.run(world, waiting), "the events do not come")? {
        Ok(()) => Ok(()),
        Err(seen) => {
            let whose = agent
                .map(|agent| format!(" of {agent}"))
                .unwrap_or_default();
            let Await {
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

/// The types of everything that happened, for a message.
fn seen_types(world: &World<'_>) -> String {
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

fn alive<'w>(world: &'w World<'_>) -> Result<&'w Life, Broken> {
    world
        .life
        .as_ref()
        .ok_or_else(|| "the swarm did not start".to_owned())
}

fn led(world: &World<'_>, life: &Life) -> Result<Swarm, Broken> {
    in_time(life.swarm(world), "no node leads")
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
        let said = |expected: Value| otherwise(&Matcher::parse(&expected).unwrap(), &view);
        assert_eq!(
            said(json!({"status": "ok"})),
            "not as expected: it failed with E_X: no such file"
        );
        assert_eq!(said(json!({"error": {"code": "E_Y"}})), "not as expected");
    }
}
