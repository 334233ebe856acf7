//! One task owns the instances. Everything that concerns them comes to it as a [`Command`]; it alone decides whose turn
//! begins, and it never waits for a disk or for a turn.

mod instances;
mod known;
mod lifecycle;
mod pending;
mod refusal;
mod scheduling;
mod settling;
mod stalled;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::event::TurnResult;
use crate::footing::{Durable, Footing};
use crate::ids::InstanceId;
use crate::inbound::AgentEvent;
use crate::instance::{TurnEnd, failed_result};
use crate::kept::{KeptResult, Shelf};
use crate::narrowing::Narrowing;
use crate::ports::store::{HandledEvent, InboxRecord, InstanceMeta, Recovered, StoreError};
use crate::routing::WaitGraph;
use crate::store::handled::Handled;
use crate::turn::store_failed;

pub(crate) use instances::describe;
use instances::{Instances, new_meta, settle_status};
pub use lifecycle::Tended;
use pending::{AllPending, Pending, Waiter};
pub use refusal::Refusal;
use settling::Settling;
use stalled::Stalled;

/// A message to the orchestrator.
pub enum Command {
    /// Handle an event. `accepted` is answered once it is on disk, `waiter` once its turn is over.
    Submit {
        /// The event.
        event: Box<AgentEvent>,
        /// Who waits for the result.
        waiter: Option<oneshot::Sender<TurnResult>>,
        /// What the turn stands on that waits. It is told the result before that is on disk.
        footing: Option<Arc<Footing>>,
        /// Who waits for the acceptance.
        accepted: oneshot::Sender<Result<(), Refusal>>,
    },
    /// The store has put an accepted event on disk, or could not.
    Durable {
        /// The event.
        event: Box<AgentEvent>,
        /// Whether it is there.
        written: Result<(), StoreError>,
    },
    /// The turn of a question is over as soon as that is on disk, and a kill does not take it any more.
    Answered {
        /// The question.
        event_id: String,
        /// What came of it.
        result: Box<TurnResult>,
        /// Tells when it is on disk.
        durable: Durable,
    },
    /// Tell whether a turn has ended, as far as is remembered.
    IsOver {
        /// Which one.
        turn_id: String,
        /// Whether it has.
        answer: oneshot::Sender<bool>,
    },
    /// Nobody waits any more for the answer to an event.
    Abandon {
        /// The event.
        event_id: String,
        /// Why.
        reason: String,
    },
    /// Cancel the running turn of an instance.
    Cancel {
        /// The instance.
        instance: InstanceId,
        /// Whether one ran.
        answer: oneshot::Sender<bool>,
    },
    /// Prepare an instance.
    Spawn {
        /// Which one.
        request: SpawnRequest,
        /// Whether it is new.
        answer: oneshot::Sender<Result<bool, Refusal>>,
    },
    /// Tell what instances there are, oldest first.
    List {
        /// To whom.
        answer: oneshot::Sender<Vec<InstanceMeta>>,
    },
    /// Tell when nothing is left to do in a causal chain.
    Settled {
        /// Its trace.
        trace_id: String,
        /// Who is told.
        answer: oneshot::Sender<()>,
    },
    /// A turn waits for a person: there may be room for another.
    Asked,
    /// Another generation is in place.
    Swapped,
    /// An idle instance was put away.
    Tended {
        /// Which one.
        instance: InstanceId,
        /// How.
        done: Tended,
    },
    /// Take no more inputs, wait for running turns within the grace period, then end.
    Shutdown {
        /// How long to wait.
        grace: std::time::Duration,
    },
}

/// An instance that somebody wants.
pub struct SpawnRequest {
    /// Who it shall be.
    pub id: InstanceId,
    /// Who wants it; `None` for the instance itself.
    pub owner: Option<InstanceId>,
    /// Where its tools shall work.
    pub cwd: Option<String>,
    /// The only tools that may run in its turns.
    pub narrowing: Option<Narrowing>,
}

/// A turn that runs.
struct RunningTurn {
    event: AgentEvent,
    cancel: CancellationToken,
    joined: crate::turn::JoinBox,
    /// Something came for the instance while it ran.
    is_wanted: bool,
}

