//! Retirement and deletion of idle instances (rule C6). Store writes run in separate tasks; no turn
//! of the instance begins until then.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::command::StoreWorkResult;
use super::compact_meta::CompactInstanceMeta;
use super::instance_lookup::LookupReason;
use super::{Orchestrator, OrchestratorCommand, SubmitError};
use crate::delivery::lifecycle::{self, IdleTime, LifecycleStep};
use crate::engine::Engine;
use crate::plan::Generation;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, StoreError, blocking};

/// Time from the start of the swarm to the first check for idle instances, if instances stay for
/// hours or longer. So a short run does not read the metadata of all conversations.
const FIRST_CHECK_DELAY: Duration = Duration::from_secs(60);

/// Returns since when an instance is idle or retired.
fn idle_time_of(meta: &CompactInstanceMeta) -> IdleTime {
    IdleTime {
        since: meta.updated_at(),
        retired: meta.retired_at().filter(|_| meta.is_retired()),
    }
}

/// Returns the next lifecycle step of an idle instance. An instance of a removed agent is retired
/// immediately (rule R4).
pub(super) fn next_step(
    generation: &Generation,
    agent: &str,
    idle: IdleTime,
    now: DateTime<Utc>,
) -> Option<LifecycleStep> {
    let is_left = idle.retired.is_none() && generation.agent(agent).is_none();
    idle.next_step(now, &generation.policy.lifecycle)
        .or(is_left.then_some(LifecycleStep::Retire))
}

impl Orchestrator {
    /// Returns the interval between checks for idle instances.
    fn check_interval(&self) -> Duration {
        lifecycle::check_interval(&self.engine.generation.load().policy.lifecycle)
    }

    /// Plans the first check of the swarm for idle instances.
    pub(super) fn plan_first_check(&mut self) {
        let delay = if self.check_interval() >= lifecycle::MAX_CHECK_INTERVAL {
            FIRST_CHECK_DELAY
        } else {
            Duration::ZERO
        };
        self.next_idle_check = Instant::now() + delay;
    }

    /// Plans the next check for idle instances. A reload can have set another interval.
    fn plan_next_check(&mut self) {
        self.next_idle_check = Instant::now() + self.check_interval();
    }

    /// Retires and deletes all idle instances that are due.
    pub(super) fn collect_idle(&mut self) {
        self.plan_next_check();
        let policy = self.engine.generation.load().policy.lifecycle.clone();
        let idle = self
            .instances
            .idle_instances()
            .map(|(agent, key, meta)| ((agent, key), idle_time_of(meta)));
        let due = lifecycle::due_instances(idle, self.engine.clock.now(), &policy);
        let to_ids = |names: Vec<(&str, &str)>| -> Vec<_> {
            names
                .into_iter()
                .map(|(agent, key)| InstanceId::new(agent, key))
                .collect()
        };
        let (retire, delete) = (to_ids(due.retire), to_ids(due.delete));
        for id in &retire {
            self.retire(id);
        }
        for id in &delete {
            self.delete(id);
        }
        self.start_due_scan();
    }

    /// Retires or deletes one instance if it is due.
    pub(super) fn collect_one(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get(id).filter(|instance| instance.is_idle()) else {
            return;
        };
        let idle = idle_time_of(&instance.known);
        match next_step(
            &self.engine.generation.load_full(),
            &id.agent,
            idle,
            self.engine.clock.now(),
        ) {
            Some(LifecycleStep::Retire) => self.retire(id),
            Some(LifecycleStep::Delete) => self.delete(id),
            None => {}
        }
    }

    /// Applies a new generation.
    pub(super) fn apply_generation(&mut self) {
        self.retire_without_agent();
        self.has_changed = true;
        self.next_idle_check = self
            .next_idle_check
            .min(Instant::now() + self.check_interval());
        self.start_due_scan();
    }

    /// Retires idle instances of agents that a reload has removed (rule R4). Busy instances follow
    /// at the end of their turn.
    pub(super) fn retire_without_agent(&mut self) {
        let generation = self.engine.generation.load_full();
        let idle = self.instances.idle_instances();
        let removed =
            idle.filter(|(agent, _, meta)| !meta.is_retired() && generation.agent(agent).is_none());
        let removed: Vec<_> = removed
            .map(|(agent, key, _)| InstanceId::new(agent, key))
            .collect();
        for id in &removed {
            self.retire(id);
        }
    }

    /// Removes an idle instance from memory, after its metadata is stored.
    pub(super) fn release_idle(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get(id).filter(|instance| instance.is_idle()) else {
            return;
        };
        if !self.instances.evicts_idle() {
            return;
        }
        if !instance.is_new {
            return self.instances.mark_idle(id);
        }
        let (meta, store) = (instance.meta(id), Arc::clone(&self.engine.store));
        self.spawn_store_work(id, async move {
            log_failure(
                store
                    .put_instance(&meta)
                    .await
                    .map(|()| StoreWorkResult::Kept),
            )
        });
    }

    /// Marks an idle instance as retired and writes its metadata in a separate task.
    fn retire(&mut self, id: &InstanceId) {
        let now = self.engine.clock.now();
        let Some(meta) = self.instances.retire(id, now) else {
            return;
        };
        let store = Arc::clone(&self.engine.store);
        self.spawn_store_work(id, async move {
            log_failure(
                store
                    .put_instance(&meta)
                    .await
                    .map(|()| StoreWorkResult::Retired),
            )
        });
    }

    /// Deletes the stored data of an instance, and its permanent approvals, in a separate task.
    fn delete(&mut self, id: &InstanceId) {
        let deletion = delete_data(Arc::clone(&self.engine), id.clone());
        self.spawn_store_work(id, async move {
            log_failure(deletion.await.map(|()| StoreWorkResult::Deleted))
        });
    }

