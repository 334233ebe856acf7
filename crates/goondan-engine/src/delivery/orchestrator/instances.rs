//! The instances of a swarm: little more than a queue each, while they are idle.

use std::collections::{HashMap, HashSet, VecDeque};

use chrono::{DateTime, SecondsFormat, Utc};

use super::RunningTurn;
use super::known::Known;
use crate::turn::{ConversationLog, Warm};
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, Recovered, Store};
use goondan_core::ports::tool::SpawnedAgentInfo;

/// One instance.
pub(super) struct Instance {
    pub(super) known: Known,
    pub(super) queue: VecDeque<AgentEvent>,
    pub(super) turn: Option<Box<RunningTurn>>,
    /// The store does not know it yet.
    pub(super) is_new: bool,
    /// It is being retired or deleted: no turn may begin.
    pub(super) is_tended: bool,
}

/// All of them.
pub(super) struct Instances {
    /// Those of each agent, by their keys.
    // Boxed: a table that grows has room for twice as many.
    by_agent: HashMap<String, HashMap<Box<str>, Box<Instance>>>,
    warm: Warm,
    /// How many are not retired.
    len: usize,
}

impl Instances {
    pub(super) fn restore(metas: Vec<InstanceMeta>) -> Self {
        let mut instances = Instances { by_agent: HashMap::new(), warm: Warm::default(), len: 0 };
        for meta in metas {
            instances.add(meta);
        }
        instances
    }

    /// How many there are, retired ones aside.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, id: &InstanceId) -> Option<&Instance> {
        self.by_agent.get(&id.agent)?.get(&*id.instance_key).map(|instance| &**instance)
    }

    pub(super) fn get_mut(&mut self, id: &InstanceId) -> Option<&mut Instance> {
        self.by_agent.get_mut(&id.agent)?.get_mut(&*id.instance_key).map(|instance| &mut **instance)
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str, &Instance)> {
        self.by_agent
            .iter()
            .flat_map(|(agent, instances)| instances.iter().map(move |(key, instance)| (&**agent, &**key, &**instance)))
    }

    /// The instance that an event is for. The first event makes it; its sender owns it. A retired one is back.
    pub(super) fn of_event(&mut self, event: &AgentEvent, now: DateTime<Utc>) -> &mut Instance {
        let id = &event.target;
        if self.get(id).is_none() {
            let meta = new_meta(id, event.caller().cloned(), None, now);
            let instance = self.add(InstanceMeta { narrowing: event.terms.narrowing.clone(), ..meta });
            instance.is_new = true;
        }
        self.revive(id, now);
        self.get_mut(id).expect("it is there, or was just added")
    }

    /// Those that have nothing to do.
    pub(super) fn idle(&self) -> impl Iterator<Item = (&str, &str, &Known)> {
        let idle = self.iter().filter(|(.., instance)| instance.is_idle());
        idle.map(|(agent, key, instance)| (agent, key, &instance.known))
    }

    /// Retires an idle instance, and lets go of its conversation. Gives back what is known of it from now on.
    pub(super) fn retire(&mut self, id: &InstanceId, now: DateTime<Utc>) -> Option<InstanceMeta> {
        drop(self.take_warm(id));
        let instance = self.get_mut(id)?;
        let meta = InstanceMeta { status: InstanceStatus::Retired, retired_at: Some(now), ..instance.meta(id) };
        instance.known = meta.clone().into();
        self.len -= 1;
        Some(meta)
    }

    /// Takes an instance back that was retired; `None` where there is none.
    pub(super) fn revive(&mut self, id: &InstanceId, now: DateTime<Utc>) -> Option<InstanceMeta> {
        let instance = self.get_mut(id).filter(|instance| instance.known.is_retired())?;
        let meta =
            InstanceMeta { status: InstanceStatus::Idle, retired_at: None, updated_at: now, ..instance.meta(id) };
        instance.known = meta.clone().into();
        self.len += 1;
        Some(meta)
    }

    /// Forgets a retired instance.
    pub(super) fn remove(&mut self, id: &InstanceId) {
        drop(self.take_warm(id));
        if let Some(instances) = self.by_agent.get_mut(&id.agent) {
            instances.remove(&*id.instance_key);
        }
    }

    /// A new instance, which the store knows already.
    pub(super) fn add(&mut self, meta: InstanceMeta) -> &mut Instance {
        let id = meta.id();
        let instance = Box::new(Instance::new(meta.into()));
        let instances = self.by_agent.entry(id.agent).or_default();
        // Somebody may have copied a folder.
        let before = instances.remove(&*id.instance_key).is_some_and(|before| !before.known.is_retired());
        self.len = self.len + usize::from(!instance.known.is_retired()) - usize::from(before);
        instances.entry(id.instance_key.into()).or_insert(instance)
    }

    /// What is known of all, oldest first.
    pub(super) fn metas(&self) -> Vec<InstanceMeta> {
        let mut metas: Vec<_> = self.iter().map(|(agent, key, instance)| instance.seen(agent, key)).collect();
        metas.sort_by_cached_key(|meta| (meta.created_at, meta.id()));
        metas
    }

    /// Keeps the conversation of an instance whose turn is over.
    pub(super) fn keep_warm(&mut self, id: &InstanceId, log: ConversationLog) {
        if self.get(id).is_some() {
            self.warm.put(id, log);
        }
    }

    /// The conversation of an instance whose turn begins.
    pub(super) fn take_warm(&mut self, id: &InstanceId) -> Option<ConversationLog> {
        self.warm.take(id)
    }
}

