//! Retires and deletes idle instances (rule C6). What is written and deleted is so on another thread; an instance has no
//! turn meanwhile.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::known::Known;
use super::{Command, Orchestrator, Refusal};
use crate::delivery::lifecycle::{self, Fate, Idle};
use crate::plan::Generation;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, StoreError};

/// A policy may come with a reload: that often is looked for one.
const WITHOUT_POLICY: Duration = Duration::from_secs(60);

/// What was done about an instance that has no turn meanwhile.
pub enum Tended {
    /// It is retired.
    Retired,
    /// Its folder is gone.
    Deleted,
    /// The store knows it as it is.
    Kept,
    /// What is known of it is written, or could not be. Somebody waits for that.
    Put {
        /// The store did not know it before.
        is_new: bool,
        /// Whether it is written.
        written: Result<(), StoreError>,
        /// Who waits.
        answer: oneshot::Sender<Result<bool, Refusal>>,
    },
    /// Nothing: the store has failed. It is tried again.
    Failed,
}

/// How long one has had nothing to do.
fn idle_of(known: &Known) -> Idle {
    Idle {
        since: known.updated_at(),
        retired: known.retired_at().filter(|_| known.is_retired()),
    }
}

/// What becomes of an idle instance of that agent. One whose agent a reload has removed is retired at once (rule R4).
pub(super) fn fate(
    generation: &Generation,
    agent: &str,
    idle: Idle,
    now: DateTime<Utc>,
) -> Option<Fate> {
    let is_left = idle.retired.is_none() && generation.agent(agent).is_none();
    idle.fate(now, &generation.policy.lifecycle)
        .or(is_left.then_some(Fate::Retire))
}

impl Orchestrator {
    /// When it is time to look after idle instances.
    pub(super) fn next_tending(&self) -> Instant {
        let interval = lifecycle::interval(&self.engine.generation.load().policy.lifecycle);
        Instant::now() + interval.unwrap_or(WITHOUT_POLICY)
    }

    /// Retires and deletes what is due.
    pub(super) fn tend(&mut self) {
        self.tend_at = self.next_tending();
        let policy = self.engine.generation.load().policy.lifecycle.clone();
        let idle = self
            .instances
            .idle()
            .map(|(agent, key, known)| ((agent, key), idle_of(known)));
        let due = lifecycle::due(idle, self.engine.clock.now(), &policy);
        let ids = |names: Vec<(&str, &str)>| -> Vec<_> {
            names
                .into_iter()
                .map(|(agent, key)| InstanceId::new(agent, key))
                .collect()
        };
        let (retire, delete) = (ids(due.retire), ids(due.delete));
        retire.iter().for_each(|id| self.retire(id));
        delete.iter().for_each(|id| self.delete(id));
        self.look_for_due();
    }

    /// Retires or deletes one where it is due.
    pub(super) fn tend_one(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get(id).filter(|instance| instance.is_idle()) else {
            return;
        };
        let idle = idle_of(&instance.known);
        match fate(
            &self.engine.generation.load_full(),
            &id.agent,
            idle,
            self.engine.clock.now(),
        ) {
            Some(Fate::Retire) => self.retire(id),
            Some(Fate::Delete) => self.delete(id),
            None => {}
        }
    }

    /// Another generation is in place.
    pub(super) fn swapped(&mut self) {
        self.retire_without_agent();
        self.has_changed = true;
        self.look_for_due();
    }

    /// Retires idle instances of agents that a reload has removed (rule R4). Busy ones follow with the end of their turn.
    pub(super) fn retire_without_agent(&mut self) {
        let generation = self.engine.generation.load_full();
        let idle = self.instances.idle();
        let gone = idle
            .filter(|(agent, _, known)| !known.is_retired() && generation.agent(agent).is_none());
        let gone: Vec<_> = gone
            .map(|(agent, key, _)| InstanceId::new(agent, key))
            .collect();
        gone.iter().for_each(|id| self.retire(id));
    }

