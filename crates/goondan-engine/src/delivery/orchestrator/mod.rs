//! The task that owns all instances. It receives every operation as a [`OrchestratorCommand`]. Only this task
//! decides which turn begins, and it never waits for a disk or a turn.

mod chain_waiters;
mod command;
mod compact_meta;
mod event_lookup;
mod instance_lookup;
mod instances;
mod lifecycle;
mod pending;
mod scheduling;
mod stalled;
mod submission_checks;
mod submit_error;

use std::collections::{HashMap, HashSet, VecDeque};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
use crate::turn::{TurnInterruption, store_failure_error};
use goondan_core::agent_event::{AgentEvent, turn_id};
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{
    HandledEvent, InstanceMeta, LogRecord, RecoveredState, StoreError,
};
use goondan_core::result_cache::{EncodedResult, ResultCache};

use chain_waiters::ChainWaiters;
pub use command::{
    AcceptanceKind, EventState, InstanceScan, InstanceSpawnRequest, OrchestratorCommand,
    StoreWorkResult,
};
use instance_lookup::{LookupReason, PendingLookups};
use instances::new_meta;
pub(crate) use instances::{InstanceTable, describe_instance};
use pending::{PendingEvent, PendingEvents};
use stalled::StalledInstances;
pub use submit_error::SubmitError;

/// Time for aborted turns to end. A turn that blocks its thread ends with the process.
const DETACH_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

struct ActiveTurn {
    event: AgentEvent,
    cancel: CancellationToken,
    joined: crate::turn::JoiningEvents,
    /// An event for the instance arrived during the turn.
    is_wanted: bool,
}

struct EventSubmission {
    event: Box<AgentEvent>,
    waiter: Option<oneshot::Sender<TurnResult>>,
    accepted: oneshot::Sender<Result<AcceptanceKind, SubmitError>>,
    /// The store has already been asked if the instance exists.
    is_sought: bool,
}

pub(crate) struct Orchestrator {
    engine: Arc<Engine>,
    instances: InstanceTable,
    pending: PendingEvents,
    handled: ResultCache<EncodedResult>,
    /// Queued events whose turn began and was interrupted. They cannot be withdrawn, only
    /// cancelled.
    begun: HashSet<String>,
    /// Events whose turn was interrupted by the end of an earlier process, until the turn starts.
    interrupted: HashMap<String, TurnInterruption>,
    /// Interrupted turns to end once they have replayed their journal.
    cancelled: HashSet<String>,
    waits: WaitGraph,
    stalled: StalledInstances,
    chain_waiters: ChainWaiters,
    /// Instances with work, in the order in which the work arrived.
    ready: VecDeque<InstanceId>,
    is_ready: HashSet<InstanceId>,
    turns: JoinSet<(InstanceId, TurnEnd)>,
    turn_tasks: HashMap<Id, InstanceId>,
    stopping: Option<tokio::time::Instant>,
    /// The time for running turns is over.
    is_detached: bool,
    /// Events that are being written, in order of arrival.
    accepting: FuturesOrdered<BoxFuture<'static, (AgentEvent, Result<(), StoreError>)>>,
    seeking: PendingLookups,
    /// Time of the next check for idle instances.
    next_idle_check: tokio::time::Instant,
    /// Number of running store tasks for idle instances.
    tending: usize,
    /// A reload may have removed agents of instances that are not in memory.
    has_changed: bool,
    /// A scan for instances to retire or delete is running.
    is_looking: bool,
}

/// Returns how each of the `begun` turns was interrupted, by the id of its event: as the only turn,
/// or together with others.
fn turn_interruptions(begun: &[String]) -> HashMap<String, TurnInterruption> {
    let interruption = match begun {
        [_] => TurnInterruption::Alone,
        _ => TurnInterruption::WithOthers,
    };
    begun.iter().map(|id| (id.clone(), interruption)).collect()
}