impl Instance {
    fn new(known: Known) -> Self {
        Instance { known, queue: VecDeque::new(), turn: None, is_new: false, is_tended: false }
    }

    /// What is known of it, which is `id`.
    pub(super) fn meta(&self, id: &InstanceId) -> InstanceMeta {
        self.known.meta(&id.agent, &id.instance_key)
    }

    fn is_idle(&self) -> bool {
        self.turn.is_none() && self.queue.is_empty() && !self.is_tended
    }

    /// What is known of it, with what it does at the moment.
    fn seen(&self, agent: &str, instance_key: &str) -> InstanceMeta {
        let meta = self.known.meta(agent, instance_key);
        let is_busy = self.turn.is_some() || !self.queue.is_empty();
        InstanceMeta { status: if is_busy { InstanceStatus::Processing } else { meta.status }, ..meta }
    }
}

/// What is known of an instance at first.
pub(super) fn new_meta(
    id: &InstanceId,
    owner: Option<InstanceId>,
    cwd: Option<String>,
    now: DateTime<Utc>,
) -> InstanceMeta {
    InstanceMeta {
        status: InstanceStatus::Idle,
        agent: id.agent.clone(),
        instance_key: id.instance_key.clone(),
        created_at: now,
        updated_at: now,
        owner,
        cwd,
        retired_at: None,
        narrowing: None,
        spending: Default::default(),
    }
}

/// A process that was cut off between the end of a turn and its last write leaves an instance that says that it is at work.
pub(crate) async fn settle_status(
    store: &dyn Store,
    mut metas: Vec<InstanceMeta>,
    recovered: &Recovered,
) -> Vec<InstanceMeta> {
    let at_work: HashSet<&InstanceId> = recovered.pending.iter().map(|event| &event.target).collect();
    for meta in &mut metas {
        if meta.status == InstanceStatus::Processing && !at_work.contains(&meta.id()) {
            meta.status = InstanceStatus::Idle;
            if let Err(error) = store.put_instance(meta).await {
                tracing::warn!(instance = %meta.id(), %error, "the status of an instance was not written");
            }
        }
    }
    metas
}

/// An instance as agents see it.
pub(crate) fn describe(meta: InstanceMeta) -> SpawnedAgentInfo {
    let owner = meta.owner.unwrap_or_else(|| InstanceId::new("", ""));
    SpawnedAgentInfo {
        target: meta.agent,
        instance_key: meta.instance_key,
        owner_agent: owner.agent,
        owner_instance_key: owner.instance_key,
        created_at: meta.created_at.to_rfc3339_opts(SecondsFormat::Millis, true),
        cwd: meta.cwd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goondan_store::suite::samples::{event, instance, meta};

    #[test]
    fn an_idle_instance_is_small() {
        // Beside it there is a place in a table, and its key.
        assert!(size_of::<Instance>() <= 144, "{} bytes", size_of::<Instance>());
    }

    #[test]
    fn only_those_that_are_not_retired_count() {
        let now = DateTime::UNIX_EPOCH;
        let (one, two) = (instance("one"), instance("two"));
        let retired = InstanceMeta { status: InstanceStatus::Retired, retired_at: Some(now), ..meta(&two) };
        let mut instances = Instances::restore(vec![meta(&one), retired.clone(), retired]);
        assert_eq!((instances.len(), instances.metas().len()), (1, 2));
        instances.of_event(&event("e", &two), now);
        assert_eq!(instances.len(), 2);
        assert!(instances.retire(&one, now).is_some_and(|meta| meta.status == InstanceStatus::Retired));
        instances.remove(&one);
        assert_eq!((instances.len(), instances.metas().len()), (1, 1));
    }
}
