//! Instances of a swarm. An idle instance takes little more memory than an empty queue.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroUsize;

use chrono::{DateTime, SecondsFormat, Utc};
use lru::LruCache;

use super::ActiveTurn;
use super::compact_meta::CompactInstanceMeta;
use crate::delivery::access_end;
use crate::turn::{ConversationCache, ConversationLog};
use goondan_core::agent_event::AgentEvent;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, RecoveredState, Store, StoreError};
use goondan_core::ports::tool::SpawnedAgentInfo;

pub(super) struct InstanceEntry {
    pub(super) known: CompactInstanceMeta,
    pub(super) queue: VecDeque<AgentEvent>,
    pub(super) turn: Option<Box<ActiveTurn>>,
    /// The store has no record of the instance, or an outdated one.
    pub(super) is_new: bool,
    /// True during a lookup, retirement or deletion of the instance. No turn may begin until then.
    pub(super) has_store_work: bool,
    /// The store has not yet answered whether it contains this instance. Until then `known` is
    /// derived from the waiting event.
    pub(super) is_unknown: bool,
    /// Another user has taken the instance over. The programs of the former user end before the next
    /// turn.
    pub(super) has_former_programs: bool,
}

/// Instances in memory: all of them, or only the busy and recently used ones if the store can look
/// up the others quickly.
pub(crate) struct InstanceTable {
    /// Instances by agent name, then by key.
    // Boxed: a hash table that grows allocates twice the number of slots.
    by_agent: HashMap<String, HashMap<Box<str>, Box<InstanceEntry>>>,
    warm: ConversationCache,
    /// Idle instances in memory, least recently used first; `None` if all instances stay in memory.
    resting: Option<LruCache<InstanceId, ()>>,
    /// Number of pending store lookups per instance. An instance in this map stays in memory, so
    /// that no store answer is older than the state in memory.
    sought: HashMap<InstanceId, usize>,
    /// Number of instances that are not retired, including those that are not in memory.
    len: usize,
}

impl InstanceTable {
    /// Loads the instances of a store in the state of `recovered`.
    pub(crate) async fn restore(
        store: &dyn Store,
        recovered: &RecoveredState,
    ) -> Result<Self, StoreError> {
        let at_work: HashSet<&InstanceId> = recovered
            .pending
            .iter()
            .map(|event| &event.target)
            .collect();
        let mut instances = InstanceTable::with_max_idle(store.remembered_outside());
        if instances.resting.is_none() {
            for meta in store.instances().await? {
                instances.add(with_checked_status(store, meta, &at_work).await);
            }
            return Ok(instances);
        }
        if let Some(count) = store.idle_instances() {
            instances.len = count;
            return Ok(instances);
        }
        let mut last = None;
        loop {
            let page = store.instances_behind(last.as_ref()).await?;
            let Some(meta) = page.last() else {
                return Ok(instances);
            };
            last = Some(meta.id());
            for meta in page {
                instances.len += usize::from(
                    with_checked_status(store, meta, &at_work).await.status
                        != InstanceStatus::Retired,
                );
            }
        }
    }

    /// Creates an empty table that keeps at most `max_idle` idle instances in memory; `None` for no
    /// limit.
    fn with_max_idle(max_idle: Option<usize>) -> Self {
        let resting = max_idle.map(|max_idle| {
            LruCache::new(NonZeroUsize::new(max_idle).unwrap_or(NonZeroUsize::MIN))
        });
        let (by_agent, sought) = (HashMap::new(), HashMap::new());
        InstanceTable {
            by_agent,
            warm: ConversationCache::default(),
            resting,
            sought,
            len: 0,
        }
    }

    /// Returns true if idle instances are dropped from memory.
    pub(super) fn evicts_idle(&self) -> bool {
        self.resting.is_some()
    }

    /// Returns true if only the store can answer if the instance exists.
    pub(super) fn may_be_evicted(&self, id: &InstanceId) -> bool {
        self.evicts_idle() && self.get(id).is_none_or(|instance| instance.is_unknown)
    }

    /// Counts a pending store lookup.
    pub(super) fn count_lookup_start(&mut self, id: &InstanceId) {
        *self.sought.entry(id.clone()).or_default() += 1;
    }

