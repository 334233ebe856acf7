//! Determines which inbox records are still needed. Has no side effects.

mod checkpoint;

use std::borrow::Cow;
use std::collections::HashMap;

use super::record_facts::{EventFacts, RecordFacts};
use crate::record::{CarriedFold, InboxRecord, SettledFold};
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{HandledEvent, RecoveredState};
use goondan_core::result_cache::{EncodedResult, ResultCache};

pub(super) use checkpoint::{HandledEntry, NeededRecords, hash_of};

/// The inbox records that are still needed: those of pending events and of recently handled events.
/// Records are identified by their position.
#[derive(Debug, Default)]
pub(super) struct WalIndex {
    pending: HashMap<String, PendingInput>,
    /// Number of pending events per instance.
    waiting: HashMap<InstanceId, usize>,
    handled: ResultCache<usize>,
    /// Records with folds that are durable nowhere else, with their turns, in order.
    unsettled: HashMap<InstanceId, Vec<(String, usize)>>,
}

/// A fold that a record carries.
#[derive(Debug, Clone)]
pub(super) struct TurnCheckpoint {
    pub(super) turn_id: String,
    pub(super) fold: CarriedFold,
}

/// The state that results from the records of a workspace.
#[derive(Debug, Default)]
pub(super) struct WalState {
    pub(super) recovered: RecoveredState,
    /// Folds that are durable nowhere else, in creation order.
    pub(super) unsettled: Vec<TurnCheckpoint>,
}

/// The optional parts of a finished turn's record that are still needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RetainedParts {
    pub(super) answer: bool,
    pub(super) fold: bool,
}

#[derive(Debug)]
struct PendingInput {
    record: usize,
    target: InstanceId,
    asked_by: Option<InstanceId>,
}

