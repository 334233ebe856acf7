//! What a row of inbox records comes to. Pure.

use std::borrow::{Borrow, Cow};
use std::collections::HashMap;

use super::handled::{Handled, size_of};
use crate::event::TurnResult;
use crate::ids::InstanceId;
use crate::inbound::AgentEvent;
use crate::ports::store::{CarriedFold, HandledEvent, InboxRecord, Recovered, SettledFold};

/// Which records of an inbox still matter: those of pending events and of events that were handled lately. Records are
/// known by their place in the row.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pending: HashMap<String, Pending>,
    /// How many events each instance has pending.
    waiting: HashMap<InstanceId, usize>,
    handled: Handled<usize>,
    /// Records with folds that are on disk nowhere else, and their turns, in order.
    unsettled: HashMap<InstanceId, Vec<(String, usize)>>,
}

/// A fold that a record carries.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    pub(super) turn_id: String,
    pub(super) fold: CarriedFold,
}

#[derive(Debug)]
struct Pending {
    record: usize,
    target: InstanceId,
    asked_by: Option<InstanceId>,
}

impl Ledger {
    /// The state after `records`.
    pub(super) fn of(records: impl Iterator<Item: Borrow<InboxRecord>>) -> Self {
        Ledger::default().after(records)
    }

    fn after(mut self, records: impl Iterator<Item: Borrow<InboxRecord>>) -> Self {
        for (place, record) in records.enumerate() {
            self.apply(place, record.borrow());
        }
        self
    }