    /// Applies the store's answer to a lookup: adds a missing instance, or fills in a placeholder.
    /// An instance that is known already is newer than the answer.
    pub(super) fn apply_lookup(
        &mut self,
        id: &InstanceId,
        meta: Option<InstanceMeta>,
        now: DateTime<Utc>,
    ) {
        self.count_lookup_end(id);
        let Some(instance) = self.get_mut(id) else {
            if let Some(meta) = meta {
                self.by_agent.entry(id.agent.clone()).or_default().insert(
                    id.instance_key.as_str().into(),
                    Box::new(InstanceEntry::new(meta.into())),
                );
            }
            return;
        };
        if !instance.is_unknown {
            return;
        }
        (instance.is_unknown, instance.has_store_work) = (false, false);
        if let Some(meta) = meta {
            instance.known = meta.into();
            instance.is_new = false;
            // The instance was counted as a new one.
            self.len -= 1;
            self.revive_for_event(id, now);
            if let Some(instance) = self.get_mut(id)
                && instance
                    .queue
                    .iter()
                    .any(|event| instance.known.is_released_by(event))
            {
                self.release_from_owner(id, now);
            }
        }
    }

    /// Counts a pending store lookup down.
    pub(super) fn count_lookup_end(&mut self, id: &InstanceId) {
        if let Some(count) = self.sought.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                self.sought.remove(id);
            }
        }
    }

    /// Adds a placeholder for the instance of an event while the store looks it up.
    pub(super) fn add_placeholder(&mut self, event: &AgentEvent, now: DateTime<Utc>) {
        let instance = self.add_for_event(event, now);
        (instance.is_unknown, instance.has_store_work) = (true, true);
    }

    /// Marks an instance as idle. If too many idle instances are in memory, drops the least recently
    /// used one, unless the store has no current record of it or a lookup is pending.
    pub(super) fn mark_idle(&mut self, id: &InstanceId) {
        let Some(idle_instances) = &mut self.resting else {
            return;
        };
        // `push` returns the same instance if it was in the cache, else the one that it evicted.
        let Some((evicted, ())) = idle_instances
            .push(id.clone(), ())
            .filter(|(evicted, ())| evicted != id)
        else {
            return;
        };
        let may_drop = |instance: &InstanceEntry| instance.is_idle() && !instance.is_new;
        if !self.sought.contains_key(&evicted) && self.get(&evicted).is_some_and(may_drop) {
            self.remove(&evicted);
        }
    }

    /// Returns the number of instances that are not retired.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns an instance in memory; `None` if it is unknown or evicted.
    pub(super) fn get(&self, id: &InstanceId) -> Option<&InstanceEntry> {
        self.by_agent
            .get(&id.agent)?
            .get(&*id.instance_key)
            .map(|instance| &**instance)
    }

    /// Returns an instance in memory; `None` if it is unknown or evicted.
    pub(super) fn get_mut(&mut self, id: &InstanceId) -> Option<&mut InstanceEntry> {
        self.by_agent
            .get_mut(&id.agent)?
            .get_mut(&*id.instance_key)
            .map(|instance| &mut **instance)
    }

    /// Returns all instances in memory, each with its agent and key.
    fn iter(&self) -> impl Iterator<Item = (&str, &str, &InstanceEntry)> {
        self.by_agent.iter().flat_map(|(agent, instances)| {
            instances
                .iter()
                .map(move |(key, instance)| (&**agent, &**key, &**instance))
        })
    }

    /// Returns the instance of an event. Creates a missing instance, owned by the sender; revives a
    /// retired instance.
    pub(super) fn of_event(
        &mut self,
        event: &AgentEvent,
        now: DateTime<Utc>,
    ) -> &mut InstanceEntry {
        let id = &event.target;
        if self.get(id).is_none() {
            self.add_for_event(event, now);
        }
        self.revive_for_event(id, now);
        if self
            .get(id)
            .is_some_and(|instance| instance.known.is_released_by(event))
        {
            self.release_from_owner(id, now);
        }
        self.get_mut(id).expect("it is there, or was just added")
    }

    /// Detaches an instance from the one that started it. If that one works for another user, its
    /// programs end.
    fn release_from_owner(&mut self, id: &InstanceId, now: DateTime<Utc>) {
        let has_former_programs = self.is_of_other_user(id);
        if let Some(instance) = self.get_mut(id) {
            instance.release_from_owner(now);
            instance.has_former_programs |= has_former_programs;
        }
    }

    /// Returns true if an instance with another key started this one, directly or through others.
    /// Returns true also for an unknown one: it is not in memory.
    fn is_of_other_user(&self, id: &InstanceId) -> bool {
        let owner_of =
            |id: &InstanceId| self.get(id).map(|instance| instance.known.owner().cloned());
        let mut owners = access_end::owners(id, |id| owner_of(id).flatten());
        owners.any(|owner| owner.instance_key != id.instance_key || owner_of(&owner).is_none())
    }

    /// Adds a new instance for the target of an event.
    fn add_for_event(&mut self, event: &AgentEvent, now: DateTime<Utc>) -> &mut InstanceEntry {
        let meta = new_meta(&event.target, event.caller().cloned(), None, now);
        let instance = self.add(InstanceMeta {
            narrowing: event.terms.narrowing.clone(),
            ..meta
        });
        instance.is_new = true;
        instance
    }

    /// Revives a retired instance because an event has arrived.
    fn revive_for_event(&mut self, id: &InstanceId, now: DateTime<Utc>) {
        let forgets = self.evicts_idle();
        if self.revive(id, now).is_some() {
            // Otherwise the next turn writes the status to the store.
            if let Some(instance) = self.get_mut(id) {
                instance.is_new |= forgets;
            }
        }
    }

    /// Returns the instances in memory that `id` started, directly or through others.
    pub(super) fn started_by(&self, id: &InstanceId) -> Vec<InstanceId> {
        let owner_of = |id: &InstanceId| self.get(id)?.known.owner().cloned();
        let owned = self.iter().filter(|(.., one)| one.known.has_owner());
        owned
            .map(|(agent, key, _)| InstanceId::new(agent, key))
            .filter(|one| access_end::has_started(id, one, owner_of))
            .collect()
    }

    /// Returns the idle instances in memory, each with its agent and key.
    pub(super) fn idle_instances(
        &self,
    ) -> impl Iterator<Item = (&str, &str, &CompactInstanceMeta)> {
        let idle = self.iter().filter(|(.., instance)| instance.is_idle());
        idle.map(|(agent, key, instance)| (agent, key, &instance.known))
    }

    /// Retires an idle instance and drops its cached conversation. Returns its new metadata.
    pub(super) fn retire(&mut self, id: &InstanceId, now: DateTime<Utc>) -> Option<InstanceMeta> {
        drop(self.take_conversation(id));
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

    /// Revives a retired instance; `None` if it is not retired.
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

    /// Removes an instance from memory without changing the count.
    pub(super) fn remove(&mut self, id: &InstanceId) {
        drop(self.take_conversation(id));
        if let Some(instances) = self.by_agent.get_mut(&id.agent) {
            instances.remove(&*id.instance_key);
        }
    }

    /// Adds an instance that is already in the store.
    pub(super) fn add(&mut self, meta: InstanceMeta) -> &mut InstanceEntry {
        let id = meta.id();
        let instance = Box::new(InstanceEntry::new(meta.into()));
        let instances = self.by_agent.entry(id.agent).or_default();
        // The instance can exist already if a user copied its directory.
        let before = instances
            .remove(&*id.instance_key)
            .is_some_and(|before| !before.known.is_retired());
        self.len = self.len + usize::from(!instance.known.is_retired()) - usize::from(before);
        instances.entry(id.instance_key.into()).or_insert(instance)
    }

    /// Returns the metadata of all instances, oldest first. `stored` lists the instances in the
    /// store if some are not in memory.
    pub(super) fn instance_metas(&self, stored: Vec<InstanceMeta>) -> Vec<InstanceMeta> {
        let mut metas = Vec::new();
        let mut unknown = HashSet::new();
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
        let active_metas = self
            .iter()
            .map(|(agent, key, instance)| instance.current_meta(agent, key));
        metas.extend(
            active_metas.filter(|meta| unknown.is_empty() || !unknown.contains(&meta.id())),
        );
        metas.sort_by_cached_key(|meta| (meta.created_at, meta.id()));
        metas
    }

    /// Caches the conversation of an instance after its turn.
    pub(super) fn cache_conversation(&mut self, id: &InstanceId, log: ConversationLog) {
        if self.get(id).is_some() {
            self.warm.put(id, log);
        }
    }

    /// Takes the cached conversation for the next turn.
    pub(super) fn take_conversation(&mut self, id: &InstanceId) -> Option<ConversationLog> {
        self.warm.take(id)
    }
}