impl Orchestrator {
    pub(crate) fn new(
        engine: Arc<Engine>,
        recovered: RecoveredState,
        instances: InstanceTable,
    ) -> Self {
        let mut handled = ResultCache::default();
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
            pending: PendingEvents::default(),
            handled,
            interrupted: turn_interruptions(&recovered.begun),
            begun: recovered.begun.into_iter().collect(),
            cancelled: HashSet::new(),
            waits: WaitGraph::default(),
            stalled: StalledInstances::default(),
            chain_waiters: ChainWaiters::default(),
            ready: VecDeque::new(),
            is_ready: HashSet::new(),
            turns: JoinSet::new(),
            turn_tasks: HashMap::new(),
            stopping: None,
            is_detached: false,
            accepting: FuturesOrdered::new(),
            seeking: PendingLookups::default(),
            next_idle_check: tokio::time::Instant::now(),
            tending: 0,
            has_changed: false,
            is_looking: false,
        };
        for event in recovered.pending {
            orchestrator.enqueue_recovered(event);
        }
        orchestrator.plan_first_check();
        orchestrator
    }

    /// Runs until all command senders are dropped, or until a shutdown is complete.
    pub(crate) async fn run(mut self, mut commands: UnboundedReceiver<OrchestratorCommand>) {
        self.start_turns();
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.handle(command),
                    None => break,
                },
                Some(ended) = self.turns.join_next_with_id() => self.turn_ended(ended),
                Some((event, written)) = self.accepting.next() => self.finish_write(event, written),
                Some(sought) = self.seeking.next() => self.finish_lookup(sought),
                () = deadline(self.stopping) => if !self.detach_turns() { break },
                () = deadline(self.stalled.next_retry()) => self.retry_stalled_instances(),
                () = tokio::time::sleep_until(self.next_idle_check) => self.collect_idle(),
            }
            self.start_turns();
            self.notify_chain_waiters();
            if self.stopping.is_some() && !self.is_detached && self.waits_only_for_approvals() {
                self.detach_turns();
            }
            if self.stopping.is_some() && self.turns.is_empty() && self.is_settled() {
                break;
            }
        }
    }

    /// Returns true if no store operation is pending.
    fn is_settled(&self) -> bool {
        self.tending == 0 && self.accepting.is_empty() && self.seeking.is_empty()
    }

    /// Handles one command.
    fn handle(&mut self, command: OrchestratorCommand) {
        match command {
            OrchestratorCommand::Submit {
                event,
                waiter,
                accepted,
            } => {
                self.submit(EventSubmission {
                    event,
                    waiter,
                    accepted,
                    is_sought: false,
                });
            }
            OrchestratorCommand::Abandon { event_id, reason } => self.abandon(&event_id, reason),
            OrchestratorCommand::Cancel { instance, answer } => {
                let _ = answer.send(self.cancel(&instance));
            }
            OrchestratorCommand::CancelEvent { event_id, answer } => {
                let _ = answer.send(self.cancel_event(&event_id));
            }
            OrchestratorCommand::Find { event_id, answer } => {
                drop(answer.send(self.find(&event_id)))
            }
            OrchestratorCommand::Spawn { request, answer } => self.spawn(request, answer, false),
            OrchestratorCommand::List { answer } => self.list_instances(answer),
            OrchestratorCommand::Has { instance, answer } => self.send_existence(instance, answer),
            OrchestratorCommand::Delete { instance, answer } => {
                self.delete_on_request(&instance, answer, false);
            }
            OrchestratorCommand::Looked(scan) => self.finish_scan(scan),
            OrchestratorCommand::Settled { trace_id, answer } => {
                self.chain_waiters.wait(trace_id, answer)
            }
            // `run` starts turns after each command.
            OrchestratorCommand::Room => {}
            OrchestratorCommand::Swapped => self.apply_generation(),
            OrchestratorCommand::Tended { instance, done } => self.store_work_done(instance, done),
            OrchestratorCommand::Shutdown { grace } => {
                self.stopping = Some(tokio::time::Instant::now() + grace)
            }
        }
    }

    /// Accepts a submitted event. Looks into the store first if the table of instances is full.
    fn submit(&mut self, submission: EventSubmission) {
        if let Some(submission) = self.look_up_if_full(submission) {
            let EventSubmission {
                event,
                waiter,
                accepted,
                ..
            } = submission;
            self.accept(*event, waiter, accepted);
        }
    }

    /// Stores an event, then answers `accepted`. An event that was submitted before is not stored
    /// again.
    fn accept(
        &mut self,
        event: AgentEvent,
        waiter: Option<oneshot::Sender<TurnResult>>,
        accepted: oneshot::Sender<Result<AcceptanceKind, SubmitError>>,
    ) {
        self.recall_result(&event.id);
        if let Some(result) = self.handled.get(&event.id) {
            // Duplicate delivery: accepted again, with the stored result.
            let _ = accepted.send(Ok(AcceptanceKind::Repeated));
            if let Some(waiter) = waiter {
                let _ = waiter.send(
                    result
                        .decode()
                        .unwrap_or_else(|error| unreadable_result(&event.id, error)),
                );
            }
            return;
        }
        if let Err(refusal) = self.check_admission(&event) {
            let _ = accepted.send(Err(refusal));
            return;
        }
        let caller = event
            .reply_to
            .as_ref()
            .filter(|reply| !reply.async_)
            .map(|reply| reply.caller.clone());
        let waiter = match self.register_waiter(waiter, caller, &event.target) {
            Ok(waiter) => waiter,
            Err(refusal) => {
                let _ = accepted.send(Err(refusal));
                return;
            }
        };
        if let Some(known) = self.pending.get_mut(&event.id) {
            known.waiters.extend(waiter);
            // For a durable event, the list of acceptance waiters is empty.
            if known.accepted.is_empty() {
                let _ = accepted.send(Ok(AcceptanceKind::Repeated));
            } else {
                known.accepted.push(accepted);
            }
            // If the instance is stalled, the duplicate triggers a retry.
            let target = known.target.clone();
            self.make_ready(target);
            return;
        }
        let mut pending = PendingEvent::from_event(&event);
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

    /// Handles the result of writing an event to disk.
    fn finish_write(&mut self, event: AgentEvent, written: Result<(), StoreError>) {
        let Some(pending) = self.pending.get_mut(&event.id) else {
            return;
        };
        let accepted = std::mem::take(&mut pending.accepted);
        let answer = written.map_err(SubmitError::from);
        // Later submissions waited for the first one.
        let acceptances =
            iter::once(AcceptanceKind::New).chain(iter::repeat(AcceptanceKind::Repeated));
        for (accepted, acceptance) in accepted.into_iter().zip(acceptances) {
            let _ = accepted.send(answer.clone().map(|()| acceptance));
        }
        match answer {
            Ok(()) => self.enqueue(event),
            Err(_) => self.end_event(&event.id, None),
        }
    }

    /// Queues an accepted event. A response joins the running turn (rule A5). An input that steers
    /// joins it too, but keeps its place in the queue until the turn has ended with it.
    fn enqueue(&mut self, event: AgentEvent) {
        let now = self.engine.clock.now();
        self.look_up_target(&event, now);
        // The check reads the access from the table.
        self.instances.of_event(&event, now);
        if event.is_response()
            && let Err(refusal) = self.check_access(&event)
        {
            self.fail_without_turn(&event, &refusal);
            return self.make_ready(event.target);
        }
        let instance = self.instances.of_event(&event, now);
        if let Some(turn) = &instance.turn
            && event.steers(&turn.event)
        {
            turn.joined.put(event.clone());
        }
        match &instance.turn {
            Some(turn) if event.is_response() => turn.joined.put(event),
            _ => {
                let (id, urgent) = (event.target.clone(), event.terms.urgent);
                if urgent {
                    let begun = &self.begun;
                    let is_before =
                        |waiting: &AgentEvent| waiting.terms.urgent || begun.contains(&waiting.id);
                    let index = instance
                        .queue
                        .iter()
                        .position(|waiting| !is_before(waiting));
                    instance
                        .queue
                        .insert(index.unwrap_or(instance.queue.len()), event);
                } else {
                    instance.queue.push_back(event);
                }
                self.make_ready_by(id, urgent);
            }
        }
    }

    /// Queues an event that was accepted before the last stop.
    fn enqueue_recovered(&mut self, event: AgentEvent) {
        self.pending
            .insert(event.id.clone(), PendingEvent::from_event(&event));
        self.enqueue(event);
    }

    /// Withdraws an event, or cancels its turn, unless another caller waits for it (rule A2).
    fn abandon(&mut self, event_id: &str, reason: String) {
        let Some(pending) = self.pending.get_mut(event_id) else {
            return;
        };
        let target = pending.target.clone();
        let mut gone = Vec::new();
        pending.waiters.retain_mut(|waiter| {
            let closed = waiter.sender.is_closed();
            if closed {
                gone.extend(waiter.caller.take());
            }
            !closed
        });
        let waited_for = !pending.waiters.is_empty();
        for caller in gone {
            self.waits.remove_wait(&caller, &target);
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
            // If this record is lost, a turn without a waiting caller runs at the next start.
            drop(self.engine.store.append(LogRecord::Withdrawn {
                event_id: event_id.to_owned(),
                reason,
            }));
            self.end_event(event_id, None);
        }
    }

    /// Cancels the running turn of an instance; false if no turn runs.
    fn cancel(&self, instance: &InstanceId) -> bool {
        let turn = self
            .instances
            .get(instance)
            .and_then(|instance| instance.turn.as_ref());
        turn.map(|turn| turn.cancel.cancel()).is_some()
    }

    /// Returns true if turns run and each of them waits for an approval.
    fn waits_only_for_approvals(&self) -> bool {
        let activity = &self.engine.activity;
        // A wait for a rate limit also pauses a turn, but opens no approval of the run.
        activity.run.is_paused()
            && !self.turn_tasks.is_empty()
            && self
                .turn_tasks
                .values()
                .all(|id| activity.waits_for_approval(id))
    }

    /// Drops all running turns as a kill does: each resumes from its journal at the next start or on
    /// another node. Returns false if that happened before.
    fn detach_turns(&mut self) -> bool {
        let was_detached = std::mem::replace(&mut self.is_detached, true);
        if !self.turns.is_empty() {
            // Calls of the dropped turns that still end must not write to the journals.
            self.engine.dead.store(true, Ordering::Release);
        }
        self.stopping = Some(tokio::time::Instant::now() + DETACH_TIMEOUT);
        for id in self.turn_tasks.values() {
            tracing::info!(instance = %id, "the swarm stops; the turn resumes at the next start");
        }
        self.turns.abort_all();
        !was_detached
    }

    /// Creates an instance. Answers whether it is new. `is_sought`: the store was already searched.
    fn spawn(
        &mut self,
        request: InstanceSpawnRequest,
        answer: oneshot::Sender<Result<bool, SubmitError>>,
        is_sought: bool,
    ) {
        if !is_sought && self.instances.may_be_evicted(&request.id) {
            return self.look_up(request.id.clone(), LookupReason::Spawn(request, answer));
        }
        match self.prepare_spawn(request) {
            Ok(None) => drop(answer.send(Ok(false))),
            Ok(Some((meta, is_new))) => self.put_before_turns(meta, is_new, answer),
            Err(refusal) => drop(answer.send(Err(refusal))),
        }
    }

    /// Returns the metadata to write and a flag for a new instance; `None` if the instance exists.
    fn prepare_spawn(
        &mut self,
        request: InstanceSpawnRequest,
    ) -> Result<Option<(InstanceMeta, bool)>, SubmitError> {
        self.known_agent(&request.id.agent)?;
        submission_checks::fitting_key(&request.id)?;
        if let Some(meta) = self.instances.revive(&request.id, self.engine.clock.now()) {
            let is_new = false;
            return Ok(Some((meta, is_new)));
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
        self.warn_near_instance_limit();
        let is_new = true;
        Ok(Some((meta, is_new)))
    }

    /// Ends an event: delivers the result to all waiters and removes all data about the event.
    fn end_event(&mut self, event_id: &str, result: Option<&TurnResult>) {
        self.notify_waiters(event_id, result);
        self.pending.remove(event_id);
        self.begun.remove(event_id);
        self.cancelled.remove(event_id);
    }

    /// Delivers `result` to all waiters of an event. Without a result, their channels are closed.
    fn notify_waiters(&mut self, event_id: &str, result: Option<&TurnResult>) {
        let Some(pending) = self.pending.get_mut(event_id) else {
            return;
        };
        for waiter in std::mem::take(&mut pending.waiters) {
            if let Some(caller) = &waiter.caller {
                self.waits.remove_wait(caller, &pending.target);
            }
            if let Some(result) = result {
                let _ = waiter.sender.send(result.clone());
            }
        }
    }

    /// Delivers `result` to external waiters of an unfinished event, and to external waiters of
    /// turns that wait for it. Turns themselves continue to wait.
    fn notify_external_waiters(&mut self, event_id: &str, result: &TurnResult) {
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
        // Waits are never circular, so this recursion ends.
        for caller in callers {
            let turn = self
                .instances
                .get(&caller)
                .and_then(|instance| instance.turn.as_ref());
            if let Some((event_id, turn_id)) =
                turn.map(|turn| (turn.event.id.clone(), turn.event.turn_id()))
            {
                self.notify_external_waiters(
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

/// Returns the result for a handled event whose stored result is damaged.
fn unreadable_result(event_id: &str, cause: serde_json::Error) -> TurnResult {
    let damaged = StoreError::Damaged {
        what: format!("the result of {event_id}"),
        cause: Arc::new(cause),
    };
    failed_result(turn_id(event_id), store_failure_error(&damaged))
}

type EndedTurnTask = Result<(Id, (InstanceId, TurnEnd)), JoinError>;

/// Waits until `at`, or forever for `None`.
async fn deadline(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
