//! Instances that are not in memory. Where the store tells of an instance quickly, nothing is kept here of one that has had nothing
//! to do for a while: it is looked up when something comes for it. An event is accepted meanwhile, and its turn waits.

use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::lifecycle::fate;
use super::{Command, Orchestrator, Refusal, SpawnRequest, Submission};
use crate::delivery::lifecycle::{self, Idle};
use crate::turn::instance::failed_result;
use crate::turn::store_failed;
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, Store, StoreError};

/// So many instances are retired or deleted at a time that were not in memory.
const MOST_DUE: usize = 1_000;

/// What an instance is looked up for.
pub(super) enum Wanted {
    /// Events wait for it.
    Turn,
    /// The swarm is full: the event is taken only if there is its instance.
    Room(Submission),
    /// It is made only if there is none.
    Spawn(SpawnRequest, oneshot::Sender<Result<bool, Refusal>>),
    /// Somebody asks whether there is that instance.
    Presence(oneshot::Sender<bool>),
    /// It may be time to retire or to delete it.
    Tending,
}

/// What the store says of an instance.
type Sought = (InstanceId, Wanted, Result<Option<InstanceMeta>, StoreError>);

/// Instances that the store is asked for. Its answers are heard in the order of the questions.
pub(super) type Seeking = FuturesOrdered<BoxFuture<'static, Sought>>;

/// What was found among all instances.
pub enum Looked {
    /// All that the store has.
    All {
        /// What is known of them.
        stored: Vec<InstanceMeta>,
        /// Who wants to know.
        answer: oneshot::Sender<Vec<InstanceMeta>>,
    },
    /// Those that are to be retired or deleted; `None` where the store has failed.
    Due(Option<Vec<InstanceId>>),
}

impl Orchestrator {
    /// Asks the store for an instance.
    pub(super) fn seek(&mut self, id: InstanceId, wanted: Wanted) {
        self.instances.seek(&id);
        let store = self.engine.store.clone();
        let sought = async move {
            let found = store.instance(&id).await;
            (id, wanted, found)
        };
        self.seeking.push_back(sought.boxed());
    }

    /// An event has come: if its instance is not here, the store is asked for it.
    pub(super) fn seek_for(&mut self, event: &AgentEvent, now: DateTime<Utc>) {
        if self.instances.forgets() && self.instances.get(&event.target).is_none() {
            self.instances.expect(event, now);
            self.seek(event.target.clone(), Wanted::Turn);
        }
    }

    /// Asks once more for an instance of which the store could not tell. False where that is not needed.
    pub(super) fn seek_again(&mut self, id: &InstanceId) -> bool {
        let Some(instance) = self
            .instances
            .get_mut(id)
            .filter(|instance| instance.is_unknown)
        else {
            return false;
        };
        if !instance.is_tended {
            instance.is_tended = true;
            self.seek(id.clone(), Wanted::Turn);
        }
        true
    }

    /// Gives an event back that can be taken or refused now. Where the swarm is full, the store is asked first for its instance.
    pub(super) fn seek_room(&mut self, submission: Submission) -> Option<Submission> {
        let is_here =
            !self.instances.forgets() || self.instances.get(&submission.event.target).is_some();
        if is_here || submission.is_sought || self.room_for_instance().is_ok() {
            return Some(submission);
        }
        let id = submission.event.target.clone();
        self.seek(
            id,
            Wanted::Room(Submission {
                is_sought: true,
                ..submission
            }),
        );
        None
    }

    /// The store has answered.
    pub(super) fn found(&mut self, (id, wanted, found): Sought) {
        let failed = match found {
            Ok(meta) => {
                self.instances.learn(&id, meta, self.engine.clock.now());
                None
            }
            Err(error) => {
                self.instances.sought_no_more(&id);
                Some(error)
            }
        };
        match (wanted, failed) {
            (Wanted::Turn, None) => {}
            (Wanted::Turn, Some(error)) => self.stays_unknown(&id, &error),
            (Wanted::Room(submission), None) => self.submit(submission),
            (Wanted::Room(submission), Some(error)) => {
                drop(submission.accepted.send(Err(error.into())))
            }
            (Wanted::Spawn(request, answer), None) => self.spawn(request, answer, true),
            (Wanted::Spawn(_, answer), Some(error)) => drop(answer.send(Err(error.into()))),
            (Wanted::Presence(answer), _) => drop(answer.send(self.instances.get(&id).is_some())),
            (Wanted::Tending, None) => self.tend_one(&id),
            (Wanted::Tending, Some(error)) => {
                tracing::warn!(%error, "an idle instance was not looked after")
            }
        }
        if let Some(instance) = self
            .instances
            .get(&id)
            .filter(|instance| !instance.is_unknown)
        {
            let urgent = instance
                .queue
                .front()
                .is_some_and(|event| event.terms.urgent);
            self.make_ready_by(id, urgent);
        }
    }

