//! Turns that the chosen inputs caused, and their steps, from the swarm's events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use goondan::event::{
    CRON_EVENT, FinishReason, RESPONSE_EVENT, RuntimeEvent, RuntimeEventKind as Kind,
};
use goondan::ids::{InstanceId, is_message_of};
use goondan::message::{Message, MessagePart, MessageRole, MessageSource};
use goondan::ports::model::ModelFinishReason;
use serde_json::{Map, Value, json};

use super::{RecordingError, turn_name};

/// Turns of a recorded test case.
#[derive(Debug)]
pub struct CaseHistory {
    instance: InstanceId,
    /// Turns in the order in which they began.
    turns: Vec<RecordedTurn>,
    /// Steps of these turns, in the order in which they began.
    pub(super) steps: Vec<RecordedStep>,
    events: Vec<RuntimeEvent>,
}

#[derive(Debug, Clone)]
pub(super) struct RecordedTurn {
    pub(super) id: String,
    pub(super) instance: InstanceId,
    /// Number of the input in the recorded conversation, from 1; none for a turn that another agent
    /// requested.
    pub(super) number: Option<usize>,
    pub(super) finish_reason: Option<FinishReason>,
    event_type: String,
    trace_id: String,
    is_asked_for: bool,
    failed: Option<String>,
}

/// A successful model call.
#[derive(Debug, Clone)]
pub(super) struct RecordedStep {
    pub(super) id: String,
    pub(super) turn_id: String,
    pub(super) instance: InstanceId,
    /// The reason why the answer is incomplete; none for a complete answer.
    pub(super) cut: Option<ModelFinishReason>,
}

impl CaseHistory {
    /// Selects turns of `instance` by number, from 1, and all turns that they caused. An empty list
    /// selects all turns. `events` are the events of the whole workspace.
    pub fn of(
        instance: &InstanceId,
        numbers: &[usize],
        mut events: Vec<RuntimeEvent>,
    ) -> Result<Self, RecordingError> {
        CaseHistory::sort(&mut events);
        let all_turns = number_turns(instance, &events);
        let count = all_turns
            .iter()
            .filter_map(|turn| turn.number)
            .max()
            .unwrap_or_default();
        if count == 0 {
            return recording_error(format!(
                "The events of {instance} are no longer stored, so its turns are unknown."
            ));
        }
        if let Some(number) = numbers.iter().find(|number| !(1..=count).contains(*number)) {
            return recording_error(format!(
                "{instance} has no turn {number}: its turns are 1 to {count}."
            ));
        }
        let is_chosen = |turn: &&RecordedTurn| {
            turn.number
                .is_some_and(|number| numbers.is_empty() || numbers.contains(&number))
        };
        let chosen: Vec<&RecordedTurn> = all_turns.iter().filter(is_chosen).collect();
        chosen.iter().try_for_each(|turn| is_an_input(turn))?;
        let traces: BTreeSet<&str> = chosen.iter().map(|turn| turn.trace_id.as_str()).collect();
        let caused: Vec<RecordedTurn> = all_turns
            .iter()
            .filter(|turn| traces.contains(turn.trace_id.as_str()))
            .cloned()
            .collect();
        caused.iter().try_for_each(is_playable)?;
        let ids: BTreeSet<&str> = caused.iter().map(|turn| turn.id.as_str()).collect();
        let steps = steps(&events, &ids)?;
        Ok(CaseHistory {
            instance: instance.clone(),
            turns: caused,
            steps,
            events,
        })
    }

    /// Sorts events of several instances by the order in which they occurred.
    pub fn sort(events: &mut [RuntimeEvent]) {
        events.sort_by_key(|event| (event.sequence, event.timestamp));
    }

    /// Returns the number of the turn that created a message, from 1. `events` must be sorted.
    pub fn number_of(
        instance: &InstanceId,
        message_id: &str,
        events: &[RuntimeEvent],
    ) -> Result<usize, RecordingError> {
        let mut turns = number_turns(instance, events).into_iter();
        let found = turns.find(|turn| turn.number.is_some() && is_message_of(message_id, &turn.id));
        found.and_then(|turn| turn.number).ok_or_else(|| {
            RecordingError(format!(
                "The events of the message's turn are not stored: the turn is too old, or belongs \
                    to the conversation that {instance} was forked from."
            ))
        })
    }

    /// Returns the recorded instance.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Returns all instances that had a turn.
    pub fn instances(&self) -> BTreeSet<InstanceId> {
        self.turns
            .iter()
            .map(|turn| turn.instance.clone())
            .collect()
    }