    fn apply(&mut self, place: usize, record: &InboxRecord) {
        match record {
            InboxRecord::Accepted { event } => self.accept(place, event),
            InboxRecord::Withdrawn { event_id, .. } => drop(self.take_pending(event_id)),
            InboxRecord::Done { turn_id, event_ids, result, asked_by, answer, fold } => {
                for event_id in event_ids {
                    self.done(place, event_id, result, asked_by.as_ref());
                }
                if let Some(answer) = answer {
                    self.accept(place, answer);
                }
                if let Some(fold) = fold {
                    let folds = self.unsettled.entry(fold.instance.clone()).or_default();
                    if fold.is_whole {
                        folds.clear();
                    }
                    folds.push((turn_id.clone(), place));
                }
            }
            InboxRecord::Settled { folds } => folds.iter().for_each(|settled| self.settle(settled)),
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

    fn settle(&mut self, settled: &SettledFold) {
        let Some(folds) = self.unsettled.get_mut(&settled.instance) else { return };
        match &settled.turn_id {
            None => folds.clear(),
            Some(turn) => {
                let settled = folds.iter().rposition(|(turn_id, _)| turn_id == turn).map_or(0, |last| last + 1);
                folds.drain(..settled);
            }
        }
        if folds.is_empty() {
            self.unsettled.remove(&settled.instance);
        }
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
            InboxRecord::Withdrawn { .. } | InboxRecord::Settled { .. } => None,
            InboxRecord::Accepted { event } => self.is_pending(place, event).then_some(Cow::Borrowed(record)),
            InboxRecord::Done { event_ids, answer, fold, .. } => {
                let answers = answer.as_ref().is_some_and(|answer| self.is_pending(place, answer));
                let carries = fold.as_ref().is_some_and(|fold| self.is_unsettled(place, &fold.instance));
                if !answers && !carries && !event_ids.iter().any(|id| self.handled.get(id) == Some(&place)) {
                    return None;
                }
                // What is settled must not come back when the record that settled it goes.
                let keep_whole = answers == answer.is_some() && carries == fold.is_some();
                Some(if keep_whole { Cow::Borrowed(record) } else { Cow::Owned(only(record, answers, carries)) })
            }
        }
    }

    fn is_pending(&self, place: usize, event: &AgentEvent) -> bool {
        self.pending.get(&event.id).is_some_and(|pending| pending.record == place)
    }

    fn is_unsettled(&self, place: usize, instance: &InstanceId) -> bool {
        self.unsettled.get(instance).is_some_and(|folds| folds.iter().any(|(_, unsettled)| *unsettled == place))
    }

    /// The folds that are on disk nowhere else, in the order in which they were made.
    pub(super) fn unsettled(&self, records: &[&InboxRecord]) -> Vec<Carried> {
        let mut places: Vec<usize> = self.unsettled.values().flatten().map(|(_, place)| *place).collect();
        places.sort_unstable();
        let carried = places.into_iter().filter_map(|place| match records[place] {
            InboxRecord::Done { turn_id, fold: Some(fold), .. } => {
                Some(Carried { turn_id: turn_id.clone(), fold: (**fold).clone() })
            }
            _ => None,
        });
        carried.collect()
    }

    /// What a workspace with these records holds.
    pub(super) fn recover(&self, records: &[&InboxRecord], warnings: Vec<String>) -> Recovered {
        let mut pending: Vec<AgentEvent> = Vec::new();
        for (place, record) in records.iter().enumerate() {
            let event = match record {
                InboxRecord::Accepted { event } => Some(&**event),
                InboxRecord::Done { answer, .. } => answer.as_deref(),
                InboxRecord::Withdrawn { .. } | InboxRecord::Settled { .. } => None,
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

/// The record of a turn that is over, with its answer and its fold or without.
fn only(record: &InboxRecord, answers: bool, carries: bool) -> InboxRecord {
    let mut record = record.clone();
    if let InboxRecord::Done { answer, fold, .. } = &mut record {
        *answer = answer.take().filter(|_| answers);
        *fold = fold.take().filter(|_| carries);
    }
    record
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::suite::samples::{accepted, done_with, event, event_by, instance, withdrawn};

    /// So few results are remembered that most sequences forget some.
    const ROOM: usize = 3;

    fn ledger_of(records: &[InboxRecord]) -> Ledger {
        Ledger { handled: Handled::with_room_for(ROOM), ..Ledger::default() }.after(records.iter())
    }

    fn reduced(records: &[InboxRecord]) -> Vec<InboxRecord> {
        let ledger = ledger_of(records);
        let kept = records.iter().enumerate().filter_map(|(place, record)| ledger.reduce(place, record));
        kept.map(Cow::into_owned).collect()
    }

    fn recovered(records: &[InboxRecord]) -> Recovered {
        ledger_of(records).recover(&records.iter().collect::<Vec<_>>(), Vec::new())
    }

    /// What an orchestrator does to its inbox, and which events it then has pending.
    #[derive(Default)]
    struct Swarm {
        records: Vec<InboxRecord>,
        pending: Vec<AgentEvent>,
        /// Handled events whose results an unfinished turn may ask for again, with whose turn that is.
        needed: Vec<(String, InstanceId)>,
        made: usize,
        /// Folds that are not settled.
        carried: Vec<(InstanceId, String)>,
    }

    impl Swarm {
        fn act(&mut self, what: u8, which: usize) {
            match what {
                0..4 => self.accept(which),
                4..7 => self.finish(which, what == 4, what == 5),
                7 => {
                    if let Some(event) = self.take(which, false) {
                        self.records.push(withdrawn(&event));
                    }
                }
                8 => self.settle(which),
                _ => self.records = reduced(&self.records),
            }
        }

        /// Folds of a conversation are settled up to one of them, or all.
        fn settle(&mut self, which: usize) {
            let Some((instance, turn_id)) = which.checked_rem(self.carried.len()).map(|at| self.carried[at].clone())
            else {
                return;
            };
            let mut is_before = true;
            let up_to = which.is_multiple_of(2).then(|| turn_id.clone());
            self.carried.retain(|(other, turn)| {
                let is_settled = *other == instance && (up_to.is_none() || is_before);
                is_before &= *turn != turn_id;
                !is_settled
            });
            self.records.push(InboxRecord::Settled { folds: vec![SettledFold { instance, turn_id: up_to }] });
        }

        fn accept(&mut self, which: usize) {
            self.made += 1;
            let (id, target) = (format!("e{}", self.made), instance(&format!("k{}", which % 3)));
            let event = match which % 2 {
                0 => event(&id, &target),
                _ => event_by(&id, &instance(&format!("k{}", which % 5)), &target),
            };
            self.records.push(accepted(&event));
            self.pending.push(event);
        }

        fn finish(&mut self, which: usize, answers: bool, carries: bool) {
            let Some(done) = self.take(which, true) else { return };
            let answer = answers.then(|| event(&format!("{}-answer", done.id), &instance("k0")));
            let mut record = done_with(&done, answer.clone());
            if let InboxRecord::Done { fold, .. } = &mut record {
                *fold = carries.then(|| {
                    Box::new(CarriedFold { instance: done.target.clone(), at: 0, is_whole: false, messages: vec![] })
                });
            }
            self.records.push(record);
            if carries {
                self.carried.push((done.target.clone(), done.turn_id()));
            }
            self.needed.retain(|(_, asker)| *asker != done.target);
            let asker = done.caller().filter(|asker| self.pending.iter().any(|event| event.target == **asker));
            self.needed.extend(asker.map(|asker| (done.id.clone(), asker.clone())));
            self.pending.extend(answer);
        }

        /// The first event of an instance is the one whose turn runs: it can't be withdrawn, and no other can be done.
        fn take(&mut self, which: usize, begun: bool) -> Option<AgentEvent> {
            let at = which.checked_rem(self.pending.len())?;
            let is_first = self.pending[..at].iter().all(|event| event.target != self.pending[at].target);
            (is_first == begun).then(|| self.pending.remove(at))
        }
    }

    proptest! {
        /// No event is lost and none comes back, wherever the inbox is compacted; and no result is forgotten that is needed.
        #[test]
        fn what_matters_is_what_the_swarm_has_pending(acts in proptest::collection::vec((0u8..10, 0usize..100), 0..80)) {
            let mut swarm = Swarm::default();
            for (what, which) in acts {
                swarm.act(what, which);
                let recovered = recovered(&swarm.records);
                prop_assert_eq!(&recovered.pending, &swarm.pending);
                let handled: Vec<_> = recovered.handled.iter().map(|handled| &handled.event_id).collect();
                let records: Vec<&InboxRecord> = swarm.records.iter().collect();
                let carried = ledger_of(&swarm.records).unsettled(&records).into_iter();
                let carried: Vec<_> = carried.map(|carried| (carried.fold.instance, carried.turn_id)).collect();
                prop_assert_eq!(&carried, &swarm.carried);
                prop_assert!(swarm.needed.iter().all(|(id, _)| handled.contains(&id)), "{:?} of {:?}", swarm.needed, handled);
            }
        }
    }
}