/// The task's state.
pub(crate) struct Orchestrator {
    engine: Arc<Engine>,
    instances: Instances,
    pending: AllPending,
    handled: Handled<KeptResult>,
    results: Shelf,
    /// Queued events whose turn had begun before it was cut off. They can't be withdrawn, only cancelled.
    begun: HashSet<String>,
    /// Those of them that shall end as soon as they have taken up what had happened.
    cancelled: HashSet<String>,
    waits: WaitGraph,
    stalled: Stalled,
    settling: Settling,
    /// Instances with something to do, in the order in which they came to it.
    ready: VecDeque<InstanceId>,
    is_ready: HashSet<InstanceId>,
    turns: JoinSet<(InstanceId, TurnEnd)>,
    turn_tasks: HashMap<Id, InstanceId>,
    stopping: Option<tokio::time::Instant>,
    /// When idle instances are looked after.
    tend_at: tokio::time::Instant,
    /// How many are being put away.
    tending: usize,
}

impl Orchestrator {
    /// Takes over what was left on disk.
    pub(crate) fn new(engine: Arc<Engine>, recovered: Recovered, metas: Vec<InstanceMeta>) -> Self {
        let metas = settle_status(&*engine.store, metas, &recovered);
        let mut handled = Handled::default();
        for HandledEvent { event_id, result, needed_by } in recovered.handled {
            let size = result.size();
            handled.put(&event_id, result, size, needed_by);
        }
        let mut orchestrator = Orchestrator {
            engine,
            instances: Instances::restore(metas),
            pending: AllPending::default(),
            handled,
            results: Shelf::default(),
            begun: recovered.begun.into_iter().collect(),
            cancelled: HashSet::new(),
            waits: WaitGraph::default(),
            stalled: Stalled::default(),
            settling: Settling::default(),
            ready: VecDeque::new(),
            is_ready: HashSet::new(),
            turns: JoinSet::new(),
            turn_tasks: HashMap::new(),
            stopping: None,
            tend_at: tokio::time::Instant::now(),
            tending: 0,
        };
        for event in recovered.pending {
            orchestrator.enqueue_recovered(event);
        }
        orchestrator
    }

