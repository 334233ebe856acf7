//! Lookup of instances that are not in memory.
//!
//! If the store can look up instances quickly, idle ones leave memory after some time and are
//! loaded on demand. An event is accepted during the lookup, but its turn waits for it.

use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::command::InstanceScan;
use super::lifecycle::next_step;
use super::{
    EventSubmission, InstanceSpawnRequest, Orchestrator, OrchestratorCommand, SubmitError,
};
use crate::delivery::lifecycle::{self, IdleTime};
use crate::turn::instance::failed_result;
use crate::turn::store_failure_error;
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, Store, StoreError};

/// Number of instances outside memory to retire or delete per scan.
const MAX_DUE_PER_SCAN: usize = 1_000;

/// Reason for a lookup.
pub(super) enum LookupReason {
    /// Events wait for the instance.
    Turn,
    /// The swarm is full: the event is accepted only if its instance exists.
    Room(EventSubmission),
    /// The instance is created only if it does not exist.
    Spawn(
        InstanceSpawnRequest,
        oneshot::Sender<Result<bool, SubmitError>>,
    ),
    /// A client checks if the instance exists.
    Presence(oneshot::Sender<bool>),
    /// A user deletes the instance.
    Deletion(oneshot::Sender<Result<bool, SubmitError>>),
    /// The instance may be due for retirement or deletion.
    IdleCheck,
}

type LookupAnswer = (
    InstanceId,
    LookupReason,
    Result<Option<InstanceMeta>, StoreError>,
);

/// Pending lookups, answered in the order in which they were started.
pub(super) type PendingLookups = FuturesOrdered<BoxFuture<'static, LookupAnswer>>;

impl Orchestrator {
    /// Starts a lookup in the store.
    pub(super) fn look_up(&mut self, id: InstanceId, reason: LookupReason) {
        self.instances.count_lookup_start(&id);
        let store = self.engine.store.clone();
        let lookup = async move {
            let meta = store.instance(&id).await;
            (id, reason, meta)
        };
        self.seeking.push_back(lookup.boxed());
    }

    /// Starts a lookup for the instance of an event if it is not in memory.
    pub(super) fn look_up_target(&mut self, event: &AgentEvent, now: DateTime<Utc>) {
        if self.instances.evicts_idle() && self.instances.get(&event.target).is_none() {
            self.instances.add_placeholder(event, now);
            self.look_up(event.target.clone(), LookupReason::Turn);
        }
    }

    /// Repeats a failed lookup, unless one is already in progress. Returns true while the store
    /// has not answered, so no turn of the instance may begin.
    pub(super) fn retry_lookup(&mut self, id: &InstanceId) -> bool {
        let Some(instance) = self
            .instances
            .get_mut(id)
            .filter(|instance| instance.is_unknown)
        else {
            return false;
        };
        if !instance.has_store_work {
            instance.has_store_work = true;
            self.look_up(id.clone(), LookupReason::Turn);
        }
        true
    }

    /// Returns the submission if it can be decided now. If the swarm is full, starts a lookup of
    /// the instance and returns `None`.
    pub(super) fn look_up_if_full(
        &mut self,
        submission: EventSubmission,
    ) -> Option<EventSubmission> {
        let is_here =
            !self.instances.evicts_idle() || self.instances.get(&submission.event.target).is_some();
        if is_here || submission.is_sought || self.room_for_instance().is_ok() {
            return Some(submission);
        }
        let id = submission.event.target.clone();
        self.look_up(
            id,
            LookupReason::Room(EventSubmission {
                is_sought: true,
                ..submission
            }),
        );
        None
    }