    /// An instance has nothing to do: it is forgotten before long, where the store knows it.
    pub(super) fn rest(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get(id).filter(|instance| instance.is_idle()) else {
            return;
        };
        if !self.instances.forgets() {
            return;
        }
        if !instance.is_new {
            return self.instances.rest(id);
        }
        let (meta, store) = (instance.meta(id), Arc::clone(&self.engine.store));
        self.tend_to(id, async move {
            put_away(store.put_instance(&meta).await.map(|()| Tended::Kept))
        });
    }

    fn retire(&mut self, id: &InstanceId) {
        let now = self.engine.clock.now();
        let Some(meta) = self.instances.retire(id, now) else {
            return;
        };
        let store = Arc::clone(&self.engine.store);
        self.tend_to(id, async move {
            put_away(store.put_instance(&meta).await.map(|()| Tended::Retired))
        });
    }

    fn delete(&mut self, id: &InstanceId) {
        let (store, doomed) = (Arc::clone(&self.engine.store), id.clone());
        self.tend_to(id, async move {
            put_away(
                store
                    .delete_instance(&doomed)
                    .await
                    .map(|_| Tended::Deleted),
            )
        });
    }

    /// Writes what is known of an instance before any of its turns begins.
    pub(super) fn put_before_turns(
        &mut self,
        meta: InstanceMeta,
        is_new: bool,
        answer: oneshot::Sender<Result<bool, Refusal>>,
    ) {
        let store = Arc::clone(&self.engine.store);
        let id = meta.id();
        self.tend_to(&id, async move {
            Tended::Put {
                is_new,
                written: store.put_instance(&meta).await,
                answer,
            }
        });
    }

    /// Does something about an instance beside this task. The instance has no turn meanwhile.
    fn tend_to(&mut self, id: &InstanceId, work: impl Future<Output = Tended> + Send + 'static) {
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        instance.is_tended = true;
        let (commands, instance) = (self.engine.commands.clone(), id.clone());
        self.tending += 1;
        tokio::spawn(async move {
            let done = work.await;
            // Without an orchestrator the next one sees what was done.
            let _ = commands.send(Command::Tended { instance, done });
        });
    }

    /// Something was done about an instance. If it was wanted again meanwhile, it is there again.
    pub(super) fn tended(&mut self, id: InstanceId, done: Tended) {
        self.tending -= 1;
        let forgets = self.instances.forgets();
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        instance.is_tended = false;
        let (is_wanted, meta) = (!instance.known.is_retired(), instance.meta(&id));
        match done {
            Tended::Put {
                is_new,
                written,
                answer,
            } => {
                // The next turn writes it.
                instance.is_new |= written.is_err();
                let _ = answer.send(written.map(|()| is_new).map_err(Refusal::from));
            }
            Tended::Deleted if !is_wanted => {
                self.engine.put_away(&id);
                self.engine.timetable.forget(&id);
                self.instances.remove(&id);
            }
            Tended::Retired if !is_wanted => self.engine.put_away(&id),
            Tended::Deleted | Tended::Retired => self.write_again(meta),
            Tended::Kept => instance.is_new = false,
            Tended::Failed if forgets => {
                instance.is_new = true;
                if instance.queue.is_empty() {
                    return self.stalled.add(id);
                }
            }
            Tended::Failed => {}
        }
        self.make_ready(id);
    }

    fn write_again(&self, meta: InstanceMeta) {
        let store = Arc::clone(&self.engine.store);
        tokio::spawn(async move {
            if let Err(error) = store.put_instance(&meta).await {
                tracing::warn!(instance = %meta.id(), %error, "what is known of an instance was not written");
            }
        });
    }
}

fn put_away(done: Result<Tended, StoreError>) -> Tended {
    done.unwrap_or_else(|error| {
        tracing::warn!(%error, "an idle instance was not put away");
        Tended::Failed
    })
}