    /// Runs until everybody who could send a command is gone, or after a shutdown.
    pub(crate) async fn run(mut self, mut commands: UnboundedReceiver<Command>) {
        self.start_turns();
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.handle(command),
                    None => break,
                },
                Some(ended) = self.turns.join_next_with_id() => self.turn_ended(ended),
                () = deadline(self.stopping) => self.cancel_all(),
                () = deadline(self.stalled.at()) => self.retry_stalled(),
                () = tokio::time::sleep_until(self.tend_at) => self.tend(),
            }
            self.start_turns();
            self.tell_settled();
            if self.stopping.is_some() && self.turns.is_empty() && self.tending == 0 {
                break;
            }
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Submit { event, waiter, footing, accepted } => self.submit(*event, waiter, footing, accepted),
            Command::Durable { event, written } => self.durable(*event, written),
            Command::Answered { event_id, result, durable } => self.answered(&event_id, &result, &durable),
            Command::IsOver { turn_id, answer } => drop(answer.send(self.is_over(&turn_id))),
            Command::Abandon { event_id, reason } => self.abandon(&event_id, reason),
            Command::Cancel { instance, answer } => drop(answer.send(self.cancel(&instance))),
            Command::Spawn { request, answer } => drop(answer.send(self.spawn(request))),
            Command::List { answer } => drop(answer.send(self.instances.metas())),
            Command::Settled { trace_id, answer } => self.settling.wait(trace_id, answer),
            // Turns are begun behind each command.
            Command::Asked => {}
            Command::Swapped => self.retire_without_agent(),
            Command::Tended { instance, done } => self.tended(instance, done),
            Command::Shutdown { grace } => self.stopping = Some(tokio::time::Instant::now() + grace),
        }
    }

    /// Whether a turn is known to have ended.
    fn is_over(&self, turn_id: &str) -> bool {
        AgentEvent::ids_for_turn(turn_id).iter().any(|event_id| self.handled.get(event_id).is_some())
    }

    fn submit(
        &mut self,
        event: AgentEvent,
        waiter: Option<oneshot::Sender<TurnResult>>,
        footing: Option<Arc<Footing>>,
        accepted: oneshot::Sender<Result<(), Refusal>>,
    ) {
        if let Some(kept) = self.handled.get(&event.id) {
            // Delivered again: it is accepted, and its result is known.
            let _ = accepted.send(Ok(()));
            if let Some(waiter) = waiter {
                let _ = waiter.send(kept.decode().unwrap_or_else(|error| unreadable(&event, &error)));
            }
            return;
        }
        if let Err(refusal) = self.admit(&event) {
            let _ = accepted.send(Err(refusal));
            return;
        }
        let caller = event.reply_to.as_ref().filter(|reply| !reply.async_).map(|reply| reply.caller.clone());
        let waiter = match self.waiter(waiter, caller, footing, &event.target) {
            Ok(waiter) => waiter,
            Err(refusal) => {
                let _ = accepted.send(Err(refusal));
                return;
            }
        };
        if let Some(known) = self.pending.get_mut(&event.id) {
            known.waiters.extend(waiter);
            // An event that is on disk has nobody waiting for that.
            if known.accepted.is_empty() {
                let _ = accepted.send(Ok(()));
            } else {
                known.accepted.push(accepted);
            }
            // Where its instance stands still, this sets it going again.
            self.make_ready(event.target);
            return;
        }
        let mut pending = Pending::of(&event);
        pending.waiters.extend(waiter);
        if event.is_asked_by_turn() {
            let _ = accepted.send(Ok(()));
            self.pending.insert(event.id.clone(), pending);
            self.take_question(event);
        } else {
            pending.accepted.push(accepted);
            self.pending.insert(event.id.clone(), pending);
            self.make_durable(event);
        }
    }

    /// Nobody is told anything before the answer, and with the answer the question is on disk, too. So its turn need not wait
    /// for that; it only must not do anything meanwhile that must not be done twice (`TurnContext::accept_durably`).
    fn take_question(&mut self, event: AgentEvent) {
        self.engine.store.submit_later(InboxRecord::Accepted { event: Box::new(event.clone()) });
        self.enqueue(event);
    }

    fn make_durable(&self, event: AgentEvent) {
        let commands = self.engine.commands.clone();
        let record = InboxRecord::Accepted { event: Box::new(event.clone()) };
        let on_durable = move |written| {
            // Without an orchestrator the event waits on disk for the next one.
            let _ = commands.send(Command::Durable { event: Box::new(event), written });
        };
        self.engine.store.submit(record, Box::new(on_durable));
    }

    fn durable(&mut self, event: AgentEvent, written: Result<(), StoreError>) {
        let Some(pending) = self.pending.get_mut(&event.id) else { return };
        let accepted = std::mem::take(&mut pending.accepted);
        let answer = written.map_err(|error| Refusal::store(&error));
        for accepted in accepted {
            let _ = accepted.send(answer.clone());
        }
        match answer {
            Ok(()) => self.enqueue(event),
            Err(_) => self.forget(&event.id, None),
        }
    }

    /// Turns that wait for an answer go on while it is put on disk. They do nothing meanwhile that others see, and nothing that
    /// must not be done twice; their journals tell what stands on it (`Footing`).
    fn answered(&mut self, event_id: &str, result: &TurnResult, durable: &Durable) {
        let Some(pending) = self.pending.get_mut(event_id) else { return };
        let waiters = std::mem::take(&mut pending.waiters).into_iter();
        let (turns, others) = waiters.partition(|waiter| waiter.footing.is_some());
        pending.waiters = others;
        let turns: Vec<Waiter> = turns;
        for Waiter { sender, caller, footing } in turns {
            if let Some(caller) = &caller {
                self.waits.done(caller, &pending.target);
            }
            if let Some(footing) = footing {
                footing.stand_on(event_id.to_owned(), durable.clone());
            }
            let _ = sender.send(result.clone());
        }
    }

    /// Puts an accepted event in its queue; an answer joins the turn that runs (rule A5).
    fn enqueue(&mut self, event: AgentEvent) {
        let now = self.engine.clock.now();
        let instance = self.instances.of_event(&event, now);
        match &instance.turn {
            Some(turn) if event.is_response() => turn.joined.put(event),
            _ => {
                let (id, urgent) = (event.target.clone(), event.terms.urgent);
                if urgent {
                    let begun = &self.begun;
                    let is_before = |waiting: &AgentEvent| waiting.terms.urgent || begun.contains(&waiting.id);
                    let place = instance.queue.iter().position(|waiting| !is_before(waiting));
                    instance.queue.insert(place.unwrap_or(instance.queue.len()), event);
                } else {
                    instance.queue.push_back(event);
                }
                self.make_ready_by(id, urgent);
            }
        }
    }

    fn enqueue_recovered(&mut self, event: AgentEvent) {
        self.pending.insert(event.id.clone(), Pending::of(&event));
        self.enqueue(event);
    }

    /// Takes back an event: out of its queue, or by cancelling its turn, unless somebody else waits for it (rule A2).
    fn abandon(&mut self, event_id: &str, reason: String) {
        let Some(pending) = self.pending.get_mut(event_id) else { return };
        let (target, mut gone) = (pending.target.clone(), Vec::new());
        pending.waiters.retain_mut(|waiter| {
            let closed = waiter.sender.is_closed();
            if closed {
                gone.extend(waiter.caller.take());
            }
            !closed
        });
        let waited_for = !pending.waiters.is_empty();
        for caller in gone {
            self.waits.done(&caller, &target);
        }
        if waited_for {
            return;
        }
        let Some(instance) = self.instances.get_mut(&target) else { return };
        if let Some(turn) = instance.turn.as_ref().filter(|turn| turn.event.id == event_id) {
            turn.cancel.cancel();
            return;
        }
        if self.begun.contains(event_id) {
            self.cancelled.insert(event_id.to_owned());
            self.make_ready(target);
            return;
        }
        let before = instance.queue.len();
        instance.queue.retain(|event| event.id != event_id);
        if instance.queue.len() < before {
            let record = InboxRecord::Withdrawn { event_id: event_id.to_owned(), reason };
            self.engine.store.submit(record, Box::new(|_| {}));
            self.forget(event_id, None);
        }
    }

    fn cancel(&self, instance: &InstanceId) -> bool {
        let turn = self.instances.get(instance).and_then(|instance| instance.turn.as_ref());
        turn.map(|turn| turn.cancel.cancel()).is_some()
    }

    fn cancel_all(&mut self) {
        // Once is enough; what ignores it is dropped with the runtime.
        self.stopping = Some(tokio::time::Instant::now() + std::time::Duration::from_secs(3_600));
        for instance in self.turn_tasks.values() {
            self.cancel(instance);
        }
    }

    fn spawn(&mut self, request: SpawnRequest) -> Result<bool, Refusal> {
        self.known_agent(&request.id.agent)?;
        refusal::fitting_key(&request.id)?;
        if let Some(meta) = self.instances.revive(&request.id, self.engine.clock.now()) {
            self.engine.store.put_meta(&meta).map_err(|error| Refusal::store(&error))?;
        }
        if self.instances.get(&request.id).is_some() {
            return Ok(false);
        }
        self.room_for_instance()?;
        let meta = InstanceMeta {
            narrowing: request.narrowing,
            ..new_meta(&request.id, request.owner, request.cwd, self.engine.clock.now())
        };
        self.engine.store.put_meta(&meta).map_err(|error| Refusal::store(&error))?;
        self.instances.add(meta);
        Ok(true)
    }

    /// An event is over: those who wait get the result, and callers go on.
    fn forget(&mut self, event_id: &str, result: Option<&TurnResult>) {
        self.tell(event_id, result);
        self.pending.remove(event_id);
        self.begun.remove(event_id);
        self.cancelled.remove(event_id);
    }

    /// Those who wait for an event get `result`, or are told that there is none, and callers go on.
    fn tell(&mut self, event_id: &str, result: Option<&TurnResult>) {
        let Some(pending) = self.pending.get_mut(event_id) else { return };
        for waiter in std::mem::take(&mut pending.waiters) {
            if let Some(caller) = &waiter.caller {
                self.waits.done(caller, &pending.target);
            }
            if let Some(result) = result {
                let _ = waiter.sender.send(result.clone());
            }
        }
    }
}

/// An event was handled, and nobody can tell any more what came of it.
fn unreadable(event: &AgentEvent, cause: &serde_json::Error) -> TurnResult {
    let message = format!("the result of {} was kept and can't be read: {cause}", event.id);
    failed_result(event.turn_id(), store_failed(&StoreError { message }))
}

type Ended = Result<(Id, (InstanceId, TurnEnd)), JoinError>;

async fn deadline(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
