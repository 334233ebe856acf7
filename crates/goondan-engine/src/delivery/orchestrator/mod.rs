//! One task owns the instances. Everything that concerns them comes to it as a [`Command`]; it alone decides whose turn
//! begins, and it never waits for a disk or for a turn.

mod by_id;
mod command;
mod instances;
mod known;
mod lifecycle;
mod pending;
mod refusal;
mod scheduling;
mod seeking;
mod settling;
mod stalled;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::delivery::routing::WaitGraph;
use crate::engine::Engine;
use crate::turn::instance::{TurnEnd, failed_result};
use crate::turn::store_failed;
use goondan_core::event::TurnResult;
use goondan_core::handled::{Handled, KeptResult};
use goondan_core::ids::InstanceId;
use goondan_core::inbound::{AgentEvent, turn_id};
use goondan_core::ports::store::{HandledEvent, InstanceMeta, LogRecord, Recovered, StoreError};

pub use by_id::Found;
pub use command::{Command, SpawnRequest};
use instances::new_meta;
pub(crate) use instances::{Instances, describe};
pub use lifecycle::Tended;
use pending::{AllPending, Pending};
pub use refusal::Refusal;
pub use seeking::Looked;
use seeking::{Seeking, Wanted};
use settling::Settling;
use stalled::Stalled;

/// A turn that runs.
struct RunningTurn {
    event: AgentEvent,
    cancel: CancellationToken,
    joined: crate::turn::JoinBox,
    /// Something came for the instance while it ran.
    is_wanted: bool,
}

/// An event that somebody hands in.
struct Submission {
    event: Box<AgentEvent>,
    waiter: Option<oneshot::Sender<TurnResult>>,
    accepted: oneshot::Sender<Result<(), Refusal>>,
    /// The store was asked whether there is its instance.
    is_sought: bool,
}

/// The task's state.
pub(crate) struct Orchestrator {
    engine: Arc<Engine>,
    instances: Instances,
    pending: AllPending,
    handled: Handled<KeptResult>,
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
    /// Events on their way to the disk, in the order in which they came.
    accepting: FuturesOrdered<BoxFuture<'static, (AgentEvent, Result<(), StoreError>)>>,
    /// Instances that the store is asked for.
    seeking: Seeking,
    /// When idle instances are looked after.
    tend_at: tokio::time::Instant,
    /// How many are being put away.
    tending: usize,
    /// Instances that are not in memory may be of agents that a reload has removed.
    has_changed: bool,
    /// Those are being looked for that are to be retired or deleted.
    is_looking: bool,
}

