//! Which nodes work for the one that leads, and where a turn runs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::wire::{Begin, CallNumber, EndOfTurn, ToWorker, TurnNumber, encode};
use crate::life::{Life, Mirror};
use crate::turn::instance::TurnStart;
use goondan_core::event::{RuntimeEvent, RuntimeEventKind, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::ports::approval::Grant;
use goondan_core::ports::cluster::{Crew, Member};

/// Of so many instances it is remembered where their last turn ran.
const HOMES: usize = 4_096;

/// A node; `None` is the one that leads.
type NodeName = Option<String>;

/// Where a turn runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// `None` is here.
    pub(crate) node: NodeName,
    /// The last turn of the instance ran there: what that node remembers of it is right.
    pub(crate) is_home: bool,
}

impl Place {
    /// On the only node.
    pub(crate) fn here() -> Self {
        Place {
            node: None,
            is_home: true,
        }
    }
}

/// How a turn ended on its node.
pub(crate) enum Ended {
    /// It is over, or the store has failed it.
    Done(Box<EndOfTurn>),
    /// The node has another project.
    Declined,
    /// It panicked.
    Panicked,
}

/// The nodes at work.
pub(crate) struct Roster {
    pub(crate) crew: Arc<dyn Crew>,
    state: Mutex<State>,
    /// Turns whose end a worker has told everybody, and not yet whoever waits for the turn.
    told: Mutex<HashSet<String>>,
}

struct State {
    nodes: BTreeMap<String, Node>,
    /// Where the last turn of an instance ran, for those that had one last.
    homes: LruCache<InstanceId, NodeName>,
    /// How many have each node for a home.
    residents: HashMap<NodeName, usize>,
    /// Where turns run now.
    placed: HashMap<InstanceId, NodeName>,
    last_turn: TurnNumber,
}

/// A worker.
struct Node {
    member: Member,
    turns: HashMap<TurnNumber, Remote>,
    calls: HashMap<CallNumber, Called>,
    /// Of all that runs there.
    run: Mirror,
    /// It gets no more turns: it is about to leave.
    is_leaving: bool,
}

impl Node {
    fn takes_turns(&self) -> bool {
        self.member.is_fit && self.member.turns > 0 && !self.is_leaving
    }
}

/// A turn that a worker runs.
struct Remote {
    ended: oneshot::Sender<Ended>,
    /// Of its instance.
    mirror: Mirror,
}

/// The place in which somebody waits for a result. Emptied, nobody waits any more.
pub(crate) type Slot = Arc<Mutex<Option<oneshot::Receiver<TurnResult>>>>;

/// What is done for a question of a worker.
pub(crate) struct Called {
    pub(crate) task: AbortHandle,
    pub(crate) slot: Option<Slot>,
}

