//! Whose turn begins, and what happens when one is over (rules A3, A8).

use std::collections::VecDeque;
use std::sync::Arc;

use goondan_spec::Code;
use tokio_util::sync::CancellationToken;

use super::instances::Instance;
use super::{Ended, Orchestrator, Refusal, RunningTurn};
use crate::cluster::{self, Place};
use crate::delivery::dead_letters;
use crate::delivery::responses;
use crate::turn::JoinBox;
use crate::turn::instance::{self, TurnEnd, TurnStart, failed_result};
use goondan_core::event::{SwarmEvent, TurnError, TurnResult};
use goondan_core::handled::KeptResult;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::ports::store::{FinishedTurn, LogRecord};

impl Orchestrator {
    pub(super) fn make_ready(&mut self, id: InstanceId) {
        self.make_ready_by(id, false);
    }

    /// An instance has something to do; an urgent one begins before the others that wait for room.
    pub(super) fn make_ready_by(&mut self, id: InstanceId, urgent: bool) {
        if let Some(turn) = self
            .instances
            .get_mut(&id)
            .and_then(|instance| instance.turn.as_mut())
        {
            turn.is_wanted = true;
        }
        let is_new = self.is_ready.insert(id.clone());
        if urgent {
            self.ready.retain(|ready| is_new || *ready != id);
            self.ready.push_front(id);
        } else if is_new {
            self.ready.push_back(id);
        }
    }

    /// Begins as many turns as there is room for. A turn that waits for another agent takes no room, else callers could
    /// keep those they wait for from running; nor does one that waits for a person, else they could keep all others from it.
    pub(super) fn start_turns(&mut self) {
        let most = self
            .engine
            .generation
            .load()
            .policy
            .max_concurrent_turns
            .max(1);
        let mut later = Vec::new();
        while self.working_turns() < most {
            let Some(id) = self.ready.pop_front() else {
                break;
            };
            // In the end only those begin that turns wait for that run.
            if self.stopping.is_some() && !self.waits.is_awaited(&id) {
                later.push(id);
                continue;
            }
            // Whose node is busy lets others go first.
            let Some(place) = self.place_for(&id) else {
                later.push(id);
                continue;
            };
            self.is_ready.remove(&id);
            self.start_turn(&id, place);
        }
        later
            .into_iter()
            .rev()
            .for_each(|id| self.ready.push_front(id));
    }

    /// Where the next turn of an instance may run; `None` where there is no room now.
    fn place_for(&self, id: &InstanceId) -> Option<Place> {
        let Some(roster) = &self.engine.roster else {
            return Some(Place::here());
        };
        let is_waiting =
            |id: &InstanceId| self.waits.is_waiting(id) || self.engine.lives.is_asked(id);
        roster.choose(id, self.engine.is_bound_here(id), is_waiting)
    }

    fn working_turns(&self) -> usize {
        let lives = &self.engine.lives;
        let is_asked = |id: &InstanceId| lives.run.is_asked() && lives.is_asked(id);
        let waiting = self
            .turn_tasks
            .values()
            .filter(|id| self.waits.is_waiting(id) || is_asked(id))
            .count();
        self.turn_tasks.len() - waiting
    }

