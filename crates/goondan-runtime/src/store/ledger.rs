//! What a row of inbox records comes to. Pure.

use std::borrow::Cow;
use std::collections::HashMap;

use super::handled::{Handled, size_of};
use crate::event::TurnResult;
use crate::ids::InstanceId;
use crate::inbound::AgentEvent;
use crate::ports::store::{HandledEvent, InboxRecord, Recovered};

/// Which records of an inbox still matter: those of pending events and of events that were handled lately. Records are
/// known by their place in the row.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pending: HashMap<String, Pending>,
    /// How many events each instance has pending.
    waiting: HashMap<InstanceId, usize>,
    handled: Handled<usize>,
}

#[derive(Debug)]
struct Pending {
    record: usize,
    target: InstanceId,
    asked_by: Option<InstanceId>,
}

impl Ledger {
    /// The state after `records`.
    pub(super) fn of<'a>(records: impl Iterator<Item = &'a InboxRecord>) -> Self {
        let mut ledger = Ledger::default();
        for (place, record) in records.enumerate() {
            ledger.apply(place, record);
        }
        ledger
    }

    fn apply(&mut self, place: usize, record: &InboxRecord) {
        match record {
            InboxRecord::Accepted { event } => self.accept(place, event),
            InboxRecord::Withdrawn { event_id, .. } => drop(self.take_pending(event_id)),
            InboxRecord::Done { event_ids, result, asked_by, answer, .. } => {
                for event_id in event_ids {
                    self.done(place, event_id, result, asked_by.as_ref());
                }
                if let Some(answer) = answer {
                    self.accept(place, answer);
                }
            }
        }
    }

    fn accept(&mut self, place: usize, event: &AgentEvent) {
        if self.pending.contains_key(&event.id) {
            return;
        }
        // It was handled so long ago that it counts as new.
        self.handled.remove(&event.id);
        *self.waiting.entry(event.target.clone()).or_default() += 1;
        let pending = Pending { record: place, target: event.target.clone(), asked_by: event.caller().cloned() };
        self.pending.insert(event.id.clone(), pending);
    }

    fn done(&mut self, place: usize, event_id: &str, result: &TurnResult, asked_by: Option<&InstanceId>) {
        let pending = self.take_pending(event_id);
        if let Some(pending) = &pending {
            self.handled.release(&pending.target);
        }
        let asked_by = pending.and_then(|pending| pending.asked_by).or_else(|| asked_by.cloned());
        let needed_by = asked_by.filter(|instance| self.waiting.contains_key(instance));
        self.handled.put(event_id.to_owned(), place, size_of(result), needed_by);
    }

    fn take_pending(&mut self, event_id: &str) -> Option<Pending> {
        let pending = self.pending.remove(event_id)?;
        if let Some(count) = self.waiting.get_mut(&pending.target) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&pending.target);
            }
        }
        Some(pending)
    }

    /// What of a record still matters; `None` where nothing does.
    pub(super) fn reduce<'a>(&self, place: usize, record: &'a InboxRecord) -> Option<Cow<'a, InboxRecord>> {
        match record {
            InboxRecord::Withdrawn { .. } => None,
            InboxRecord::Accepted { event } => self.is_pending(place, event).then_some(Cow::Borrowed(record)),
            InboxRecord::Done { event_ids, answer, .. } => {
                let answers = answer.as_ref().is_some_and(|answer| self.is_pending(place, answer));
                if !answers && !event_ids.iter().any(|id| self.handled.get(id) == Some(&place)) {
                    return None;
                }
                // An answer that is settled must not come back when the record that settled it goes.
                let keep_whole = answers || answer.is_none();
                Some(if keep_whole { Cow::Borrowed(record) } else { Cow::Owned(without_answer(record)) })
            }
        }
    }

    fn is_pending(&self, place: usize, event: &AgentEvent) -> bool {
        self.pending.get(&event.id).is_some_and(|pending| pending.record == place)
    }

    /// What a workspace with these records holds.
    pub(super) fn recover(&self, records: &[&InboxRecord], warnings: Vec<String>) -> Recovered {
        let mut pending: Vec<AgentEvent> = Vec::new();
        for (place, record) in records.iter().enumerate() {
            let event = match record {
                InboxRecord::Accepted { event } => Some(&**event),
                InboxRecord::Done { answer, .. } => answer.as_deref(),
                InboxRecord::Withdrawn { .. } => None,
            };
            pending.extend(event.filter(|event| self.is_pending(place, event)).cloned());
        }
        let handled = self.handled.in_order().into_iter().filter_map(|(event_id, place, needed_by)| {
            let InboxRecord::Done { result, .. } = records[*place] else { return None };
            let (event_id, needed_by) = (event_id.to_owned(), needed_by.cloned());
            Some(HandledEvent { event_id, result: (**result).clone(), needed_by })
        });
        Recovered { handled: handled.collect(), pending, begun: Vec::new(), warnings }
    }
}

/// What still matters of `records`, in their order.
pub(super) fn reduce<'a>(records: &[&'a InboxRecord]) -> Vec<Cow<'a, InboxRecord>> {
    let ledger = Ledger::of(records.iter().copied());
    records.iter().enumerate().filter_map(|(place, record)| ledger.reduce(place, record)).collect()
}

fn without_answer(record: &InboxRecord) -> InboxRecord {
    let mut record = record.clone();
    if let InboxRecord::Done { answer, .. } = &mut record {
        *answer = None;
    }
    record
}