    /// The store can't tell of an instance for which events wait. It is asked again after a while, or with the next event.
    fn stays_unknown(&mut self, id: &InstanceId, error: &StoreError) {
        let Some(instance) = self
            .instances
            .get_mut(id)
            .filter(|instance| instance.is_unknown)
        else {
            return;
        };
        instance.is_tended = false;
        let waiting = instance.queue.iter();
        let waiting = waiting.map(|event| {
            (
                event.id.clone(),
                event.turn_id(),
                event.trace.trace_id.clone(),
            )
        });
        for (event_id, turn_id, trace_id) in waiting.collect::<Vec<_>>() {
            self.settling.tell(|trace| trace == trace_id);
            let result: TurnResult = failed_result(turn_id, store_failed(error));
            self.tell_outside(&event_id, &result);
        }
        self.stalled.add(id.clone());
    }

    /// Tells whether there is an instance.
    pub(super) fn tell_whether_there_is(&mut self, id: InstanceId, answer: oneshot::Sender<bool>) {
        match self.instances.may_be_forgotten(&id) {
            true => self.seek(id, Wanted::Presence(answer)),
            false => drop(answer.send(self.instances.get(&id).is_some())),
        }
    }

    /// Tells what instances there are.
    pub(super) fn list(&self, answer: oneshot::Sender<Vec<InstanceMeta>>) {
        if !self.instances.forgets() {
            return drop(answer.send(self.instances.metas(Vec::new())));
        }
        let (store, commands) = (self.engine.store.clone(), self.engine.commands.clone());
        tokio::spawn(async move {
            let stored = store.instances().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "instances that are not in memory are not listed");
                Vec::new()
            });
            // Without an orchestrator nobody waits any more.
            let _ = commands.send(Command::Looked(Looked::All { stored, answer }));
        });
    }

    /// Looks for instances that are not in memory and are to be retired or deleted.
    pub(super) fn look_for_due(&mut self) {
        let generation = self.engine.generation.load_full();
        let is_worth_it =
            self.has_changed || lifecycle::interval(&generation.policy.lifecycle).is_some();
        if !self.instances.forgets() || self.is_looking || !is_worth_it {
            return;
        }
        (self.is_looking, self.has_changed) = (true, false);
        let (store, commands) = (self.engine.store.clone(), self.engine.commands.clone());
        let now = self.engine.clock.now();
        tokio::spawn(async move {
            let is_due = |meta: &InstanceMeta| {
                let retired = meta
                    .retired_at
                    .filter(|_| meta.status == InstanceStatus::Retired);
                fate(
                    &generation,
                    &meta.agent,
                    Idle {
                        since: meta.updated_at,
                        retired,
                    },
                    now,
                )
                .is_some()
            };
            let due = due(&*store, is_due).await;
            let due = due
                .inspect_err(|error| tracing::warn!(%error, "idle instances were not looked after"))
                .ok();
            let _ = commands.send(Command::Looked(Looked::Due(due)));
        });
    }

    /// Something was found among all instances.
    pub(super) fn looked(&mut self, looked: Looked) {
        match looked {
            Looked::All { stored, answer } => drop(answer.send(self.instances.metas(stored))),
            Looked::Due(due) => {
                // Where not all was looked at, it is looked again; so it is behind a reload that came meanwhile.
                let is_over = due.as_ref().is_some_and(|ids| ids.len() < MOST_DUE);
                if due.is_some() && (!is_over || self.has_changed) {
                    self.tend_at = Instant::now() + lifecycle::SHORTEST;
                }
                self.is_looking = false;
                self.has_changed |= !is_over;
                let cold = due
                    .into_iter()
                    .flatten()
                    .filter(|id| self.instances.get(id).is_none());
                for id in cold.collect::<Vec<_>>() {
                    self.seek(id, Wanted::Tending);
                }
            }
        }
    }
}

/// Some of the instances in a store that are due.
async fn due(
    store: &dyn Store,
    is_due: impl Fn(&InstanceMeta) -> bool,
) -> Result<Vec<InstanceId>, StoreError> {
    let (mut due, mut last) = (Vec::new(), None);
    loop {
        let some = store.instances_behind(last.as_ref()).await?;
        let Some(meta) = some.last() else {
            return Ok(due);
        };
        last = Some(meta.id());
        due.extend(
            some.iter()
                .filter(|meta| is_due(meta))
                .map(InstanceMeta::id),
        );
        if due.len() >= MOST_DUE {
            due.truncate(MOST_DUE);
            return Ok(due);
        }
    }
}
