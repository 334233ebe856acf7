//! Which turns the chosen inputs have caused, and what happened in them, by the events of the swarm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use goondan::event::{FIRED, FinishReason, RESPONSE, RuntimeEvent, RuntimeEventKind as Kind};
use goondan::ids::{InstanceId, is_message_of};
use goondan::message::{Message, MessageSource, Part, Role};
use goondan::ports::model::ModelFinishReason;
use serde_json::{Map, Value, json};

use super::{Unrecordable, named};

/// The turns that a case is made of.
#[derive(Debug)]
pub struct History {
    instance: InstanceId,
    /// In the order in which they began.
    turns: Vec<Turn>,
    /// The steps of these turns, in the order in which they began.
    pub(super) steps: Vec<Step>,
    events: Vec<RuntimeEvent>,
}

/// One turn.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) instance: InstanceId,
    /// Which input of the recorded conversation began it, from 1; none for a turn that another agent has asked for.
    pub(super) number: Option<usize>,
    pub(super) finish_reason: Option<FinishReason>,
    event_type: String,
    trace_id: String,
    is_asked_for: bool,
    failed: Option<String>,
}

/// One question to a model that was answered.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) turn_id: String,
    pub(super) instance: InstanceId,
    /// The reason why the answer is incomplete; none for a complete answer.
    pub(super) cut: Option<ModelFinishReason>,
}

impl History {
    /// The turns of `instance` with those numbers (from 1; all of them where there are none), and all that they have caused, from
    /// the events of the whole workspace.
    pub fn of(
        instance: &InstanceId,
        numbers: &[usize],
        mut events: Vec<RuntimeEvent>,
    ) -> Result<Self, Unrecordable> {
        History::sort(&mut events);
        let all = numbered(instance, &events);
        let count = all
            .iter()
            .filter_map(|turn| turn.number)
            .max()
            .unwrap_or_default();
        if count == 0 {
            return refuse(format!(
                "The events of {instance} are not kept any more, so it is not known what its turns were."
            ));
        }
        if let Some(number) = numbers.iter().find(|number| !(1..=count).contains(*number)) {
            return refuse(format!(
                "{instance} has no turn {number}: it has {count}, from 1 on."
            ));
        }
        let is_chosen = |turn: &&Turn| {
            turn.number
                .is_some_and(|number| numbers.is_empty() || numbers.contains(&number))
        };
        let chosen: Vec<&Turn> = all.iter().filter(is_chosen).collect();
        chosen.iter().try_for_each(|turn| is_an_input(turn))?;
        let traces: BTreeSet<&str> = chosen.iter().map(|turn| turn.trace_id.as_str()).collect();
        let caused: Vec<Turn> = all
            .iter()
            .filter(|turn| traces.contains(turn.trace_id.as_str()))
            .cloned()
            .collect();
        caused.iter().try_for_each(is_playable)?;
        let ids: BTreeSet<&str> = caused.iter().map(|turn| turn.id.as_str()).collect();
        let steps = steps(&events, &ids)?;
        Ok(History {
            instance: instance.clone(),
            turns: caused,
            steps,
            events,
        })
    }

    /// Puts events of several instances in the order in which they happened.
    pub fn sort(events: &mut [RuntimeEvent]) {
        events.sort_by_key(|event| (event.sequence, event.timestamp));
    }

    /// The number of the turn in which a message came about, from 1. The events are in their order.
    pub fn number_of(
        instance: &InstanceId,
        message_id: &str,
        events: &[RuntimeEvent],
    ) -> Result<usize, Unrecordable> {
        let mut turns = numbered(instance, events).into_iter();
        let found = turns.find(|turn| turn.number.is_some() && is_message_of(message_id, &turn.id));
        found.and_then(|turn| turn.number).ok_or_else(|| {
            Unrecordable(format!(
                "The events of the turn of that message are not kept: its turn is too long ago, or belongs to the \
                 conversation that {instance} was made of."
            ))
        })
    }

    /// Whose conversation it is.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Every instance that had a turn.
    pub fn instances(&self) -> BTreeSet<InstanceId> {
        self.turns
            .iter()
            .map(|turn| turn.instance.clone())
            .collect()
    }

