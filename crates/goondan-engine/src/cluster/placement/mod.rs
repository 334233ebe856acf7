//! Workers of the leader and the placement of turns.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::protocol::{CallNumber, EndOfTurn, ToWorker, TurnAssignment, TurnNumber, encode};
use crate::activity::{ActivityTracker, RemoteActivity};
use crate::turn::instance::TurnStart;
use goondan_core::event::{RuntimeEvent, RuntimeEventKind, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::ports::approval::ApprovalGrant;
use goondan_core::ports::cluster::{ClusterMember, ClusterMembership};

/// Maximum number of instances whose last node is remembered.
const MAX_REMEMBERED_HOMES: usize = 4_096;

/// Name of a node; `None` is the leader.
type NodeName = Option<String>;

/// Node that runs a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnPlacement {
    /// `None` is this node.
    pub(crate) node: NodeName,
    /// The last turn of the instance ran on the same node, so the node's caches of the instance are
    /// valid.
    pub(crate) is_home: bool,
}

impl TurnPlacement {
    /// Returns the place for a swarm with a single node.
    pub(crate) fn local() -> Self {
        TurnPlacement {
            node: None,
            is_home: true,
        }
    }
}

/// End of a turn that ran on a worker.
pub(crate) enum RemoteTurnEnd {
    /// The turn is over, or the store failed.
    Done(Box<EndOfTurn>),
    /// The node runs another project.
    Declined,
    Panicked,
}

/// The leader's table of workers and of the placement of instances.
pub(crate) struct WorkerPool {
    pub(crate) crew: Arc<dyn ClusterMembership>,
    state: Mutex<PlacementState>,
    /// Turns whose end a worker has published, but whose waiting task has not yet received it.
    published_ends: Mutex<HashSet<String>>,
}

struct PlacementState {
    nodes: BTreeMap<String, WorkerNode>,
    /// Node of the last turn of recent instances.
    home_nodes: LruCache<InstanceId, NodeName>,
    /// Number of `home_nodes` entries per node.
    instance_counts: HashMap<NodeName, usize>,
    /// Nodes of the running turns.
    placed: HashMap<InstanceId, NodeName>,
    last_turn: TurnNumber,
}

struct WorkerNode {
    member: ClusterMember,
    turns: HashMap<TurnNumber, WorkerTurn>,
    calls: HashMap<CallNumber, WorkerCall>,
    /// Activity of everything on the node.
    run: RemoteActivity,
    /// The node is about to leave and gets no further turns.
    is_leaving: bool,
}

impl WorkerNode {
    /// Returns true if turns may be placed on this node.
    fn takes_turns(&self) -> bool {
        self.member.is_fit && self.member.turns > 0 && !self.is_leaving
    }
}

struct WorkerTurn {
    ended: oneshot::Sender<RemoteTurnEnd>,
    /// Activity of the instance.
    mirror: RemoteActivity,
}

/// Receiver of a result. Emptied when the worker no longer waits for it.
pub(crate) type ResultSlot = Arc<Mutex<Option<oneshot::Receiver<TurnResult>>>>;

/// Work of the leader for a worker's call.
pub(crate) struct WorkerCall {
    pub(crate) task: AbortHandle,
    pub(crate) slot: Option<ResultSlot>,
}

impl WorkerCall {
    /// Cancels the work because the worker no longer waits for the answer.
    fn end(self) {
        if let Some(slot) = self.slot {
            slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        self.task.abort();
    }
}

impl Drop for WorkerNode {
    fn drop(&mut self) {
        for (_, called) in self.calls.drain() {
            called.task.abort();
        }
    }
}

impl WorkerPool {
    pub(crate) fn new(crew: Arc<dyn ClusterMembership>) -> Arc<Self> {
        let state = PlacementState {
            nodes: BTreeMap::new(),
            home_nodes: LruCache::new(
                NonZeroUsize::new(MAX_REMEMBERED_HOMES).expect("some are remembered"),
            ),
            instance_counts: HashMap::new(),
            placed: HashMap::new(),
            last_turn: 0,
        };
        Arc::new(WorkerPool {
            crew,
            state: Mutex::new(state),
            published_ends: Mutex::default(),
        })
    }

    /// Returns the placement state, locked.
    fn state(&self) -> MutexGuard<'_, PlacementState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message to a worker; ignored if the worker left.
    pub(crate) fn send(&self, node: &str, message: &ToWorker) {
        self.crew.send_message(node, encode(message));
    }