impl WalIndex {
    /// Creates the index of `records`, whose positions are counted from 0.
    pub(super) fn from_records<'a>(records: impl Iterator<Item = &'a InboxRecord>) -> Self {
        WalIndex::default().with_records(records)
    }

    /// Adds records to the index; their positions are counted from 0.
    fn with_records<'a>(mut self, records: impl Iterator<Item = &'a InboxRecord>) -> Self {
        for (position, record) in records.enumerate() {
            self.apply(position, record.into());
        }
        self
    }

    /// Resets the ledger and keeps its allocated memory.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.waiting.clear();
        self.handled.clear();
        self.unsettled.clear();
    }

    /// Adds the facts of the record at `position` to the index.
    pub(super) fn apply(&mut self, position: usize, facts: RecordFacts) {
        match facts {
            RecordFacts::Accepted(event) => self.add_accepted(position, event),
            RecordFacts::Withdrawn(event_id) => drop(self.take_pending(&event_id)),
            RecordFacts::Done {
                turn_id,
                event_ids,
                result_size,
                asked_by,
                answer,
                fold,
            } => {
                for event_id in &event_ids {
                    self.mark_handled(position, event_id, result_size, asked_by.as_ref());
                }
                if let Some(answer) = answer {
                    self.add_accepted(position, answer);
                }
                if let Some(fold) = fold {
                    let folds = self.unsettled.entry(fold.instance).or_default();
                    if fold.is_whole {
                        folds.clear();
                    }
                    folds.push((turn_id, position));
                }
            }
            RecordFacts::Closed => {}
            RecordFacts::Settled(folds) => folds
                .iter()
                .for_each(|settled| self.forget_settled(settled)),
        }
    }

    /// Adds an accepted event. A duplicate of a pending event changes nothing.
    fn add_accepted(&mut self, position: usize, event: EventFacts) {
        let EventFacts {
            id,
            target,
            asked_by,
        } = event;
        if self.pending.contains_key(&id) {
            return;
        }
        // The event was handled so long ago that it counts as new.
        self.handled.remove(&id);
        *self.waiting.entry(target.clone()).or_default() += 1;
        self.pending.insert(
            id,
            PendingInput {
                record: position,
                target,
                asked_by,
            },
        );
    }

    /// Marks an event as handled, and keeps its result while a pending caller needs it.
    fn mark_handled(
        &mut self,
        position: usize,
        event_id: &str,
        result_size: usize,
        asked_by: Option<&InstanceId>,
    ) {
        let pending = self.take_pending(event_id);
        if let Some(pending) = &pending {
            self.handled.release(&pending.target);
        }
        let asked_by = pending
            .and_then(|pending| pending.asked_by)
            .or_else(|| asked_by.cloned());
        let needed_by = asked_by.filter(|instance| self.waiting.contains_key(instance));
        self.handled.put(event_id, position, result_size, needed_by);
    }

    /// Forgets checkpoints of an instance up to the settled turn; their messages are on disk.
    fn forget_settled(&mut self, settled: &SettledFold) {
        let Some(folds) = self.unsettled.get_mut(&settled.instance) else {
            return;
        };
        match &settled.turn_id {
            None => folds.clear(),
            Some(turn) => {
                let settled = folds
                    .iter()
                    .rposition(|(turn_id, _)| turn_id == turn)
                    .map_or(0, |last| last + 1);
                folds.drain(..settled);
            }
        }
        if folds.is_empty() {
            self.unsettled.remove(&settled.instance);
        }
    }

    /// Removes a pending event and returns it; `None` if the event is not pending.
    fn take_pending(&mut self, event_id: &str) -> Option<PendingInput> {
        let pending = self.pending.remove(event_id)?;
        if let Some(count) = self.waiting.get_mut(&pending.target) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&pending.target);
            }
        }
        Some(pending)
    }

    /// Returns the parts of a record that are still needed; `None` if the record is obsolete.
    pub(super) fn retained_parts(
        &self,
        position: usize,
        facts: &RecordFacts,
    ) -> Option<RetainedParts> {
        match facts {
            RecordFacts::Withdrawn(_) | RecordFacts::Settled(_) | RecordFacts::Closed => None,
            RecordFacts::Accepted(event) => self
                .is_pending(position, &event.id)
                .then(RetainedParts::default),
            RecordFacts::Done {
                event_ids,
                answer,
                fold,
                ..
            } => {
                let keeps = RetainedParts {
                    answer: answer
                        .as_ref()
                        .is_some_and(|answer| self.is_pending(position, &answer.id)),
                    fold: fold
                        .as_ref()
                        .is_some_and(|fold| self.is_unsettled(position, &fold.instance)),
                };
                let is_remembered = event_ids
                    .iter()
                    .any(|id| self.handled.get(id) == Some(&position));
                (keeps.answer || keeps.fold || is_remembered).then_some(keeps)
            }
        }
    }

    /// Returns the record reduced to the parts that are still needed; `None` if it is obsolete.
    pub(super) fn reduce_record<'a>(
        &self,
        position: usize,
        record: &'a InboxRecord,
    ) -> Option<Cow<'a, InboxRecord>> {
        let keeps = self.retained_parts(position, &record.into())?;
        match record {
            InboxRecord::Done { answer, fold, .. }
                if keeps.answer != answer.is_some() || keeps.fold != fold.is_some() =>
            {
                Some(Cow::Owned(retain_parts(record, keeps)))
            }
            _ => Some(Cow::Borrowed(record)),
        }
    }

    /// Returns true if the record at `position` accepted the event and the event is still pending.
    fn is_pending(&self, position: usize, event_id: &str) -> bool {
        self.pending
            .get(event_id)
            .is_some_and(|pending| pending.record == position)
    }

    /// Returns true if the record at `position` contains messages of the instance that are not yet
    /// on disk.
    fn is_unsettled(&self, position: usize, instance: &InstanceId) -> bool {
        self.unsettled
            .get(instance)
            .is_some_and(|folds| folds.iter().any(|(_, unsettled)| *unsettled == position))
    }

    /// Returns the positions of the needed records in order. Some of them may have become obsolete.
    pub(super) fn needed_positions(&self) -> Vec<usize> {
        let pending = self.pending.values().map(|pending| pending.record);
        let unsettled = self
            .unsettled
            .values()
            .flatten()
            .map(|(_, position)| *position);
        let mut positions: Vec<usize> = pending
            .chain(unsettled)
            .chain(self.handled.values().copied())
            .collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    }

    /// Moves the needed contents of a record into `held`. Records must come in order. Those not in
    /// [positions](WalIndex::positions) may be left out.
    pub(super) fn take_up(&self, position: usize, record: InboxRecord, held: &mut WalState) {
        let recovered = &mut held.recovered;
        match record {
            InboxRecord::Accepted { event } => {
                recovered
                    .pending
                    .extend(Some(*event).filter(|event| self.is_pending(position, &event.id)));
            }
            InboxRecord::Done {
                turn_id,
                event_ids,
                result,
                answer,
                fold,
                ..
            } => {
                let is_kept = |id: &String| self.handled.get(id) == Some(&position);
                for event_id in event_ids.into_iter().filter(is_kept) {
                    let needed_by = self.handled.requester_of(&event_id).cloned();
                    recovered.handled.push(HandledEvent {
                        event_id,
                        result: EncodedResult::encode(&result),
                        needed_by,
                    });
                }
                let answer = answer
                    .map(|answer| *answer)
                    .filter(|answer| self.is_pending(position, &answer.id));
                recovered.pending.extend(answer);
                let fold = fold
                    .map(|fold| *fold)
                    .filter(|fold| self.is_unsettled(position, &fold.instance));
                held.unsettled
                    .extend(fold.map(|fold| TurnCheckpoint { turn_id, fold }));
            }
            InboxRecord::Withdrawn { .. }
            | InboxRecord::Settled { .. }
            | InboxRecord::Closed { .. } => {}
        }
    }
}