impl InstanceEntry {
    /// Creates an idle entry for an instance whose record is in the store.
    fn new(known: CompactInstanceMeta) -> Self {
        let queue = VecDeque::new();
        let is_new = false;
        let has_store_work = false;
        let is_unknown = false;
        let has_former_programs = false;
        InstanceEntry {
            known,
            queue,
            turn: None,
            is_new,
            has_store_work,
            is_unknown,
            has_former_programs,
        }
    }

    /// Detaches this instance from the instance that started it, and from the directory of that
    /// instance. Without this, an agent could guess the key of a user, start the instance first and
    /// see later inputs of the user.
    pub(super) fn release_from_owner(&mut self, now: DateTime<Utc>) {
        // The next turn stores an instance that counts as new.
        self.is_new |= self.known.release_from_owner(now);
    }

    /// Returns the metadata; `id` is the id of this instance.
    pub(super) fn meta(&self, id: &InstanceId) -> InstanceMeta {
        self.known.meta(&id.agent, &id.instance_key)
    }

    /// Returns true if no turn and no store work runs and no event is queued.
    pub(super) fn is_idle(&self) -> bool {
        self.turn.is_none() && self.queue.is_empty() && !self.has_store_work
    }

    /// Returns the metadata with the current status.
    fn current_meta(&self, agent: &str, instance_key: &str) -> InstanceMeta {
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

/// Returns the initial metadata of an instance.
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
        released_at: None,
        cwd,
        retired_at: None,
        narrowing: None,
        spending: Default::default(),
    }
}