    /// Returns the node for the next turn of an instance, or `None` if all nodes are full. Prefers
    /// the node of its last turn, then the node with the fewest turns. `is_bound` restricts the
    /// choice to this node.
    pub(crate) fn choose_node(
        &self,
        id: &InstanceId,
        is_bound: bool,
        is_waiting: impl Fn(&InstanceId) -> bool,
    ) -> Option<TurnPlacement> {
        let state = self.state();
        let mut load: HashMap<&NodeName, usize> = HashMap::new();
        for (_, node) in state.placed.iter().filter(|(id, _)| !is_waiting(id)) {
            *load.entry(node).or_default() += 1;
        }
        let load = |node: &NodeName| load.get(node).copied().unwrap_or_default();
        let home = state.home_nodes.peek(id);
        let is_home = |node: &NodeName| home == Some(node);
        let free_node = |node: NodeName, max_turns: usize| {
            (load(&node) < max_turns).then(|| (load(&node), node))
        };
        let fit = state
            .nodes
            .values()
            .filter(|node| node.takes_turns())
            .map(|node| &node.member);
        // A leader that does not run turns itself still runs them if no worker is available.
        let own_turns = self.crew.own_turns();
        let leaves_them = own_turns == 0 && !is_bound && fit.clone().next().is_some();
        let own_node = free_node(
            None,
            if own_turns == 0 && !leaves_them {
                usize::MAX
            } else {
                own_turns
            },
        );
        let placement = |node: NodeName| TurnPlacement {
            is_home: is_home(&node),
            node,
        };
        if is_bound || (is_home(&None) && !leaves_them) {
            return own_node.map(|(_, node)| placement(node));
        }
        if let Some(member) = fit
            .clone()
            .find(|member| home.is_some_and(|home| home.as_ref() == Some(&member.node)))
        {
            return free_node(Some(member.node.clone()), member.turns)
                .map(|(_, node)| placement(node));
        }
        let free_nodes = fit
            .filter_map(|member| free_node(Some(member.node.clone()), member.turns))
            .chain(own_node);
        let instance_counts =
            |node: &NodeName| state.instance_counts.get(node).copied().unwrap_or_default();
        free_nodes
            .min_by_key(|(load, node)| (*load, instance_counts(node)))
            .map(|(_, node)| placement(node))
    }

    /// Records the start of a turn on a node. Returns an instance of this node whose entry was
    /// evicted. Its resources must be released, because its next turn may run on another node.
    pub(crate) fn take(&self, id: &InstanceId, placement: &TurnPlacement) -> Option<InstanceId> {
        let mut state = self.state();
        state.placed.insert(id.clone(), placement.node.clone());
        let forgotten = state.set_home(id, placement.node.clone());
        self.publish_load(&state, &placement.node);
        match forgotten.filter(|(evicted, _)| !state.placed.contains_key(evicted))? {
            (evicted, None) => Some(evicted),
            (evicted, Some(node)) => {
                self.send(&node, &ToWorker::PutAway { instance: evicted });
                None
            }
        }
    }

    /// Records the end of an instance's turn.
    pub(crate) fn end_placement(&self, id: &InstanceId) {
        let mut state = self.state();
        if let Some(node) = state.placed.remove(id) {
            self.publish_load(&state, &node);
        }
    }

    /// Publishes the number of turns on a node.
    fn publish_load(&self, state: &PlacementState, node: &NodeName) {
        let running = state
            .placed
            .values()
            .filter(|placed| *placed == node)
            .count();
        self.crew.note_turns(vec![(node.clone(), running)]);
    }

    /// Forgets a retired or deleted instance and notifies its node.
    pub(crate) fn release_instance(&self, id: &InstanceId) {
        if let Some(Some(node)) = self.state().take_home(id) {
            self.send(
                &node,
                &ToWorker::PutAway {
                    instance: id.clone(),
                },
            );
        }
    }

    /// Adds a node, or updates a known node.
    pub(crate) fn put(&self, member: ClusterMember, run: &Arc<ActivityTracker>) {
        let mut state = self.state();
        self.send(
            &member.node,
            &ToWorker::Fit {
                is_fit: member.is_fit,
            },
        );
        if let Some(node) = state.nodes.get_mut(&member.node) {
            node.member = member;
            return;
        }
        let (turns, calls, run) = (
            HashMap::new(),
            HashMap::new(),
            RemoteActivity::new(Arc::clone(run)),
        );
        state.nodes.insert(
            member.node.clone(),
            WorkerNode {
                member,
                turns,
                calls,
                run,
                is_leaving: false,
            },
        );
    }

    /// Stops assigning turns to a node that is about to leave. Turns that it does not finish resume
    /// on another node.
    pub(crate) fn mark_leaving(&self, node: &str) {
        if let Some(node) = self.state().nodes.get_mut(node) {
            node.is_leaving = true;
        }
    }

    /// Stops assigning turns until each node reports the new project, because the project of the
    /// leader has changed.
    pub(crate) fn mark_all_unfit(&self) {
        for node in self.state().nodes.values_mut() {
            node.member.is_fit = false;
        }
    }

    /// Removes a disconnected node. Waiters of its turns notice the closed channel.
    pub(crate) fn remove(&self, node: &str) {
        let mut state = self.state();
        let removed = state.nodes.remove(node);
        let name = Some(node.to_owned());
        let strays: Vec<_> = state
            .home_nodes
            .iter()
            .filter(|(_, home)| **home == name)
            .map(|(id, _)| id.clone())
            .collect();
        for id in strays {
            state.home_nodes.pop(&id);
        }
        state.instance_counts.remove(&name);
        drop(state);
        drop(removed);
    }

