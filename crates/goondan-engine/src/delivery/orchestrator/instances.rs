//! The instances of a swarm: little more than a queue each, while they are idle.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroUsize;

use chrono::{DateTime, SecondsFormat, Utc};
use lru::LruCache;

use super::RunningTurn;
use super::known::Known;
use crate::turn::{ConversationLog, Warm};
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, Recovered, Store, StoreError};
use goondan_core::ports::tool::SpawnedAgentInfo;

/// One instance.
pub(super) struct Instance {
    pub(super) known: Known,
    pub(super) queue: VecDeque<AgentEvent>,
    pub(super) turn: Option<Box<RunningTurn>>,
    /// The store does not know it yet, or not as it is now.
    pub(super) is_new: bool,
    /// It is being looked up, retired or deleted: no turn may begin.
    pub(super) is_tended: bool,
    /// Whether the store has it is not known yet: what is known of it comes from the event that waits for it.
    pub(super) is_unknown: bool,
}

/// All of them; or, where the store tells of the others quickly, those that have something to do and some that had lately.
pub(crate) struct Instances {
    /// Those of each agent, by their keys.
    // Boxed: a table that grows has room for twice as many.
    by_agent: HashMap<String, HashMap<Box<str>, Box<Instance>>>,
    warm: Warm,
    /// Those that have nothing to do and are remembered; `None` where all are.
    resting: Option<LruCache<InstanceId, ()>>,
    /// Those that the store is asked for, each with how often: they are not forgotten meanwhile, so that no answer is older than
    /// what is here.
    sought: HashMap<InstanceId, usize>,
    /// How many are not retired, forgotten ones included.
    len: usize,
}

impl Instances {
    /// Those of a store that was left as `recovered` says.
    pub(crate) async fn restore(
        store: &dyn Store,
        recovered: &Recovered,
    ) -> Result<Self, StoreError> {
        let at_work: HashSet<&InstanceId> = recovered
            .pending
            .iter()
            .map(|event| &event.target)
            .collect();
        let mut instances = Instances::remembering(store.remembered_outside());
        if instances.resting.is_none() {
            for meta in store.instances().await? {
                instances.add(settled(store, meta, &at_work).await);
            }
            return Ok(instances);
        }
        let mut last = None;
        loop {
            let some = store.instances_behind(last.as_ref()).await?;
            let Some(meta) = some.last() else {
                return Ok(instances);
            };
            last = Some(meta.id());
            for meta in some {
                instances.len += usize::from(
                    settled(store, meta, &at_work).await.status != InstanceStatus::Retired,
                );
            }
        }
    }