    /// Deletes an instance for a user, unless a turn runs or waits. `is_sought`: the store was
    /// already searched.
    pub(super) fn delete_on_request(
        &mut self,
        id: &InstanceId,
        answer: oneshot::Sender<Result<bool, SubmitError>>,
        is_sought: bool,
    ) {
        if !is_sought && self.instances.may_be_evicted(id) {
            return self.look_up(id.clone(), LookupReason::Deletion(answer));
        }
        let Some(instance) = self.instances.get(id) else {
            return drop(answer.send(Ok(false)));
        };
        if !instance.is_idle() {
            return drop(answer.send(Err(SubmitError::InUse(id.clone()))));
        }
        // An event that arrives during the deletion revives the instance.
        if !instance.known.is_retired() {
            self.instances.retire(id, self.engine.clock.now());
        }
        let deletion = delete_data(Arc::clone(&self.engine), id.clone());
        self.spawn_store_work(id, async move {
            StoreWorkResult::DeletedOnRequest {
                deleted: deletion.await,
                answer,
            }
        });
    }

    /// Answers the user who requested a deletion. If the store failed, the instance stays.
    fn answer_deletion(
        &mut self,
        id: &InstanceId,
        deleted: Result<(), StoreError>,
        answer: oneshot::Sender<Result<bool, SubmitError>>,
    ) -> StoreWorkResult {
        let done = match deleted {
            Ok(()) => StoreWorkResult::Deleted,
            Err(_) => {
                self.instances.revive(id, self.engine.clock.now());
                StoreWorkResult::Failed
            }
        };
        let _ = answer.send(deleted.map(|()| true).map_err(SubmitError::from));
        done
    }

    /// Writes the metadata of an instance before its next turn begins.
    pub(super) fn put_before_turns(
        &mut self,
        meta: InstanceMeta,
        is_new: bool,
        answer: oneshot::Sender<Result<bool, SubmitError>>,
    ) {
        let store = Arc::clone(&self.engine.store);
        let id = meta.id();
        self.spawn_store_work(&id, async move {
            StoreWorkResult::Put {
                is_new,
                written: store.put_instance(&meta).await,
                answer,
            }
        });
    }

    /// Runs store work in a separate task. No turn of the instance begins until the work is done.
    fn spawn_store_work(
        &mut self,
        id: &InstanceId,
        work: impl Future<Output = StoreWorkResult> + Send + 'static,
    ) {
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        instance.has_store_work = true;
        let (commands, instance) = (self.engine.commands.clone(), id.clone());
        self.tending += 1;
        tokio::spawn(async move {
            let done = work.await;
            // If the orchestrator has ended, the next one reads the result from the store.
            let _ = commands.send(OrchestratorCommand::Tended { instance, done });
        });
    }

    /// Applies the result of store work. If an event arrived during the work, the instance stays in
    /// memory and is written again.
    pub(super) fn store_work_done(&mut self, id: InstanceId, done: StoreWorkResult) {
        self.tending -= 1;
        let done = match done {
            StoreWorkResult::DeletedOnRequest { deleted, answer } => {
                self.answer_deletion(&id, deleted, answer)
            }
            done => done,
        };
        let evicts_idle = self.instances.evicts_idle();
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        instance.has_store_work = false;
        let (is_used_again, meta) = (!instance.known.is_retired(), instance.meta(&id));
        match done {
            StoreWorkResult::Put {
                is_new,
                written,
                answer,
            } => {
                // The next turn writes it.
                instance.is_new |= written.is_err();
                let _ = answer.send(written.map(|()| is_new).map_err(SubmitError::from));
            }
            StoreWorkResult::Deleted if !is_used_again => {
                self.engine.release_instance(&id);
                self.engine.timetable.remove_jobs(&id);
                self.instances.remove(&id);
            }
            StoreWorkResult::Retired if !is_used_again => self.engine.release_instance(&id),
            StoreWorkResult::Deleted | StoreWorkResult::Retired => self.write_again(meta),
            StoreWorkResult::Kept => instance.is_new = false,
            StoreWorkResult::Failed if evicts_idle => {
                instance.is_new = true;
                if instance.queue.is_empty() {
                    return self.stalled.add(id);
                }
            }
            StoreWorkResult::Failed | StoreWorkResult::DeletedOnRequest { .. } => {}
        }
        self.make_ready(id);
    }

    /// Writes the metadata of an instance that store work removed although it is in use again.
    fn write_again(&self, meta: InstanceMeta) {
        let store = Arc::clone(&self.engine.store);
        tokio::spawn(async move {
            if let Err(error) = store.put_instance(&meta).await {
                tracing::warn!(instance = %meta.id(), %error, "failed to write the metadata of an \
                    instance that is in use again; its next turn writes it");
            }
        });
    }
}

/// Deletes the stored data of an instance, and its permanent approvals.
async fn delete_data(engine: Arc<Engine>, id: InstanceId) -> Result<(), StoreError> {
    let (approvals, owner) = (Arc::clone(&engine.approvals), id.clone());
    blocking(move || approvals.forget_conversation(&owner)).await?;
    engine.store.delete_instance(&id).await?;
    engine.titles.forget(&id).await;
    Ok(())
}

/// Returns the result of store work; logs an error and returns `Failed` for it.
fn log_failure(done: Result<StoreWorkResult, StoreError>) -> StoreWorkResult {
    done.unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to retire, delete or unload an idle instance; retrying \
            later");
        StoreWorkResult::Failed
    })
}