impl Called {
    /// Nobody waits for the answer any more.
    fn end(self) {
        if let Some(slot) = self.slot {
            slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        self.task.abort();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.calls
            .drain()
            .for_each(|(_, called)| called.task.abort());
    }
}

impl Roster {
    pub(crate) fn new(crew: Arc<dyn Crew>) -> Arc<Self> {
        let state = State {
            nodes: BTreeMap::new(),
            homes: LruCache::new(NonZeroUsize::new(HOMES).expect("some are remembered")),
            residents: HashMap::new(),
            placed: HashMap::new(),
            last_turn: 0,
        };
        Arc::new(Roster {
            crew,
            state: Mutex::new(state),
            told: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn say(&self, node: &str, words: &ToWorker) {
        self.crew.say(node, encode(words));
    }

    /// Where the next turn of an instance may run; `None` where there is no room at the moment. An instance stays where its last
    /// turn ran, as long as that node is there; otherwise the node with the fewest turns gets it. `is_bound` keeps it here.
    pub(crate) fn choose(
        &self,
        id: &InstanceId,
        is_bound: bool,
        is_waiting: impl Fn(&InstanceId) -> bool,
    ) -> Option<Place> {
        let state = self.state();
        let mut load: HashMap<&NodeName, usize> = HashMap::new();
        for (_, node) in state.placed.iter().filter(|(id, _)| !is_waiting(id)) {
            *load.entry(node).or_default() += 1;
        }
        let load = |node: &NodeName| load.get(node).copied().unwrap_or_default();
        let home = state.homes.peek(id);
        let is_home = |node: &NodeName| home == Some(node);
        let free = |node: NodeName, most: usize| (load(&node) < most).then(|| (load(&node), node));
        let fit = state
            .nodes
            .values()
            .filter(|node| node.takes_turns())
            .map(|node| &node.member);
        // Who leaves turns to others runs them where there are none.
        let own_turns = self.crew.own_turns();
        let leaves_them = own_turns == 0 && !is_bound && fit.clone().next().is_some();
        let here = free(
            None,
            if own_turns == 0 && !leaves_them {
                usize::MAX
            } else {
                own_turns
            },
        );
        let place = |node: NodeName| Place {
            is_home: is_home(&node),
            node,
        };
        if is_bound || (is_home(&None) && !leaves_them) {
            return here.map(|(_, node)| place(node));
        }
        if let Some(member) = fit
            .clone()
            .find(|member| home.is_some_and(|home| home.as_ref() == Some(&member.node)))
        {
            return free(Some(member.node.clone()), member.turns).map(|(_, node)| place(node));
        }
        let free = fit
            .filter_map(|member| free(Some(member.node.clone()), member.turns))
            .chain(here);
        let residents = |node: &NodeName| state.residents.get(node).copied().unwrap_or_default();
        free.min_by_key(|(load, node)| (*load, residents(node)))
            .map(|(_, node)| place(node))
    }

    /// A turn of that instance begins there. Where it is forgotten that another one was here, gives that back: its next turn may
    /// run elsewhere, and what belongs to it here ends.
    pub(crate) fn take(&self, id: &InstanceId, place: &Place) -> Option<InstanceId> {
        let mut state = self.state();
        state.placed.insert(id.clone(), place.node.clone());
        let forgotten = state.settle(id, place.node.clone());
        self.note(&state, &place.node);
        match forgotten.filter(|(gone, _)| !state.placed.contains_key(gone))? {
            (gone, None) => Some(gone),
            (gone, Some(node)) => {
                self.say(&node, &ToWorker::PutAway { instance: gone });
                None
            }
        }
    }

    /// Its turn is over.
    pub(crate) fn over(&self, id: &InstanceId) {
        let mut state = self.state();
        if let Some(node) = state.placed.remove(id) {
            self.note(&state, &node);
        }
    }

    /// Tells people how many turns run there.
    fn note(&self, state: &State, node: &NodeName) {
        let running = state
            .placed
            .values()
            .filter(|placed| *placed == node)
            .count();
        self.crew.note_turns(vec![(node.clone(), running)]);
    }

    /// An instance is retired or deleted.
    pub(crate) fn put_away(&self, id: &InstanceId) {
        if let Some(Some(node)) = self.state().leave(id) {
            self.say(
                &node,
                &ToWorker::PutAway {
                    instance: id.clone(),
                },
            );
        }
    }

    /// A node has come, or has changed.
    pub(crate) fn put(&self, member: Member, run: &Arc<Life>) {
        let mut state = self.state();
        self.say(
            &member.node,
            &ToWorker::Fit {
                is_fit: member.is_fit,
            },
        );
        if let Some(node) = state.nodes.get_mut(&member.node) {
            node.member = member;
            return;
        }
        let (turns, calls, run) = (HashMap::new(), HashMap::new(), Mirror::of(Arc::clone(run)));
        state.nodes.insert(
            member.node.clone(),
            Node {
                member,
                turns,
                calls,
                run,
                is_leaving: false,
            },
        );
    }

    /// A node is about to leave. What it runs it ends, or it goes on elsewhere.
    pub(crate) fn leave(&self, node: &str) {
        self.state()
            .nodes
            .get_mut(node)
            .into_iter()
            .for_each(|node| node.is_leaving = true);
    }

    /// Another project serves here: no node gets turns before it is put again.
    pub(crate) fn doubt_all(&self) {
        self.state()
            .nodes
            .values_mut()
            .for_each(|node| node.member.is_fit = false);
    }

    /// A node has gone: whoever waits for its turns learns so.
    pub(crate) fn remove(&self, node: &str) {
        let mut state = self.state();
        let gone = state.nodes.remove(node);
        let name = Some(node.to_owned());
        let strays: Vec<_> = state
            .homes
            .iter()
            .filter(|(_, home)| **home == name)
            .map(|(id, _)| id.clone())
            .collect();
        for id in strays {
            state.homes.pop(&id);
        }
        state.residents.remove(&name);
        drop(state);
        drop(gone);
    }

    /// Hands a turn to a node. What comes back tells how it ended; it is closed where the node has gone.
    pub(crate) fn begin(
        &self,
        node: &str,
        start: &TurnStart,
        is_home: bool,
        grants: Vec<Grant>,
    ) -> Option<(TurnNumber, usize, oneshot::Receiver<Ended>)> {
        let mut state = self.state();
        state.last_turn += 1;
        let turn = state.last_turn;
        let (ended, end) = oneshot::channel();
        let mirror = Mirror::of(Arc::clone(&start.facts.life));
        state
            .nodes
            .get_mut(node)?
            .turns
            .insert(turn, Remote { ended, mirror });
        let joined = start.joined.behind(0);
        let given = joined.len();
        let (event, meta, is_new) = (start.event.clone(), start.meta.clone(), start.is_new);
        let begin = Begin {
            turn,
            event,
            meta,
            is_new,
            is_home,
            joined,
            grants,
        };
        self.say(node, &ToWorker::Begin(Box::new(begin)));
        Some((turn, given, end))
    }

    /// Something happens in a turn of a worker.
    pub(crate) fn happened(&self, event: &RuntimeEvent) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match &event.kind {
            RuntimeEventKind::TurnStarted { turn_id, .. } => drop(told.remove(turn_id)),
            RuntimeEventKind::TurnCompleted { turn_id, .. }
            | RuntimeEventKind::TurnFailed { turn_id, .. } => {
                told.insert(turn_id.clone());
            }
            _ => {}
        }
    }

    /// Whether everybody was told that a turn is over. Whoever waits for the turn asks once.
    pub(crate) fn was_told(&self, turn_id: &str) -> bool {
        self.told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(turn_id)
    }

    /// A turn of a node has ended.
    pub(crate) fn ended(&self, node: &str, turn: TurnNumber, end: Ended) {
        let remote = self
            .state()
            .nodes
            .get_mut(node)
            .and_then(|node| node.turns.remove(&turn));
        if let Some(remote) = remote {
            // Without a turn that waits, the swarm is ending.
            let _ = remote.ended.send(end);
        }
    }

    /// A sign of life from a node. Gives back whether a person is asked there from now on, or is not any more.
    pub(crate) fn sign(&self, node: &str, turn: Option<TurnNumber>, is_asked: bool) -> bool {
        let mut state = self.state();
        let Some(node) = state.nodes.get_mut(node) else {
            return false;
        };
        let mirror = match turn {
            None => Some(&mut node.run),
            Some(turn) => node.turns.get_mut(&turn).map(|remote| &mut remote.mirror),
        };
        mirror.is_some_and(|mirror| mirror.show(is_asked))
    }

    /// Something is done for a question of a node; `work` gives back what does it.
    pub(crate) fn call(&self, node: &str, call: CallNumber, work: impl FnOnce() -> Called) {
        // Held meanwhile: what is over at once is forgotten behind that.
        if let Some(node) = self.state().nodes.get_mut(node) {
            node.calls.insert(call, work());
        }
    }

    /// What is done for a question is over.
    pub(crate) fn called(&self, node: &str, call: CallNumber) {
        self.state()
            .nodes
            .get_mut(node)
            .map(|node| node.calls.remove(&call));
    }

    /// Nobody waits for these answers any more.
    pub(crate) fn gone(&self, node: &str, calls: &[CallNumber]) {
        let mut state = self.state();
        let Some(node) = state.nodes.get_mut(node) else {
            return;
        };
        calls
            .iter()
            .filter_map(|call| node.calls.remove(call))
            .for_each(Called::end);
    }
}

impl State {
    /// The home of an instance. Gives back an instance whose home is forgotten, with that home.
    fn settle(&mut self, id: &InstanceId, home: NodeName) -> Option<(InstanceId, NodeName)> {
        self.leave(id);
        *self.residents.entry(home.clone()).or_default() += 1;
        let forgotten = self.homes.push(id.clone(), home);
        self.moved_out(forgotten.as_ref().map(|(_, home)| home));
        forgotten
    }

    /// An instance has no home any more; gives back the one it had.
    fn leave(&mut self, id: &InstanceId) -> Option<NodeName> {
        let before = self.homes.pop(id);
        self.moved_out(before.as_ref());
        before
    }

    fn moved_out(&mut self, home: Option<&NodeName>) {
        if let Some(count) = home.and_then(|home| self.residents.get_mut(home)) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