impl Orchestrator {
    /// Takes over what was left on disk.
    pub(crate) fn new(engine: Arc<Engine>, recovered: Recovered, instances: Instances) -> Self {
        let mut handled = Handled::default();
        for HandledEvent {
            event_id,
            result,
            needed_by,
        } in recovered.handled
        {
            let size = result.size();
            handled.put(&event_id, result, size, needed_by);
        }
        let mut orchestrator = Orchestrator {
            engine,
            instances,
            pending: AllPending::default(),
            handled,
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
            accepting: FuturesOrdered::new(),
            seeking: Seeking::default(),
            tend_at: tokio::time::Instant::now(),
            tending: 0,
            has_changed: false,
            is_looking: false,
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
                Some((event, written)) = self.accepting.next() => self.durable(event, written),
                Some(sought) = self.seeking.next() => self.found(sought),
                () = deadline(self.stopping) => self.cancel_all(),
                () = deadline(self.stalled.at()) => self.retry_stalled(),
                () = tokio::time::sleep_until(self.tend_at) => self.tend(),
            }
            self.start_turns();
            self.tell_settled();
            if self.stopping.is_some() && self.turns.is_empty() && self.is_settled() {
                break;
            }
        }
    }

    /// Whether nothing is on its way to the store, or from there.
    fn is_settled(&self) -> bool {
        self.tending == 0 && self.accepting.is_empty() && self.seeking.is_empty()
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Submit {
                event,
                waiter,
                accepted,
            } => {
                self.submit(Submission {
                    event,
                    waiter,
                    accepted,
                    is_sought: false,
                });
            }
            Command::Abandon { event_id, reason } => self.abandon(&event_id, reason),
            Command::Cancel { instance, answer } => drop(answer.send(self.cancel(&instance))),
            Command::CancelEvent { event_id, answer } => {
                let _ = answer.send(self.cancel_event(&event_id));
            }
            Command::Find { event_id, answer } => drop(answer.send(self.find(&event_id))),
            Command::Spawn { request, answer } => self.spawn(request, answer, false),
            Command::List { answer } => self.list(answer),
            Command::Has { instance, answer } => self.tell_whether_there_is(instance, answer),
            Command::Looked(looked) => self.looked(looked),
            Command::Settled { trace_id, answer } => self.settling.wait(trace_id, answer),
            // Turns are begun behind each command.
            Command::Room => {}
            Command::Swapped => self.swapped(),
            Command::Tended { instance, done } => self.tended(instance, done),
            Command::Shutdown { grace } => {
                self.stopping = Some(tokio::time::Instant::now() + grace)
            }
        }
    }

    fn submit(&mut self, submission: Submission) {
        if let Some(submission) = self.seek_room(submission) {
            let Submission {
                event,
                waiter,
                accepted,
                ..
            } = submission;
            self.take(*event, waiter, accepted);
        }
    }

    fn take(
        &mut self,
        event: AgentEvent,
        waiter: Option<oneshot::Sender<TurnResult>>,
        accepted: oneshot::Sender<Result<(), Refusal>>,
    ) {
        if let Some(kept) = self.handled.get(&event.id) {
            // Delivered again: it is accepted, and its result is known.
            let _ = accepted.send(Ok(()));
            if let Some(waiter) = waiter {
                let _ = waiter.send(
                    kept.decode()
                        .unwrap_or_else(|error| unreadable(&event.id, error)),
                );
            }
            return;
        }
        if let Err(refusal) = self.admit(&event) {
            let _ = accepted.send(Err(refusal));
            return;
        }
        let caller = event
            .reply_to
            .as_ref()
            .filter(|reply| !reply.async_)
            .map(|reply| reply.caller.clone());
        let waiter = match self.waiter(waiter, caller, &event.target) {
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
        pending.accepted.push(accepted);
        self.pending.insert(event.id.clone(), pending);
        let durable = self
            .engine
            .store
            .append(LogRecord::Accepted(Box::new(event.clone())));
        self.accepting
            .push_back(async move { (event, durable.await) }.boxed());
    }

    /// An event is on disk, or could not be put there.
    fn durable(&mut self, event: AgentEvent, written: Result<(), StoreError>) {
        let Some(pending) = self.pending.get_mut(&event.id) else {
            return;
        };
        let accepted = std::mem::take(&mut pending.accepted);
        let answer = written.map_err(Refusal::from);
        for accepted in accepted {
            let _ = accepted.send(answer.clone());
        }
        match answer {
            Ok(()) => self.enqueue(event),
            Err(_) => self.forget(&event.id, None),
        }
    }

    /// Puts an accepted event in its queue; an answer joins the turn that runs (rule A5).
    fn enqueue(&mut self, event: AgentEvent) {
        let now = self.engine.clock.now();
        self.seek_for(&event, now);
        let instance = self.instances.of_event(&event, now);
        match &instance.turn {
            Some(turn) if event.is_response() => turn.joined.put(event),
            _ => {
                let (id, urgent) = (event.target.clone(), event.terms.urgent);
                if urgent {
                    let begun = &self.begun;
                    let is_before =
                        |waiting: &AgentEvent| waiting.terms.urgent || begun.contains(&waiting.id);
                    let place = instance
                        .queue
                        .iter()
                        .position(|waiting| !is_before(waiting));
                    instance
                        .queue
                        .insert(place.unwrap_or(instance.queue.len()), event);
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
        let Some(pending) = self.pending.get_mut(event_id) else {
            return;
        };
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
        if self.cancel_begun(&target, event_id) {
            return;
        }
        let Some(instance) = self.instances.get_mut(&target) else {
            return;
        };
        let before = instance.queue.len();
        instance.queue.retain(|event| event.id != event_id);
        if instance.queue.len() < before {
            // Where that is lost, a turn nobody waits for runs at the next start.
            drop(self.engine.store.append(LogRecord::Withdrawn {
                event_id: event_id.to_owned(),
                reason,
            }));
            self.forget(event_id, None);
        }
    }

    fn cancel(&self, instance: &InstanceId) -> bool {
        let turn = self
            .instances
            .get(instance)
            .and_then(|instance| instance.turn.as_ref());
        turn.map(|turn| turn.cancel.cancel()).is_some()
    }

    fn cancel_all(&mut self) {
        // Once is enough; what ignores it is dropped with the runtime.
        self.stopping = Some(tokio::time::Instant::now() + std::time::Duration::from_secs(3_600));
        for instance in self.turn_tasks.values() {
            self.cancel(instance);
        }
    }

    fn spawn(
        &mut self,
        request: SpawnRequest,
        answer: oneshot::Sender<Result<bool, Refusal>>,
        is_sought: bool,
    ) {
        if !is_sought && self.instances.may_be_forgotten(&request.id) {
            return self.seek(request.id.clone(), Wanted::Spawn(request, answer));
        }
        match self.prepare(request) {
            Ok(None) => drop(answer.send(Ok(false))),
            Ok(Some((meta, is_new))) => self.put_before_turns(meta, is_new, answer),
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// What has to be written so that the instance is there, and whether it is new; nothing where it is there already.
    fn prepare(&mut self, request: SpawnRequest) -> Result<Option<(InstanceMeta, bool)>, Refusal> {
        self.known_agent(&request.id.agent)?;
        refusal::fitting_key(&request.id)?;
        if let Some(meta) = self.instances.revive(&request.id, self.engine.clock.now()) {
            return Ok(Some((meta, false)));
        }
        if self.instances.get(&request.id).is_some() {
            return Ok(None);
        }
        self.room_for_instance()?;
        let meta = InstanceMeta {
            narrowing: request.narrowing,
            ..new_meta(
                &request.id,
                request.owner,
                request.cwd,
                self.engine.clock.now(),
            )
        };
        self.instances.add(meta.clone());
        Ok(Some((meta, true)))
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
        let Some(pending) = self.pending.get_mut(event_id) else {
            return;
        };
        for waiter in std::mem::take(&mut pending.waiters) {
            if let Some(caller) = &waiter.caller {
                self.waits.done(caller, &pending.target);
            }
            if let Some(result) = result {
                let _ = waiter.sender.send(result.clone());
            }
        }
    }

    /// Those who wait from outside for an event get `result`, though its turn is not over; so do those who wait for a turn
    /// that waits for it. Turns themselves go on waiting.
    fn tell_outside(&mut self, event_id: &str, result: &TurnResult) {
        let Some(pending) = self.pending.get_mut(event_id) else {
            return;
        };
        let mut callers = Vec::new();
        for waiter in std::mem::take(&mut pending.waiters) {
            match waiter.caller.clone() {
                Some(caller) => {
                    callers.push(caller);
                    pending.waiters.push(waiter);
                }
                None => drop(waiter.sender.send(result.clone())),
            }
        }
        // Nobody waits in a circle, so this ends.
        for caller in callers {
            let turn = self
                .instances
                .get(&caller)
                .and_then(|instance| instance.turn.as_ref());
            if let Some((event_id, turn_id)) =
                turn.map(|turn| (turn.event.id.clone(), turn.event.turn_id()))
            {
                self.tell_outside(
                    &event_id,
                    &TurnResult {
                        turn_id,
                        ..result.clone()
                    },
                );
            }
        }
    }
}

/// An event was handled, and nobody can tell any more what came of it.
fn unreadable(event_id: &str, cause: serde_json::Error) -> TurnResult {
    let damaged = StoreError::Damaged {
        what: format!("the result of {event_id}"),
        cause: Arc::new(cause),
    };
    failed_result(turn_id(event_id), store_failed(&damaged))
}

type Ended = Result<(Id, (InstanceId, TurnEnd)), JoinError>;

async fn deadline(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