/// Returns a finished turn's record with or without its answer and its fold.
fn retain_parts(record: &InboxRecord, keeps: RetainedParts) -> InboxRecord {
    let mut record = record.clone();
    if let InboxRecord::Done { answer, fold, .. } = &mut record {
        *answer = answer.take().filter(|_| keeps.answer);
        *fold = fold.take().filter(|_| keeps.fold);
    }
    record
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::suite::samples::{accepted, done_with, event, event_by, instance, withdrawn};
    use goondan_core::agent_event::AgentEvent;

    /// Maximum number of kept results, small enough that most sequences exceed it.
    const MAX_RESULTS: usize = 3;

    fn index_of(records: &[InboxRecord]) -> WalIndex {
        WalIndex {
            handled: ResultCache::with_max_events(MAX_RESULTS),
            ..WalIndex::default()
        }
        .with_records(records.iter())
    }

    fn reduced(records: &[InboxRecord]) -> Vec<InboxRecord> {
        let index = index_of(records);
        let kept = records
            .iter()
            .enumerate()
            .filter_map(|(position, record)| index.reduce_record(position, record));
        kept.map(Cow::into_owned).collect()
    }

    fn state_of(records: &[InboxRecord]) -> WalState {
        let (index, mut state) = (index_of(records), WalState::default());
        for position in index.needed_positions() {
            index.take_up(position, records[position].clone(), &mut state);
        }
        state
    }

    /// A model of the orchestrator: its inbox records, and the events that must be pending.
    #[derive(Default)]
    struct Swarm {
        records: Vec<InboxRecord>,
        pending: Vec<AgentEvent>,
        /// Handled events whose results an unfinished turn may request again, with the instance of
        /// that turn.
        needed: Vec<(String, InstanceId)>,
        made: usize,
        /// Carried messages without a `Settled` record: instance and turn ID.
        carried: Vec<(InstanceId, String)>,
    }

    impl Swarm {
        fn apply(&mut self, action: u8, which: usize) {
            match action {
                0..4 => self.accept(which),
                4..7 => self.finish(which, action == 4, action == 5),
                7 => {
                    if let Some(event) = self.take(which, false) {
                        self.records.push(withdrawn(&event).into());
                    }
                }
                8 => self.forget_settled(which),
                _ => self.records = reduced(&self.records),
            }
        }

        /// Settles the carried messages of a conversation, up to one turn or completely.
        fn forget_settled(&mut self, which: usize) {
            let Some((instance, turn_id)) = which
                .checked_rem(self.carried.len())
                .map(|at| self.carried[at].clone())
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
            self.records.push(InboxRecord::Settled {
                folds: vec![SettledFold {
                    instance,
                    turn_id: up_to,
                }],
            });
        }

        fn accept(&mut self, which: usize) {
            self.made += 1;
            let (id, target) = (
                format!("e{}", self.made),
                instance(&format!("k{}", which % 3)),
            );
            let event = match which % 2 {
                0 => event(&id, &target),
                _ => event_by(&id, &instance(&format!("k{}", which % 5)), &target),
            };
            self.records.push(accepted(&event).into());
            self.pending.push(event);
        }

        fn finish(&mut self, which: usize, answers: bool, carries: bool) {
            let Some(done) = self.take(which, true) else {
                return;
            };
            let answer = answers.then(|| event(&format!("{}-answer", done.id), &instance("k0")));
            let mut record = InboxRecord::from(done_with(&done, answer.clone()));
            if let InboxRecord::Done { fold, .. } = &mut record {
                *fold = carries.then(|| {
                    Box::new(CarriedFold {
                        instance: done.target.clone(),
                        at: 0,
                        sequence: None,
                        is_whole: false,
                        messages: vec![],
                    })
                });
            }
            self.records.push(record);
            if carries {
                self.carried.push((done.target.clone(), done.turn_id()));
            }
            self.needed.retain(|(_, asker)| *asker != done.target);
            let asker = done
                .caller()
                .filter(|asker| self.pending.iter().any(|event| event.target == **asker));
            self.needed
                .extend(asker.map(|asker| (done.id.clone(), asker.clone())));
            self.pending.extend(answer);
        }

        /// Removes a pending event. The turn of an instance processes its first event: only the
        /// first event can finish, and it cannot be withdrawn.
        fn take(&mut self, which: usize, is_begun: bool) -> Option<AgentEvent> {
            let at = which.checked_rem(self.pending.len())?;
            let is_first = self.pending[..at]
                .iter()
                .all(|event| event.target != self.pending[at].target);
            (is_first == is_begun).then(|| self.pending.remove(at))
        }
    }

    proptest! {
        /// Compaction at any point loses no event, restores no handled event, and removes no needed
        /// result.
        #[test]
        fn compaction_keeps_pending_events_and_needed_results(actions in proptest::collection::vec((0u8..10, 0usize..100), 0..80)) {
            let mut swarm = Swarm::default();
            for (action, which) in actions {
                swarm.apply(action, which);
                let WalState { recovered, unsettled, .. } = state_of(&swarm.records);
                prop_assert_eq!(&recovered.pending, &swarm.pending);
                let handled: Vec<_> = recovered.handled.iter().map(|handled| &handled.event_id).collect();
                let carried = unsettled.into_iter().map(|carried| (carried.fold.instance, carried.turn_id));
                let carried: Vec<_> = carried.collect();
                prop_assert_eq!(&carried, &swarm.carried);
                prop_assert!(swarm.needed.iter().all(|(id, _)| handled.contains(&id)), "{:?} of {:?}", swarm.needed, handled);
            }
        }
    }
}