    /// The turns that inputs from outside began.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &Turn> {
        self.turns
            .iter()
            .filter(|turn| turn.number.is_some() && turn.instance == self.instance)
    }

    /// The turn of that id.
    pub(super) fn turn(&self, id: &str) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.id == id)
    }

    /// The calls, by step and id, that other agents' turns came of.
    pub(super) fn asking_calls(&self) -> BTreeSet<(&str, &str)> {
        let parents: BTreeSet<&str> = self
            .events
            .iter()
            .filter(|event| matches!(event.kind, Kind::TurnStarted { .. }))
            .filter_map(|event| event.trace.parent_span_id.as_deref())
            .collect();
        let asking = self
            .events
            .iter()
            .filter(|event| parents.contains(event.trace.span_id.as_str()));
        asking
            .filter_map(|event| match &event.kind {
                Kind::ToolCalled {
                    tool_call_id,
                    step_id,
                    ..
                } => Some((step_id.as_str(), tool_call_id.as_str())),
                _ => None,
            })
            .collect()
    }

    /// What a person answered in the chain of an input, as steps of a case have it.
    pub(super) fn approvals(&self, input: &Turn) -> impl Iterator<Item = Value> {
        let of_chain = self
            .events
            .iter()
            .filter(|event| event.trace.trace_id == input.trace_id);
        of_chain.filter_map(|event| match &event.kind {
            Kind::ApprovalResolved {
                tool_name,
                answer,
                scope,
                covers,
                ..
            } => {
                let answer = match (answer.as_str(), scope) {
                    ("deny", _) => json!("deny"),
                    (_, Some(scope)) => match json!(scope) {
                        Value::String(once) if once == "once" => json!("allow"),
                        other => other,
                    },
                    _ => return None,
                };
                let mut step = Map::from_iter([
                    ("tool".to_owned(), json!(tool_name)),
                    ("answer".to_owned(), answer),
                ]);
                if let Some(covers) = covers {
                    step.insert("covers".to_owned(), json!(covers));
                }
                Some(Value::Object(step))
            }
            _ => None,
        })
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Unrecordable> {
    Err(Unrecordable(message.into()))
}

/// Every turn, those of `instance` with their numbers.
fn numbered(instance: &InstanceId, events: &[RuntimeEvent]) -> Vec<Turn> {
    let mut all = turns(events);
    for (before, turn) in all
        .iter_mut()
        .filter(|turn| turn.instance == *instance)
        .enumerate()
    {
        turn.number = Some(before + 1);
    }
    all
}

/// Every turn, in the order in which they began. One that was resumed is one turn.
fn turns(events: &[RuntimeEvent]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        match &event.kind {
            Kind::TurnStarted {
                turn_id,
                event_type,
                ..
            } if !places.contains_key(turn_id) => {
                places.insert(turn_id.clone(), turns.len());
                turns.push(Turn {
                    id: turn_id.clone(),
                    instance: event.instance(),
                    number: None,
                    finish_reason: None,
                    event_type: event_type.clone(),
                    trace_id: event.trace.trace_id.clone(),
                    is_asked_for: event.trace.parent_span_id.is_some(),
                    failed: None,
                });
            }
            Kind::TurnCompleted {
                turn_id,
                finish_reason,
                ..
            } => {
                if let Some(place) = places.get(turn_id) {
                    turns[*place].finish_reason = Some(*finish_reason);
                }
            }
            Kind::TurnFailed {
                turn_id,
                error_message,
                ..
            } => {
                if let Some(place) = places.get(turn_id) {
                    turns[*place].failed = Some(error_message.clone());
                }
            }
            _ => {}
        }
    }
    turns
}

/// Whether a chosen turn began with an input that a case can send.
fn is_an_input(turn: &Turn) -> Result<(), Unrecordable> {
    if turn.is_asked_for {
        return refuse(format!(
            "{} was asked for by another agent: record the conversation in which that agent was asked.",
            capitalised(&named(turn))
        ));
    }
    match turn.event_type.as_str() {
        FIRED => refuse(format!(
            "{} was begun by a schedule, and a case sends inputs alone.",
            capitalised(&named(turn))
        )),
        _ => Ok(()),
    }
}