    /// Begins the turn of the first event in the queue. Answers behind it join that turn.
    fn start_turn(&mut self, id: &InstanceId, place: Place) {
        if self.seek_again(id) {
            return;
        }
        let is_free = |instance: &&mut Instance| instance.turn.is_none() && !instance.is_tended;
        let first = self
            .instances
            .get_mut(id)
            .filter(is_free)
            .and_then(|instance| instance.queue.pop_front());
        let Some(event) = first else {
            return self.rest(id);
        };
        let agent = match self.engine.agent_for(&event) {
            Ok(agent) => agent,
            Err(refusal) => {
                self.settle_without_turn(&event, &refusal);
                self.make_ready(id.clone());
                return;
            }
        };
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        let (joined, cancel) = (JoinBox::default(), CancellationToken::new());
        let (answers, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut instance.queue)
            .into_iter()
            .partition(AgentEvent::is_response);
        instance.queue = others;
        answers.into_iter().for_each(|answer| joined.put(answer));
        if self.cancelled.contains(&event.id) {
            cancel.cancel();
        }
        instance.turn = Some(Box::new(RunningTurn {
            event: event.clone(),
            cancel: cancel.clone(),
            joined: joined.clone(),
            is_wanted: false,
        }));
        let (meta, is_new) = (instance.meta(id), instance.is_new);
        let facts = Arc::new(self.engine.facts(agent, &event, &meta));
        let (warm, engine) = (self.instances.take_warm(id), Arc::clone(&self.engine));
        let start = TurnStart {
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
        let task = match &self.engine.roster {
            None => self
                .turns
                .spawn(async move { (target, instance::handle(start).await) }),
            Some(roster) => {
                if let Some(gone) = roster.take(id, &place) {
                    self.engine.observer.ended(&gone);
                }
                let roster = Arc::clone(roster);
                self.turns
                    .spawn(async move { (target, cluster::turn::run(roster, place, start).await) })
            }
        };
        self.turn_tasks.insert(task.id(), id.clone());
    }

    pub(super) fn turn_ended(&mut self, ended: Ended) {
        match ended {
            Ok((task, (id, end))) => {
                self.turn_tasks.remove(&task);
                self.leave_place(&id);
                self.finish_turn(&id, end);
                if self.engine.agent(&id.agent).is_none() {
                    self.retire_without_agent();
                }
            }
            Err(error) => {
                let Some(id) = self.turn_tasks.remove(&error.id()) else {
                    return;
                };
                self.leave_place(&id);
                let turn = self
                    .instances
                    .get_mut(&id)
                    .and_then(|instance| instance.turn.take());
                if let Some(turn) = turn {
                    tracing::error!(instance = %id, %error, "a turn panicked");
                    self.settle(
                        &turn.event,
                        &failed_result(turn.event.turn_id(), panicked()),
                    );
                    self.return_joined(&id, &turn.joined);
                    self.make_ready(id);
                }
            }
        }
    }

    fn leave_place(&self, id: &InstanceId) {
        if let Some(roster) = &self.engine.roster {
            roster.over(id);
        }
    }

    fn finish_turn(&mut self, id: &InstanceId, end: TurnEnd) {
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        let turn = instance.turn.take();
        instance.known = end.meta.into();
        // A turn that is over was begun.
        instance.is_new &= end.handled.is_empty();
        if let Some(log) = end.warm {
            self.instances.keep_warm(id, log);
        }
        let Some(turn) = turn else { return };
        self.publish_end(&turn.event, &end.result);
        self.return_joined(id, &turn.joined);
        if end.handled.is_empty() {
            self.stand_still(*turn, &end.result);
            return;
        }
        self.stalled.store_works();
        self.handled.release(id);
        for event_id in &end.handled {
            self.remember(event_id, &end.result);
            self.forget(event_id, Some(&end.result));
        }
        if let Some(answer) = end.answer {
            self.enqueue_recovered(answer);
        }
        self.make_ready(id.clone());
    }

    /// The store has failed a turn: it is not over, and keeps its place before everything else in its queue. What came
    /// meanwhile sets the instance going again at once, for nobody may come after it. Otherwise it stands still until the
    /// next event, the same one sent again, or a while; who waits from outside, also for what is behind it, is told. Agents
    /// go on waiting, since the turn goes on.
    fn stand_still(&mut self, turn: RunningTurn, result: &TurnResult) {
        let id = turn.event.target.clone();
        let Some(instance) = self.instances.get_mut(&id) else {
            return;
        };
        // Nobody knows how long: whoever waits for the chain is told that nothing goes on in it.
        self.settling
            .tell(|trace_id| trace_id == turn.event.trace.trace_id);
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
            self.tell_outside(
                &event_id,
                &TurnResult {
                    turn_id,
                    ..result.clone()
                },
            );
        }
        tracing::warn!(instance = %id, "a turn stands still, since the store has failed it; it is tried again");
        self.stalled.add(id);
    }

    /// Keeps the result of an event that is over, for who may ask for it again.
    fn remember(&mut self, event_id: &str, result: &TurnResult) {
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
        let kept = KeptResult::of(result);
        let size = kept.size();
        self.handled
            .put(event_id, kept, size, asked_by.filter(is_asking));
    }

    /// Answers that came too late for the turn's last step wait for the next turn, in front of everything else.
    fn return_joined(&mut self, id: &InstanceId, joined: &JoinBox) {
        let Some(instance) = self.instances.get_mut(id) else {
            return;
        };
        for event in joined.take().into_iter().rev() {
            instance.queue.push_front(event);
        }
    }

    /// An event whose turn can't run is over with an error.
    fn settle_without_turn(&mut self, event: &AgentEvent, why: &Refusal) {
        let error = TurnError {
            suggestion: why.suggestion(),
            ..TurnError::new(why.code(), why.to_string())
        };
        self.settle(event, &failed_result(event.turn_id(), error));
    }

    /// An event is over without a turn that could say so itself. Who asked for an answer gets one (rule A5).
    pub(super) fn settle(&mut self, event: &AgentEvent, result: &TurnResult) {
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
        self.publish_end(event, result);
        let (engine, event, ended) = (Arc::clone(&self.engine), event.clone(), result.clone());
        tokio::spawn(async move {
            dead_letters::bury(&engine, &event, &ended, now).await;
            // Where that is lost, the event is settled once more at the next start.
            drop(engine.store.append(LogRecord::Done(Box::new(turn))));
        });
        self.handled.release(&target);
        self.remember(&id, result);
        self.forget(&id, Some(result));
        if let Some(answer) = answer {
            self.enqueue_recovered(answer);
        }
    }

    fn publish_end(&self, event: &AgentEvent, result: &TurnResult) {
        self.engine.bus.publish(SwarmEvent::TurnEnded {
            instance: event.target.clone(),
            event_id: event.id.clone(),
            event_type: event.event_type.clone(),
            trace_id: event.trace.trace_id.clone(),
            is_for_agent: event.reply_to.is_some(),
            result: Box::new(result.clone()),
        });
    }
}

fn panicked() -> TurnError {
    TurnError::new(
        Code::TURN_PANIC,
        "the turn panicked; this is a bug in the program",
    )
    .suggest("Look at the log, and report it with what you did.")
}