    /// Handles the result of a lookup.
    pub(super) fn finish_lookup(&mut self, (id, reason, outcome): LookupAnswer) {
        let failed = match outcome {
            Ok(meta) => {
                self.instances
                    .apply_lookup(&id, meta, self.engine.clock.now());
                None
            }
            Err(error) => {
                self.instances.count_lookup_end(&id);
                Some(error)
            }
        };
        match (reason, failed) {
            (LookupReason::Turn, None) => {}
            (LookupReason::Turn, Some(error)) => self.stall_unknown(&id, &error),
            (LookupReason::Room(submission), None) => self.submit(submission),
            (LookupReason::Room(submission), Some(error)) => {
                drop(submission.accepted.send(Err(error.into())))
            }
            (LookupReason::Spawn(request, answer), None) => self.spawn(request, answer, true),
            (LookupReason::Spawn(_, answer), Some(error)) => drop(answer.send(Err(error.into()))),
            (LookupReason::Presence(answer), _) => {
                let _ = answer.send(self.instances.get(&id).is_some());
            }
            (LookupReason::Deletion(answer), None) => self.delete_on_request(&id, answer, true),
            (LookupReason::Deletion(answer), Some(error)) => drop(answer.send(Err(error.into()))),
            (LookupReason::IdleCheck, None) => self.collect_one(&id),
            (LookupReason::IdleCheck, Some(error)) => {
                tracing::warn!(%error, "failed to check an idle instance for expiry; retrying later")
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

    /// Stalls an instance whose lookup failed. The lookup is repeated after a delay or with the
    /// next event.
    fn stall_unknown(&mut self, id: &InstanceId, error: &StoreError) {
        let Some(instance) = self
            .instances
            .get_mut(id)
            .filter(|instance| instance.is_unknown)
        else {
            return;
        };
        instance.has_store_work = false;
        let waiting = instance.queue.iter();
        let waiting = waiting.map(|event| {
            (
                event.id.clone(),
                event.turn_id(),
                event.trace.trace_id.clone(),
            )
        });
        for (event_id, turn_id, trace_id) in waiting.collect::<Vec<_>>() {
            self.chain_waiters.notify(|trace| trace == trace_id);
            let result: TurnResult = failed_result(turn_id, store_failure_error(error));
            self.notify_external_waiters(&event_id, &result);
        }
        self.stalled.add(id.clone());
    }

    /// Answers whether the instance exists; looks into the store if it may be evicted.
    pub(super) fn send_existence(&mut self, id: InstanceId, answer: oneshot::Sender<bool>) {
        if self.instances.may_be_evicted(&id) {
            self.look_up(id, LookupReason::Presence(answer))
        } else {
            let _ = answer.send(self.instances.get(&id).is_some());
        }
    }

    /// Answers with the metadata of all instances; reads the evicted instances from the store.
    pub(super) fn list_instances(&self, answer: oneshot::Sender<Vec<InstanceMeta>>) {
        if !self.instances.evicts_idle() {
            return drop(answer.send(self.instances.instance_metas(Vec::new())));
        }
        let (store, commands) = (self.engine.store.clone(), self.engine.commands.clone());
        tokio::spawn(async move {
            let stored = store.instances().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to read the stored instances; listing only \
                    instances in memory");
                Vec::new()
            });
            // If the orchestrator has ended, the receiver is closed as well.
            let _ = commands.send(OrchestratorCommand::Looked(InstanceScan::All {
                stored,
                answer,
            }));
        });
    }

    /// Starts a scan for stored instances outside memory that are due.
    pub(super) fn start_due_scan(&mut self) {
        let generation = self.engine.generation.load_full();
        if !self.instances.evicts_idle() || self.is_looking {
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
                next_step(
                    &generation,
                    &meta.agent,
                    IdleTime {
                        since: meta.updated_at,
                        retired,
                    },
                    now,
                )
                .is_some()
            };
            let due_instances = find_due_instances(&*store, is_due).await;
            let due_instances = due_instances
                .inspect_err(|error| {
                    tracing::warn!(%error, "failed to check idle instances for expiry; retrying \
                        later")
                })
                .ok();
            let _ = commands.send(OrchestratorCommand::Looked(InstanceScan::Due(
                due_instances,
            )));
        });
    }

    /// Handles the result of a scan of the store.
    pub(super) fn finish_scan(&mut self, scan: InstanceScan) {
        match scan {
            InstanceScan::All { stored, answer } => {
                drop(answer.send(self.instances.instance_metas(stored)))
            }
            InstanceScan::Due(due) => {
                // A scan that reached its limit is repeated soon. The same applies after a reload
                // during the scan.
                let is_over = due.as_ref().is_some_and(|ids| ids.len() < MAX_DUE_PER_SCAN);
                if due.is_some() && (!is_over || self.has_changed) {
                    self.next_idle_check = Instant::now() + lifecycle::MIN_CHECK_INTERVAL;
                }
                self.is_looking = false;
                self.has_changed |= !is_over;
                let not_in_memory = due
                    .into_iter()
                    .flatten()
                    .filter(|id| self.instances.get(id).is_none());
                for id in not_in_memory.collect::<Vec<_>>() {
                    self.look_up(id, LookupReason::IdleCheck);
                }
            }
        }
    }
}

/// Returns up to `MAX_DUE_PER_SCAN` stored instances that are due.
async fn find_due_instances(
    store: &dyn Store,
    is_due: impl Fn(&InstanceMeta) -> bool,
) -> Result<Vec<InstanceId>, StoreError> {
    let mut due = Vec::new();
    let mut last = None;
    loop {
        let page = store.instances_behind(last.as_ref()).await?;
        let Some(meta) = page.last() else {
            return Ok(due);
        };
        last = Some(meta.id());
        due.extend(
            page.iter()
                .filter(|meta| is_due(meta))
                .map(InstanceMeta::id),
        );
        if due.len() >= MAX_DUE_PER_SCAN {
            due.truncate(MAX_DUE_PER_SCAN);
            return Ok(due);
        }
    }
}