    /// Sends a turn to a node. The returned receiver yields its end and is closed if the node
    /// disconnects.
    pub(crate) fn begin(
        &self,
        node: &str,
        start: &TurnStart,
        is_home: bool,
        grants: Vec<ApprovalGrant>,
    ) -> Option<(TurnNumber, oneshot::Receiver<RemoteTurnEnd>)> {
        let mut state = self.state();
        state.last_turn += 1;
        let turn = state.last_turn;
        let (ended, end) = oneshot::channel();
        let mirror = RemoteActivity::new(Arc::clone(&start.facts.tracker));
        state
            .nodes
            .get_mut(node)?
            .turns
            .insert(turn, WorkerTurn { ended, mirror });
        start.joined.node_changed();
        let joined = start.joined.take_unsent();
        let event = start.event.clone();
        let meta = start.meta.clone();
        let is_new = start.is_new;
        let begin = TurnAssignment {
            turn,
            event,
            meta,
            is_new,
            is_home,
            interruption: start.interruption,
            joined,
            grants,
        };
        self.send(node, &ToWorker::Begin(Box::new(begin)));
        Some((turn, end))
    }

    /// Tracks which turns' ends a worker has published.
    pub(crate) fn track_turn_end(&self, event: &RuntimeEvent) {
        let mut published = self
            .published_ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &event.kind {
            RuntimeEventKind::TurnStarted { turn_id, .. } => drop(published.remove(turn_id)),
            RuntimeEventKind::TurnCompleted { turn_id, .. }
            | RuntimeEventKind::TurnFailed { turn_id, .. } => {
                published.insert(turn_id.clone());
            }
            _ => {}
        }
    }

    /// Returns true if the end of a turn was published, and forgets the turn. Call once per turn.
    pub(crate) fn take_published(&self, turn_id: &str) -> bool {
        self.published_ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(turn_id)
    }

    /// Delivers the end of a turn on a node.
    pub(crate) fn deliver_turn_end(&self, node: &str, turn: TurnNumber, end: RemoteTurnEnd) {
        let remote = self
            .state()
            .nodes
            .get_mut(node)
            .and_then(|node| node.turns.remove(&turn));
        if let Some(remote) = remote {
            // The receiver is missing only while the swarm shuts down.
            let _ = remote.ended.send(end);
        }
    }

    /// Records a heartbeat of a node. Returns true if its pending-approval state changed.
    pub(crate) fn record_heartbeat(
        &self,
        node: &str,
        turn: Option<TurnNumber>,
        is_asked: bool,
    ) -> bool {
        let mut state = self.state();
        let Some(node) = state.nodes.get_mut(node) else {
            return false;
        };
        let mirror = match turn {
            None => Some(&mut node.run),
            Some(turn) => node.turns.get_mut(&turn).map(|remote| &mut remote.mirror),
        };
        mirror.is_some_and(|mirror| mirror.record_heartbeat(is_asked))
    }

    /// Registers the work for a node's call; `work` starts it.
    pub(crate) fn call(&self, node: &str, call: CallNumber, work: impl FnOnce() -> WorkerCall) {
        // The lock is held while `work` starts, so that work that ends immediately is removed after
        // it was inserted.
        if let Some(node) = self.state().nodes.get_mut(node) {
            node.calls.insert(call, work());
        }
    }

    /// Removes finished work.
    pub(crate) fn remove_call(&self, node: &str, call: CallNumber) {
        self.state()
            .nodes
            .get_mut(node)
            .map(|node| node.calls.remove(&call));
    }

    /// Cancels work for calls whose answers the node no longer waits for.
    pub(crate) fn cancel_calls(&self, node: &str, calls: &[CallNumber]) {
        let mut state = self.state();
        let Some(node) = state.nodes.get_mut(node) else {
            return;
        };
        for call in calls.iter().filter_map(|call| node.calls.remove(call)) {
            call.end();
        }
    }
}

impl PlacementState {
    /// Sets the home of an instance. Returns an evicted entry.
    fn set_home(&mut self, id: &InstanceId, home: NodeName) -> Option<(InstanceId, NodeName)> {
        self.take_home(id);
        *self.instance_counts.entry(home.clone()).or_default() += 1;
        let forgotten = self.home_nodes.push(id.clone(), home);
        self.decrease_instance_count(forgotten.as_ref().map(|(_, home)| home));
        forgotten
    }

    /// Removes and returns the home of an instance.
    fn take_home(&mut self, id: &InstanceId) -> Option<NodeName> {
        let before = self.home_nodes.pop(id);
        self.decrease_instance_count(before.as_ref());
        before
    }

    /// Decreases the number of instances that have this home node.
    fn decrease_instance_count(&mut self, home: Option<&NodeName>) {
        if let Some(count) = home.and_then(|home| self.instance_counts.get_mut(home)) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