    /// Returns the turns that external inputs started.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &RecordedTurn> {
        self.turns
            .iter()
            .filter(|turn| turn.number.is_some() && turn.instance == self.instance)
    }

    /// Returns a recorded turn by its id; `None` if there is none.
    pub(super) fn turn(&self, id: &str) -> Option<&RecordedTurn> {
        self.turns.iter().find(|turn| turn.id == id)
    }

    /// Returns the calls, by step and id, that started turns of other agents.
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

    /// Returns the user's answers to approval requests in an input's trace, as steps of a test
    /// case.
    pub(super) fn approvals(&self, input: &RecordedTurn) -> impl Iterator<Item = Value> {
        let chain_events = self
            .events
            .iter()
            .filter(|event| event.trace.trace_id == input.trace_id);
        chain_events.filter_map(|event| match &event.kind {
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

/// Returns the error for a conversation that cannot be recorded.
fn recording_error<T>(message: impl Into<String>) -> Result<T, RecordingError> {
    Err(RecordingError(message.into()))
}

/// Returns all turns; turns of `instance` have their numbers.
fn number_turns(instance: &InstanceId, events: &[RuntimeEvent]) -> Vec<RecordedTurn> {
    let mut numbered_turns = turns(events);
    for (before, turn) in numbered_turns
        .iter_mut()
        .filter(|turn| turn.instance == *instance)
        .enumerate()
    {
        turn.number = Some(before + 1);
    }
    numbered_turns
}

/// Returns all turns in the order in which they began. A resumed turn counts once.
fn turns(events: &[RuntimeEvent]) -> Vec<RecordedTurn> {
    let mut turns: Vec<RecordedTurn> = Vec::new();
    let mut indexes: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        match &event.kind {
            Kind::TurnStarted {
                turn_id,
                event_type,
                ..
            } if !indexes.contains_key(turn_id) => {
                indexes.insert(turn_id.clone(), turns.len());
                turns.push(RecordedTurn {
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
                if let Some(index) = indexes.get(turn_id) {
                    turns[*index].finish_reason = Some(*finish_reason);
                }
            }
            Kind::TurnFailed {
                turn_id,
                error_message,
                ..
            } => {
                if let Some(index) = indexes.get(turn_id) {
                    turns[*index].failed = Some(error_message.clone());
                }
            }
            _ => {}
        }
    }
    turns
}

/// Fails if a test case cannot send the input that started the turn.
fn is_an_input(turn: &RecordedTurn) -> Result<(), RecordingError> {
    if turn.is_asked_for {
        return recording_error(format!(
            "{} was requested by another agent: record the conversation of that agent.",
            capitalize_first(&turn_name(turn))
        ));
    }
    match turn.event_type.as_str() {
        CRON_EVENT => recording_error(format!(
            "{} was started by a schedule, but a case can only send inputs.",
            capitalize_first(&turn_name(turn))
        )),
        _ => Ok(()),
    }
}

/// Fails if the turn cannot be reproduced.
fn is_playable(turn: &RecordedTurn) -> Result<(), RecordingError> {
    let name = capitalize_first(&turn_name(turn));
    if let Some(error) = &turn.failed {
        return recording_error(format!(
            "{name} failed, and the conversation does not contain the cause: {error}"
        ));
    }
    if turn.event_type == RESPONSE_EVENT {
        return recording_error(format!(
            "{name} received the answer to an asynchronous request, which arrives at an \
                unpredictable time."
        ));
    }
    match turn.finish_reason {
        Some(FinishReason::TextResponse | FinishReason::MaxSteps) => Ok(()),
        Some(_) => recording_error(format!("{name} was cancelled.")),
        None => recording_error(format!("{name} is not over.")),
    }
}

/// Returns the steps of the turns. Fails for model calls outside of steps, whose answers are not
/// stored.
fn steps(
    events: &[RuntimeEvent],
    turns: &BTreeSet<&str>,
) -> Result<Vec<RecordedStep>, RecordingError> {
    let mut steps: Vec<RecordedStep> = Vec::new();
    let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        match &event.kind {
            // A resumed turn begins its steps again.
            Kind::StepStarted {
                step_id, turn_id, ..
            } if turns.contains(turn_id.as_str())
                && !steps.iter().any(|step| step.id == *step_id) =>
            {
                steps.push(RecordedStep {
                    id: step_id.clone(),
                    turn_id: turn_id.clone(),
                    instance: event.instance(),
                    cut: None,
                });
            }
            Kind::ModelCompleted { turn_id, call } if turns.contains(turn_id.as_str()) => {
                let Some(step) = &call.step_id else {
                    return recording_error(format!(
                        "An extension called a model outside the conversation of {}, and the \
                            answer is not stored.",
                        event.instance()
                    ));
                };
                let answers = answers.entry(step).or_default();
                *answers += 1;
                if *answers > 1 {
                    return recording_error(format!(
                        "A step of {} called its model more than once, and not all answers are \
                            stored.",
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

/// Returns the text of the input that started a turn.
pub(super) fn input_of(
    turn: &RecordedTurn,
    messages: &[Arc<Message>],
) -> Result<String, RecordingError> {
    let is_input = |message: &&Arc<Message>| {
        message.data.role == MessageRole::User
            && message.source == MessageSource::User
            && is_message_of(&message.id, &turn.id)
    };
    let mut inputs = messages.iter().filter(is_input);
    let Some(input) = inputs.next() else {
        return recording_error(format!(
            "The input of {} is no longer part of the conversation.",
            turn_name(turn)
        ));
    };
    if inputs.next().is_some() {
        return recording_error(format!(
            "An answer joined {} while it ran, which happens at an unpredictable time.",
            turn_name(turn)
        ));
    }
    refuse_files(turn, input)?;
    Ok(input.text())
}

/// Returns the text of a turn's answer.
pub(super) fn answer_of(
    turn: &RecordedTurn,
    messages: &[Arc<Message>],
) -> Result<String, RecordingError> {
    let is_answer = |message: &&Arc<Message>| {
        message.data.role == MessageRole::Assistant && is_message_of(&message.id, &turn.id)
    };
    match messages.iter().rev().find(is_answer) {
        Some(answer) => Ok(answer.text()),
        None => recording_error(format!(
            "The answer of {} is no longer part of the conversation.",
            turn_name(turn)
        )),
    }
}

/// Fails for attachments, which a test case cannot contain.
pub(super) fn refuse_files(turn: &RecordedTurn, message: &Message) -> Result<(), RecordingError> {
    if message
        .data
        .content
        .iter()
        .any(|part| matches!(part, MessagePart::File(_)))
    {
        recording_error(format!(
            "A message of {} has an attachment, which a case can't contain.",
            turn_name(turn)
        ))
    } else {
        Ok(())
    }
}

/// Returns the text with its first letter in upper case.
fn capitalize_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