    /// None yet. Of those that have nothing to do so many are remembered, or all.
    fn remembering(most: Option<usize>) -> Self {
        let resting =
            most.map(|most| LruCache::new(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN)));
        let (by_agent, sought) = (HashMap::new(), HashMap::new());
        Instances {
            by_agent,
            warm: Warm::default(),
            resting,
            sought,
            len: 0,
        }
    }

    /// Whether some are forgotten that have nothing to do.
    pub(super) fn forgets(&self) -> bool {
        self.resting.is_some()
    }

    /// Whether only the store can tell if there is that instance.
    pub(super) fn may_be_forgotten(&self, id: &InstanceId) -> bool {
        self.forgets() && self.get(id).is_none_or(|instance| instance.is_unknown)
    }

    /// The store is asked for an instance, or has answered.
    pub(super) fn seek(&mut self, id: &InstanceId) {
        *self.sought.entry(id.clone()).or_default() += 1;
    }

    /// What the store has told of an instance that it was asked for. Who is here is known better here.
    pub(super) fn learn(
        &mut self,
        id: &InstanceId,
        meta: Option<InstanceMeta>,
        now: DateTime<Utc>,
    ) {
        self.sought_no_more(id);
        let Some(instance) = self.get_mut(id) else {
            if let Some(meta) = meta {
                self.by_agent.entry(id.agent.clone()).or_default().insert(
                    id.instance_key.as_str().into(),
                    Box::new(Instance::new(meta.into())),
                );
            }
            return;
        };
        if !instance.is_unknown {
            return;
        }
        (instance.is_unknown, instance.is_tended) = (false, false);
        if let Some(meta) = meta {
            instance.known = meta.into();
            instance.is_new = false;
            // It was counted as a new one.
            self.len -= 1;
            self.welcome(id, now);
        }
    }

    /// The store was asked for an instance, and has answered.
    pub(super) fn sought_no_more(&mut self, id: &InstanceId) {
        if let Some(count) = self.sought.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                self.sought.remove(id);
            }
        }
    }

    /// Makes room for an event of an instance that the store is asked for.
    pub(super) fn expect(&mut self, event: &AgentEvent, now: DateTime<Utc>) {
        let instance = self.make(event, now);
        (instance.is_unknown, instance.is_tended) = (true, true);
    }

    /// An instance has nothing to do. Where more are remembered than may be, that one is forgotten that has had nothing to do
    /// for longest: the store knows it.
    pub(super) fn rest(&mut self, id: &InstanceId) {
        let Some(resting) = &mut self.resting else {
            return;
        };
        // It gives itself back where it was there before.
        let Some((gone, ())) = resting.push(id.clone(), ()).filter(|(gone, ())| gone != id) else {
            return;
        };
        let is_free = |instance: &Instance| instance.is_idle() && !instance.is_new;
        if !self.sought.contains_key(&gone) && self.get(&gone).is_some_and(is_free) {
            self.remove(&gone);
        }
    }

    /// How many there are, retired ones aside.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, id: &InstanceId) -> Option<&Instance> {
        self.by_agent
            .get(&id.agent)?
            .get(&*id.instance_key)
            .map(|instance| &**instance)
    }

    pub(super) fn get_mut(&mut self, id: &InstanceId) -> Option<&mut Instance> {
        self.by_agent
            .get_mut(&id.agent)?
            .get_mut(&*id.instance_key)
            .map(|instance| &mut **instance)
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str, &Instance)> {
        self.by_agent.iter().flat_map(|(agent, instances)| {
            instances
                .iter()
                .map(move |(key, instance)| (&**agent, &**key, &**instance))
        })
    }

    /// The instance that an event is for. The first event makes it; its sender owns it. A retired one is back.
    pub(super) fn of_event(&mut self, event: &AgentEvent, now: DateTime<Utc>) -> &mut Instance {
        let id = &event.target;
        if self.get(id).is_none() {
            self.make(event, now);
        }
        self.welcome(id, now);
        self.get_mut(id).expect("it is there, or was just added")
    }

    fn make(&mut self, event: &AgentEvent, now: DateTime<Utc>) -> &mut Instance {
        let meta = new_meta(&event.target, event.caller().cloned(), None, now);
        let instance = self.add(InstanceMeta {
            narrowing: event.terms.narrowing.clone(),
            ..meta
        });
        instance.is_new = true;
        instance
    }

    /// An event has come for an instance: a retired one is back.
    fn welcome(&mut self, id: &InstanceId, now: DateTime<Utc>) {
        let forgets = self.forgets();
        if self.revive(id, now).is_some() {
            // Else its next turn says so to the store.
            self.get_mut(id)
                .into_iter()
                .for_each(|instance| instance.is_new |= forgets);
        }
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
        let meta = InstanceMeta {
            status: InstanceStatus::Retired,
            retired_at: Some(now),
            ..instance.meta(id)
        };
        instance.known = meta.clone().into();
        self.len -= 1;
        Some(meta)
    }

    /// Takes an instance back that was retired; `None` where there is none.
    pub(super) fn revive(&mut self, id: &InstanceId, now: DateTime<Utc>) -> Option<InstanceMeta> {
        let instance = self
            .get_mut(id)
            .filter(|instance| instance.known.is_retired())?;
        let meta = InstanceMeta {
            status: InstanceStatus::Idle,
            retired_at: None,
            updated_at: now,
            ..instance.meta(id)
        };
        instance.known = meta.clone().into();
        self.len += 1;
        Some(meta)
    }

    /// Forgets an instance that does not count, or goes on to.
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
        let before = instances
            .remove(&*id.instance_key)
            .is_some_and(|before| !before.known.is_retired());
        self.len = self.len + usize::from(!instance.known.is_retired()) - usize::from(before);
        instances.entry(id.instance_key.into()).or_insert(instance)
    }

    /// What is known of all, oldest first. `stored` are those that the store has, where some are forgotten here.
    pub(super) fn metas(&self, stored: Vec<InstanceMeta>) -> Vec<InstanceMeta> {
        let (mut metas, mut unknown) = (Vec::new(), HashSet::new());
        for meta in stored {
            match self.get(&meta.id()) {
                None => metas.push(meta),
                Some(instance) if instance.is_unknown => {
                    unknown.insert(meta.id());
                    metas.push(InstanceMeta {
                        status: InstanceStatus::Processing,
                        ..meta
                    });
                }
                Some(_) => {}
            }
        }
        let here = self
            .iter()
            .map(|(agent, key, instance)| instance.seen(agent, key));
        metas.extend(here.filter(|meta| unknown.is_empty() || !unknown.contains(&meta.id())));
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
        let (queue, is_new, is_tended, is_unknown) = (VecDeque::new(), false, false, false);
        Instance {
            known,
            queue,
            turn: None,
            is_new,
            is_tended,
            is_unknown,
        }
    }

    /// What is known of it, which is `id`.
    pub(super) fn meta(&self, id: &InstanceId) -> InstanceMeta {
        self.known.meta(&id.agent, &id.instance_key)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.turn.is_none() && self.queue.is_empty() && !self.is_tended
    }

    /// What is known of it, with what it does at the moment.
    fn seen(&self, agent: &str, instance_key: &str) -> InstanceMeta {
        let meta = self.known.meta(agent, instance_key);
        let is_busy = self.turn.is_some() || !self.queue.is_empty();
        InstanceMeta {
            status: if is_busy {
                InstanceStatus::Processing
            } else {
                meta.status
            },
            ..meta
        }
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
async fn settled(
    store: &dyn Store,
    mut meta: InstanceMeta,
    at_work: &HashSet<&InstanceId>,
) -> InstanceMeta {
    if meta.status == InstanceStatus::Processing && !at_work.contains(&meta.id()) {
        meta.status = InstanceStatus::Idle;
        if let Err(error) = store.put_instance(&meta).await {
            tracing::warn!(instance = %meta.id(), %error, "the status of an instance was not written");
        }
    }
    meta
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
        assert!(
            size_of::<Instance>() <= 144,
            "{} bytes",
            size_of::<Instance>()
        );
    }

    #[test]
    fn only_those_that_are_not_retired_count() {
        let now = DateTime::UNIX_EPOCH;
        let (one, two) = (instance("one"), instance("two"));
        let retired = InstanceMeta {
            status: InstanceStatus::Retired,
            retired_at: Some(now),
            ..meta(&two)
        };
        let mut instances = Instances::remembering(None);
        for meta in [meta(&one), retired.clone(), retired] {
            instances.add(meta);
        }
        assert_eq!((instances.len(), instances.metas(Vec::new()).len()), (1, 2));
        instances.of_event(&event("e", &two), now);
        assert_eq!(instances.len(), 2);
        assert!(
            instances
                .retire(&one, now)
                .is_some_and(|meta| meta.status == InstanceStatus::Retired)
        );
        instances.remove(&one);
        assert_eq!((instances.len(), instances.metas(Vec::new()).len()), (1, 1));
    }

    /// Who is in memory, by their keys.
    fn remembered(instances: &Instances) -> Vec<&str> {
        let mut keys: Vec<_> = instances.iter().map(|(_, key, _)| key).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn of_those_with_nothing_to_do_only_the_last_are_remembered() {
        let now = DateTime::UNIX_EPOCH;
        let ids = ["a", "b", "c", "d"].map(instance);
        let mut instances = Instances::remembering(Some(2));
        for id in &ids {
            instances.add(meta(id));
            instances.rest(id);
        }
        assert_eq!(
            (remembered(&instances), instances.len()),
            (vec!["c", "d"], 4)
        );
        instances
            .of_event(&event("e", &ids[2]), now)
            .queue
            .push_back(event("e", &ids[2]));
        instances.seek(&ids[3]);
        for id in &ids[..2] {
            instances.learn(id, Some(meta(id)), now);
            instances.rest(id);
        }
        assert_eq!(
            remembered(&instances),
            ["a", "b", "c", "d"],
            "c has something to do, d is asked for"
        );
        instances.learn(&ids[3], Some(meta(&ids[3])), now);
        instances.rest(&ids[3]);
        assert_eq!(
            (remembered(&instances), instances.len()),
            (vec!["b", "c", "d"], 4)
        );
    }

    #[test]
    fn who_is_expected_counts_until_the_store_has_told() {
        let now = DateTime::UNIX_EPOCH;
        let (old, retired, new) = (instance("old"), instance("retired"), instance("new"));
        let gone = InstanceMeta {
            status: InstanceStatus::Retired,
            retired_at: Some(now),
            ..meta(&retired)
        };
        let mut instances = Instances::remembering(Some(9));
        instances.len = 1;
        for (id, known, len) in [
            (&old, Some(meta(&old)), 1),
            (&retired, Some(gone), 2),
            (&new, None, 3),
        ] {
            instances.expect(&event("e", id), now);
            assert_eq!(
                (instances.len(), instances.may_be_forgotten(id)),
                (if *id == old { 2 } else { len }, true)
            );
            instances.seek(id);
            instances.learn(id, known, now);
            assert_eq!(
                (instances.len(), instances.may_be_forgotten(id)),
                (len, false)
            );
        }
        let is_new = |id: &InstanceId| instances.get(id).map(|instance| instance.is_new);
        assert_eq!(
            [is_new(&old), is_new(&retired), is_new(&new)],
            [Some(false), Some(true), Some(true)]
        );
    }
}