/// Corrects the status of an instance that is stored as processing but has no pending event. This
/// happens if the process crashed between the end of a turn and its last write.
async fn with_checked_status(
    store: &dyn Store,
    mut meta: InstanceMeta,
    at_work: &HashSet<&InstanceId>,
) -> InstanceMeta {
    if meta.status == InstanceStatus::Processing && !at_work.contains(&meta.id()) {
        meta.status = InstanceStatus::Idle;
        if let Err(error) = store.put_instance(&meta).await {
            tracing::warn!(instance = %meta.id(), %error, "failed to correct the stored \
                status of an instance; it remains `processing` until its next turn");
        }
    }
    meta
}

/// Returns the description of an instance for tools.
pub(crate) fn describe_instance(meta: InstanceMeta) -> SpawnedAgentInfo {
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

    /// An agent that used a key first must not see later user input with this key.
    #[test]
    fn an_external_input_releases_an_instance_from_its_owner() {
        let now = DateTime::UNIX_EPOCH;
        let id = instance("key");
        let started = InstanceMeta {
            owner: Some(instance("owner")),
            cwd: Some("directory".to_owned()),
            ..meta(&id)
        };
        let mut instances = InstanceTable::with_max_idle(None);
        instances.add(started.clone());
        let mut request = event("e1", &id);
        request.callers = vec![instance("owner")];
        assert_eq!(instances.of_event(&request, now).meta(&id), started);
        let released = instances.of_event(&event("e2", &id), now).meta(&id);
        assert_eq!((released.owner, released.cwd), (None, None));
        assert_eq!(released.released_at, Some(now));
    }

    #[test]
    fn a_caller_with_the_same_key_releases_an_instance_of_another_owner() {
        let now = DateTime::UNIX_EPOCH;
        let (id, other) = (instance("bob"), instance("alice"));
        for (owner, callers, is_released) in [
            (&other, vec![InstanceId::new("help", "bob")], true),
            (&other, vec![other.clone()], false),
            (
                &other,
                vec![other.clone(), InstanceId::new("help", "bob")],
                false,
            ),
            (
                &InstanceId::new("help", "bob"),
                vec![InstanceId::new("b", "bob")],
                false,
            ),
        ] {
            let mut instances = InstanceTable::with_max_idle(None);
            instances.add(InstanceMeta {
                owner: Some(owner.clone()),
                ..meta(&id)
            });
            let mut request = event("e1", &id);
            request.callers = callers;
            let owner = instances.of_event(&request, now).meta(&id).owner;
            assert_eq!(owner.is_none(), is_released, "{:?}", request.callers);
        }
    }

    #[test]
    fn an_idle_instance_entry_has_at_most_144_bytes() {
        // The table slot and the key take additional memory.
        assert!(
            size_of::<InstanceEntry>() <= 144,
            "{} bytes",
            size_of::<InstanceEntry>()
        );
    }

    #[test]
    fn the_instance_count_excludes_retired_instances() {
        let now = DateTime::UNIX_EPOCH;
        let (one, two) = (instance("one"), instance("two"));
        let retired = InstanceMeta {
            status: InstanceStatus::Retired,
            retired_at: Some(now),
            ..meta(&two)
        };
        let mut instances = InstanceTable::with_max_idle(None);
        for meta in [meta(&one), retired.clone(), retired] {
            instances.add(meta);
        }
        assert_eq!(
            (instances.len(), instances.instance_metas(Vec::new()).len()),
            (1, 2)
        );
        instances.of_event(&event("e", &two), now);
        assert_eq!(instances.len(), 2);
        assert!(
            instances
                .retire(&one, now)
                .is_some_and(|meta| meta.status == InstanceStatus::Retired)
        );
        instances.remove(&one);
        assert_eq!(
            (instances.len(), instances.instance_metas(Vec::new()).len()),
            (1, 1)
        );
    }

    /// Returns the keys of the instances in memory.
    fn keys_in_memory(instances: &InstanceTable) -> Vec<&str> {
        let mut keys: Vec<_> = instances.iter().map(|(_, key, _)| key).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn only_the_latest_idle_instances_stay_in_memory() {
        let now = DateTime::UNIX_EPOCH;
        let ids = ["a", "b", "c", "d"].map(instance);
        let mut instances = InstanceTable::with_max_idle(Some(2));
        for id in &ids {
            instances.add(meta(id));
            instances.mark_idle(id);
        }
        assert_eq!(
            (keys_in_memory(&instances), instances.len()),
            (vec!["c", "d"], 4)
        );
        instances
            .of_event(&event("e", &ids[2]), now)
            .queue
            .push_back(event("e", &ids[2]));
        instances.count_lookup_start(&ids[3]);
        for id in &ids[..2] {
            instances.apply_lookup(id, Some(meta(id)), now);
            instances.mark_idle(id);
        }
        assert_eq!(
            keys_in_memory(&instances),
            ["a", "b", "c", "d"],
            "c has a queued event and d has a pending lookup"
        );
        instances.apply_lookup(&ids[3], Some(meta(&ids[3])), now);
        instances.mark_idle(&ids[3]);
        assert_eq!(
            (keys_in_memory(&instances), instances.len()),
            (vec!["b", "c", "d"], 4)
        );
    }

    #[test]
    fn a_placeholder_counts_as_new_until_its_store_lookup_finishes() {
        let now = DateTime::UNIX_EPOCH;
        let old = instance("old");
        let retired = instance("retired");
        let new = instance("new");
        let retired_meta = InstanceMeta {
            status: InstanceStatus::Retired,
            retired_at: Some(now),
            ..meta(&retired)
        };
        let mut instances = InstanceTable::with_max_idle(Some(9));
        instances.len = 1;
        for (id, known, len) in [
            (&old, Some(meta(&old)), 1),
            (&retired, Some(retired_meta), 2),
            (&new, None, 3),
        ] {
            instances.add_placeholder(&event("e", id), now);
            assert_eq!(
                (instances.len(), instances.may_be_evicted(id)),
                (if *id == old { 2 } else { len }, true)
            );
            instances.count_lookup_start(id);
            instances.apply_lookup(id, known, now);
            assert_eq!(
                (instances.len(), instances.may_be_evicted(id)),
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
