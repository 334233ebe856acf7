//! Start and end of turns (rules A3, A8).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use goondan_spec::Code;
use tokio_util::sync::CancellationToken;

use super::instances::InstanceEntry;
use super::{ActiveTurn, EndedTurnTask, Orchestrator, SubmitError};
use crate::cluster::{self, TurnPlacement};
use crate::delivery::access_end;
use crate::delivery::failed_events;
use crate::delivery::responses;
use crate::engine::Engine;
use crate::plan::AgentPlan;
use crate::turn::JoiningEvents;
use crate::turn::instance::{self, TurnEnd, TurnStart, failed_result};
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::{SwarmEvent, TurnError, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{FinishedTurn, InstanceMeta, LogRecord};
use goondan_core::result_cache::EncodedResult;

impl Orchestrator {
    /// Puts an instance with queued events at the end of the ready queue.
    pub(super) fn make_ready(&mut self, id: InstanceId) {
        let urgent = false;
        self.make_ready_by(id, urgent);
    }

    /// Queues an instance for its next turn; an urgent instance moves to the front. If another user
    /// has taken the conversation over, the programs of the earlier one end first.
    pub(super) fn make_ready_by(&mut self, id: InstanceId, urgent: bool) {
        if let Some(instance) = self.instances.get_mut(&id) {
            match &mut instance.turn {
                Some(turn) => turn.is_wanted = true,
                None if instance.has_former_programs => self.end_former_programs(&id),
                None => {}
            }
        }
        let is_new = self.is_ready.insert(id.clone());
        if urgent {
            self.ready.retain(|ready| is_new || *ready != id);
            self.ready.push_front(id);
        } else if is_new {
            self.ready.push_back(id);
        }
    }

    /// Ends the programs of a conversation that a user has taken over, and of the conversations that
    /// it started. The calls of a running turn still belong to the former owner: its programs end
    /// after the turn.
    fn end_former_programs(&mut self, taken: &InstanceId) {
        let mut ids = self.instances.started_by(taken);
        ids.push(taken.clone());
        for id in &ids {
            let Some(instance) = self.instances.get_mut(id) else {
                continue;
            };
            instance.has_former_programs = instance.turn.is_some();
            if instance.turn.is_none() {
                self.engine.release_instance(id);
            }
        }
        if self.instances.evicts_idle() {
            let (engine, taken) = (Arc::clone(&self.engine), taken.clone());
            tokio::spawn(async move {
                match engine.store.instances().await {
                    Ok(metas) => end_stored_programs(&engine, &taken, &ids, metas),
                    Err(error) => tracing::error!(%error, instance = %taken, "failed to read the \
                        stored instances; background programs of a former user may continue"),
                }
            });
        }
    }

    /// Begins turns up to the concurrency limit.
    ///
    /// A turn that waits for another agent does not count, because callers could block the agents
    /// that they wait for. A turn that waits for an approval does not count, because waiting turns
    /// could block all others.
    pub(super) fn start_turns(&mut self) {
        let max_turns = self
            .engine
            .generation
            .load()
            .policy
            .max_concurrent_turns
            .max(1);
        if self.is_detached || self.engine.dead.load(Ordering::Acquire) {
            return;
        }
        let mut later = Vec::new();
        while self.working_turns() < max_turns {
            let Some(id) = self.ready.pop_front() else {
                break;
            };
            // During shutdown, only turns that running turns wait for begin.
            if self.stopping.is_some() && !self.waits.is_awaited(&id) {
                later.push(id);
                continue;
            }
            // If the node of this instance is busy, other instances go first.
            let Some(placement) = self.slot_for(&id) else {
                later.push(id);
                continue;
            };
            self.is_ready.remove(&id);
            self.start_turn(&id, placement);
        }
        for id in later.into_iter().rev() {
            self.ready.push_front(id);
        }
    }

    /// Returns the node for the next turn of an instance; `None` if there is no free slot.
    fn slot_for(&self, id: &InstanceId) -> Option<TurnPlacement> {
        let Some(worker_pool) = &self.engine.worker_pool else {
            return Some(TurnPlacement::local());
        };
        let is_waiting =
            |id: &InstanceId| self.waits.is_waiting(id) || self.engine.activity.is_paused(id);
        worker_pool.choose_node(id, self.engine.is_bound_here(id), is_waiting)
    }

    /// Returns the number of running turns that wait neither for another agent nor for an approval.
    fn working_turns(&self) -> usize {
        let activity = &self.engine.activity;
        // A wait for a rate limit also pauses a turn, but opens no approval of the run.
        let waits_for_approval =
            |id: &InstanceId| activity.run.is_paused() && activity.is_paused(id);
        let waiting = self
            .turn_tasks
            .values()
            .filter(|id| self.waits.is_waiting(id) || waits_for_approval(id))
            .count();
        self.turn_tasks.len() - waiting
    }

    /// Returns the agent for the turn of `event`. A turn that had begun before its access ended
    /// resumes, because it has not seen later inputs.
    fn permitted_agent(&self, event: &AgentEvent) -> Result<Arc<AgentPlan>, SubmitError> {
        if !self.begun.contains(&event.id) {
            self.check_access(event)?;
        }
        self.engine.agent_for(event)
    }

    /// Drops queued responses to requests of callers whose access has ended.
    fn drop_ended_answers(&mut self, id: &InstanceId) {
        let queue = match self.instances.get_mut(id) {
            Some(instance) => std::mem::take(&mut instance.queue),
            None => return,
        };
        let mut kept_inputs = VecDeque::with_capacity(queue.len());
        for event in queue {
            match self.check_access(&event) {
                Err(refusal) if event.is_response() => self.fail_without_turn(&event, &refusal),
                _ => kept_inputs.push_back(event),
            }
        }
        if let Some(instance) = self.instances.get_mut(id) {
            instance.queue = kept_inputs;
        }
    }

    /// Begins the turn of the first queued event. Queued responses join that turn.
    fn start_turn(&mut self, id: &InstanceId, placement: TurnPlacement) {
        if self.retry_lookup(id) {
            return;
        }
        let is_free =
            |instance: &&mut InstanceEntry| instance.turn.is_none() && !instance.has_store_work;
        let first = self
            .instances
            .get_mut(id)
            .filter(is_free)
            .and_then(|instance| instance.queue.pop_front());
        let Some(event) = first else {
            return self.release_idle(id);
        };
        let agent = match self.permitted_agent(&event) {
            Ok(agent) => agent,
            Err(refusal) => {
                self.fail_without_turn(&event, &refusal);
                self.make_ready(id.clone());
                return;
            }
        };
        self.drop_ended_answers(id);
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        let (joined, cancel) = (JoiningEvents::default(), CancellationToken::new());
        let (answers, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut instance.queue)
            .into_iter()
            .partition(AgentEvent::is_response);
        instance.queue = others;
        for answer in answers {
            joined.put(answer);
        }
        if self.begun.contains(&event.id) {
            // They arrived while the turn ran, before it was interrupted.
            let steering = instance.queue.iter().filter(|input| input.steers(&event));
            steering.cloned().for_each(|input| joined.put(input));
        }
        if self.cancelled.contains(&event.id) {
            cancel.cancel();
        }
        instance.turn = Some(Box::new(ActiveTurn {
            event: event.clone(),
            cancel: cancel.clone(),
            joined: joined.clone(),
            is_wanted: false,
        }));
        let (meta, is_new) = (instance.meta(id), instance.is_new);
        let facts = Arc::new(self.engine.turn_scope(agent, &event, &meta));
        let (warm, engine) = (
            self.instances.take_conversation(id),
            Arc::clone(&self.engine),
        );
        let start = TurnStart {
            interruption: self.interrupted.remove(&event.id),
            engine,
            facts,
            event,
            meta,
            is_new,
            joined,
            cancel,
            warm,
        };
        let target = id.clone();
        let task = match &self.engine.worker_pool {
            None => self
                .turns
                .spawn(async move { (target, instance::handle(start).await) }),
            Some(worker_pool) => {
                if let Some(gone) = worker_pool.take(id, &placement) {
                    self.engine.observer.on_instance_end(&gone);
                }
                let worker_pool = Arc::clone(worker_pool);
                self.turns.spawn(async move {
                    (
                        target,
                        cluster::turn::run(worker_pool, placement, start).await,
                    )
                })
            }
        };
        self.turn_tasks.insert(task.id(), id.clone());
    }

    /// Handles the end or the panic of a turn task.
    pub(super) fn turn_ended(&mut self, ended: EndedTurnTask) {
        match ended {
            Ok((task, (id, end))) => {
                self.turn_tasks.remove(&task);
                self.release_slot(&id);
                self.finish_turn(&id, end);
                if self.engine.agent(&id.agent).is_none() {
                    self.retire_without_agent();
                }
            }
            Err(error) => {
                let Some(id) = self.turn_tasks.remove(&error.id()) else {
                    return;
                };
                self.release_slot(&id);
                if error.is_cancelled() {
                    // The turn is detached: its event stays pending in the store.
                    return;
                }
                let turn = self
                    .instances
                    .get_mut(&id)
                    .and_then(|instance| instance.turn.take());
                if let Some(turn) = turn {
                    tracing::error!(instance = %id, %error, "a turn panicked");
                    self.end_without_turn(
                        &turn.event,
                        &failed_result(turn.event.turn_id(), panic_error()),
                    );
                    self.requeue_responses(&id, &turn.joined);
                    self.make_ready(id);
                }
            }
        }
    }

    /// Frees the place of a turn on its node.
    fn release_slot(&self, id: &InstanceId) {
        if let Some(worker_pool) = &self.engine.worker_pool {
            worker_pool.end_placement(id);
        }
    }

    /// Publishes the result of a turn and makes the instance ready for its next turn.
    fn finish_turn(&mut self, id: &InstanceId, end: TurnEnd) {
        let now = self.engine.clock.now();
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        let turn = instance.turn.take();
        let has_owner = instance.known.has_owner();
        let released_at = instance.known.released_at();
        instance.known = end.meta.into();
        // A turn that ended with handled events has stored its instance.
        instance.is_new &= end.handled.is_empty();
        if !has_owner {
            // An event that arrived during the turn may have ended the ownership.
            instance.release_from_owner(released_at.unwrap_or(now));
        }
        if let Some(log) = end.warm {
            self.instances.cache_conversation(id, log);
        }
        let Some(turn) = turn else { return };
        let joined_ids = end.handled.get(1..).unwrap_or_default();
        self.publish_end(&turn.event, joined_ids, &end.result);
        self.requeue_responses(id, &turn.joined);
        self.dequeue_joined(id, joined_ids);
        if end.handled.is_empty() {
            self.stall_turn(*turn, &end.result);
            return;
        }
        self.stalled.store_works();
        self.handled.release(id);
        for event_id in &end.handled {
            self.keep_result(event_id, &end.result);
            self.end_event(event_id, Some(&end.result));
        }
        if let Some(answer) = end.answer {
            self.enqueue_recovered(answer);
        }
        self.make_ready(id.clone());
    }

    /// Stalls an instance after the store failed its turn. The event returns to the front of the
    /// queue.
    ///
    /// An event that arrived during the turn triggers an immediate retry. Otherwise the turn is
    /// retried with the next event, a duplicate of this one, or after a delay.
    ///
    /// External waiters of all queued events receive the error. Agents continue to wait, since the
    /// turn is retried.
    fn stall_turn(&mut self, turn: ActiveTurn, result: &TurnResult) {
        let id = turn.event.target.clone();
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        // The duration of the stall is unknown, so clients waiting for the chain are notified now.
        self.chain_waiters
            .notify(|trace_id| trace_id == turn.event.trace.trace_id);
        self.begun.insert(turn.event.id.clone());
        instance.queue.push_front(turn.event);
        if turn.is_wanted {
            self.make_ready(id);
            return;
        }
        let queued: Vec<(String, String)> = instance
            .queue
            .iter()
            .map(|event| (event.id.clone(), event.turn_id()))
            .collect();
        for (event_id, turn_id) in queued {
            self.notify_external_waiters(
                &event_id,
                &TurnResult {
                    turn_id,
                    ..result.clone()
                },
            );
        }
        tracing::warn!(instance = %id, "turn suspended: store unavailable; retrying");
        self.stalled.add(id);
    }

    /// Keeps the result of an ended event for later queries.
    fn keep_result(&mut self, event_id: &str, result: &TurnResult) {
        let asked_by = self
            .pending
            .get(event_id)
            .and_then(|pending| pending.asked_by.clone());
        let is_begun = |event: &AgentEvent| self.begun.contains(&event.id);
        let is_asking = |id: &InstanceId| {
            let instance = self.instances.get(id);
            instance.is_some_and(|instance| {
                instance.turn.is_some() || instance.queue.iter().any(is_begun)
            })
        };
        let encoded = EncodedResult::encode(result);
        let size = encoded.size();
        self.handled
            .put(event_id, encoded, size, asked_by.filter(is_asking));
    }

    /// Removes the inputs that joined a turn from the queue.
    fn dequeue_joined(&mut self, id: &InstanceId, joined_ids: &[String]) {
        let instance = self.instances.get_mut(id);
        if let Some(instance) = instance.filter(|_| !joined_ids.is_empty()) {
            instance
                .queue
                .retain(|event| !joined_ids.contains(&event.id));
        }
    }

    /// Returns responses that arrived after the turn's last step to the front of the queue.
    fn requeue_responses(&mut self, id: &InstanceId, joined: &JoiningEvents) {
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        // Inputs have kept their places in the queue.
        let responses = joined.take().into_iter().filter(AgentEvent::is_response);
        for event in responses.rev() {
            instance.queue.push_front(event);
        }
    }

    /// Ends an event with an error if its turn cannot run.
    pub(super) fn fail_without_turn(&mut self, event: &AgentEvent, why: &SubmitError) {
        if let SubmitError::AccessEnded(_) = why {
            tracing::warn!(event = event.id, callers = ?event.callers, %why, "an event of another \
                user's agent was dropped");
        }
        let error = TurnError {
            suggestion: why.suggestion(),
            ..TurnError::new(why.code(), why.to_string())
        };
        self.end_without_turn(event, &failed_result(event.turn_id(), error));
    }

    /// Ends an event that has no turn to report the result. The caller of a request receives a
    /// response (rule A5).
    pub(super) fn end_without_turn(&mut self, event: &AgentEvent, result: &TurnResult) {
        let now = self.engine.clock.now();
        let answer = responses::answer(event, &event.turn_trace(), result, now);
        let turn = FinishedTurn {
            turn_id: result.turn_id.clone(),
            event_ids: vec![event.id.clone()],
            result: result.clone(),
            asked_by: event.caller().cloned(),
            answer: answer.clone(),
        };
        let (id, target) = (event.id.clone(), event.target.clone());
        self.publish_end(event, &[], result);
        let engine = Arc::clone(&self.engine);
        let event = event.clone();
        let ended = result.clone();
        tokio::spawn(async move {
            failed_events::add_if_failed(&engine, &event, &ended, now).await;
            // If this record is lost, the event is ended once more at the next start.
            drop(engine.store.append(LogRecord::Done(Box::new(turn))));
        });
        self.handled.release(&target);
        self.keep_result(&id, result);
        self.end_event(&id, Some(result));
        if let Some(answer) = answer {
            self.enqueue_recovered(answer);
        }
    }

    /// Publishes the event for the end of a turn.
    fn publish_end(&self, event: &AgentEvent, joined_ids: &[String], result: &TurnResult) {
        self.engine.bus.publish(SwarmEvent::TurnEnded {
            instance: event.target.clone(),
            event_id: event.id.clone(),
            joined_ids: joined_ids.to_vec(),
            event_type: event.event_type.clone(),
            trace_id: event.trace.trace_id.clone(),
            is_for_agent: event.reply_to.is_some(),
            result: Box::new(result.clone()),
        });
    }
}

/// Ends the programs of stored instances that `taken` started, except those of `ended`.
fn end_stored_programs(
    engine: &Engine,
    taken: &InstanceId,
    ended: &[InstanceId],
    metas: Vec<InstanceMeta>,
) {
    let owners: HashMap<InstanceId, Option<InstanceId>> = metas
        .into_iter()
        .map(|meta| (meta.id(), meta.owner))
        .collect();
    for id in owners.keys().filter(|id| !ended.contains(id)) {
        if access_end::has_started(taken, id, |id| owners.get(id)?.clone()) {
            engine.release_instance(id);
        }
    }
}

fn panic_error() -> TurnError {
    TurnError::new(Code::TURN_PANIC, "the turn panicked; this is a bug in gdn")
        .suggest("Check the log, and report the bug with the steps to reproduce it.")
}