/// Whether what happened in a turn can happen again.
fn is_playable(turn: &Turn) -> Result<(), Unrecordable> {
    let name = capitalised(&named(turn));
    if let Some(error) = &turn.failed {
        return refuse(format!(
            "{name} failed, and why is not part of the conversation: {error}"
        ));
    }
    if turn.event_type == RESPONSE {
        return refuse(format!(
            "{name} took the answer to an asynchronous request, which comes at no certain time."
        ));
    }
    match turn.finish_reason {
        Some(FinishReason::TextResponse | FinishReason::MaxSteps) => Ok(()),
        Some(_) => refuse(format!("{name} was cancelled.")),
        None => refuse(format!("{name} is not over.")),
    }
}

/// The steps of those turns. Models that were asked otherwise than by one step each have answers that nobody keeps.
fn steps(events: &[RuntimeEvent], turns: &BTreeSet<&str>) -> Result<Vec<Step>, Unrecordable> {
    let mut steps: Vec<Step> = Vec::new();
    let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        match &event.kind {
            // A turn that is resumed begins its steps again.
            Kind::StepStarted {
                step_id, turn_id, ..
            } if turns.contains(turn_id.as_str())
                && !steps.iter().any(|step| step.id == *step_id) =>
            {
                steps.push(Step {
                    id: step_id.clone(),
                    turn_id: turn_id.clone(),
                    instance: event.instance(),
                    cut: None,
                });
            }
            Kind::ModelCompleted { turn_id, call } if turns.contains(turn_id.as_str()) => {
                let Some(step) = &call.step_id else {
                    return refuse(format!(
                        "A model was asked beside the conversation of {}, as extensions do, and its answer is not kept.",
                        event.instance()
                    ));
                };
                let answers = answers.entry(step).or_default();
                *answers += 1;
                if *answers > 1 {
                    return refuse(format!(
                        "A step of {} asked its model more than once, and not all of the answers are kept.",
                        event.instance()
                    ));
                }
                let cut = call.finish_reason.clone();
                if let Some(known) = steps.iter_mut().find(|known| known.id == *step) {
                    known.cut = cut.filter(ModelFinishReason::is_cut);
                }
            }
            _ => {}
        }
    }
    Ok(steps)
}

/// The text that a turn began with.
pub(super) fn input_of(turn: &Turn, messages: &[Arc<Message>]) -> Result<String, Unrecordable> {
    let is_input = |message: &&Arc<Message>| {
        message.data.role == Role::User
            && message.source == MessageSource::User
            && is_message_of(&message.id, &turn.id)
    };
    let mut inputs = messages.iter().filter(is_input);
    let Some(input) = inputs.next() else {
        return refuse(format!(
            "The input of {} is not part of the conversation any more.",
            named(turn)
        ));
    };
    if inputs.next().is_some() {
        return refuse(format!(
            "An answer joined {} while it ran, which happens at no certain time.",
            named(turn)
        ));
    }
    no_files(turn, input)?;
    Ok(input.text())
}

/// The text of the answer of a turn.
pub(super) fn answer_of(turn: &Turn, messages: &[Arc<Message>]) -> Result<String, Unrecordable> {
    let is_answer = |message: &&Arc<Message>| {
        message.data.role == Role::Assistant && is_message_of(&message.id, &turn.id)
    };
    match messages.iter().rev().find(is_answer) {
        Some(answer) => Ok(answer.text()),
        None => refuse(format!(
            "The answer of {} is not part of the conversation any more.",
            named(turn)
        )),
    }
}

/// Files can't be said in a case.
pub(super) fn no_files(turn: &Turn, message: &Message) -> Result<(), Unrecordable> {
    match message
        .data
        .content
        .iter()
        .any(|part| matches!(part, Part::File(_)))
    {
        true => refuse(format!(
            "A message of {} has an attachment, which a case can't hold.",
            named(turn)
        )),
        false => Ok(()),
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
