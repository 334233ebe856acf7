//! Retires and deletes idle instances (rule C6). What is written and deleted is so on another thread; an instance has no
//! turn meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Command, Orchestrator};
use crate::delivery::lifecycle::{self, Idle};
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::InstanceMeta;

/// A policy may come with a reload: that often is looked for one.
const WITHOUT_POLICY: Duration = Duration::from_secs(60);

/// What was done about an idle instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tended {
    /// It is retired.
    Retired,
    /// Its folder is gone.
    Deleted,
    /// Nothing: the store has failed. It is tried again.
    Failed,
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
        let idle = self.instances.idle().map(|(agent, key, known)| {
            let retired = known.retired_at().filter(|_| known.is_retired());
            ((agent, key), Idle { since: known.updated_at(), retired })
        });
        let due = lifecycle::due(idle, self.engine.clock.now(), &policy);
        let ids = |names: Vec<(&str, &str)>| -> Vec<_> {
            names.into_iter().map(|(agent, key)| InstanceId::new(agent, key)).collect()
        };
        let (retire, delete) = (ids(due.retire), ids(due.delete));
        retire.iter().for_each(|id| self.retire(id));
        delete.into_iter().for_each(|id| self.delete(id));
    }

    /// Retires idle instances of agents that a reload has removed (rule R4). Busy ones follow with the end of their turn.
    pub(super) fn retire_without_agent(&mut self) {
        let generation = self.engine.generation.load_full();
        let idle = self.instances.idle();
        let gone = idle.filter(|(agent, _, known)| !known.is_retired() && generation.agent(agent).is_none());
        let gone: Vec<_> = gone.map(|(agent, key, _)| InstanceId::new(agent, key)).collect();
        gone.iter().for_each(|id| self.retire(id));
    }

    fn retire(&mut self, id: &InstanceId) {
        let now = self.engine.clock.now();
        let Some(meta) = self.instances.retire(id, now) else { return };
        let store = Arc::clone(&self.engine.store);
        self.in_background(id.clone(), move || store.put_meta(&meta).map(|()| Tended::Retired));
    }

    fn delete(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.is_tended = true;
        let (store, doomed) = (Arc::clone(&self.engine.store), id.clone());
        self.in_background(id, move || store.delete(&doomed).map(|_| Tended::Deleted));
    }

    fn in_background(
        &mut self,
        instance: InstanceId,
        work: impl FnOnce() -> Result<Tended, goondan_core::ports::store::StoreError> + Send + 'static,
    ) {
        let commands = self.engine.commands.clone();
        self.tending += 1;
        tokio::task::spawn_blocking(move || {
            let done = work().unwrap_or_else(|error| {
                tracing::warn!(%instance, %error, "an idle instance was not put away");
                Tended::Failed
            });
            // Without an orchestrator the next one sees what was done.
            let _ = commands.send(Command::Tended { instance, done });
        });
    }

    /// An instance was put away. If it was wanted again meanwhile, it is there again.
    pub(super) fn tended(&mut self, id: InstanceId, done: Tended) {
        self.tending -= 1;
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.is_tended = false;
        let (is_wanted, meta) = (!instance.known.is_retired(), instance.meta(&id));
        if !is_wanted && done != Tended::Failed {
            self.engine.observer.ended(&id);
        }
        if !is_wanted && done == Tended::Deleted {
            self.engine.timetable.forget(&id);
        }
        match done {
            Tended::Deleted if !is_wanted => self.instances.remove(&id),
            Tended::Deleted | Tended::Retired if is_wanted => self.write_again(&meta),
            Tended::Deleted | Tended::Retired | Tended::Failed => {}
        }
        self.make_ready(id);
    }

    fn write_again(&self, meta: &InstanceMeta) {
        if let Err(error) = self.engine.store.put_meta(meta) {
            tracing::warn!(instance = %meta.id(), %error, "what is known of an instance was not written");
        }
    }
}
