//! The leader's handling of requests and events from workers.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::placement::{RemoteTurnEnd, ResultSlot, WorkerCall, WorkerPool};
use super::protocol::{
    CallNumber, LeaderRequest, RateLimitRequest, SerializedRefusal, ToLeader, ToWorker, decode,
};
use crate::activity::ActivityTracker;
use crate::delivery::orchestrator::{OrchestratorCommand, SubmitError};
use crate::delivery::schedule::job_operations;
use crate::engine::Engine;
use crate::turn::rate_limiter::RateLimitHit;
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::{RateScope, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::ports::approval::ApprovalGrant;
use goondan_core::ports::cluster::ClusterEvent;
use goondan_core::ports::store::StoreError;

/// Processes messages of the cluster members until the engine is dropped.
pub(crate) async fn listen(engine: Weak<Engine>, worker_pool: Arc<WorkerPool>) {
    while let Some(event) = worker_pool.crew.next_event().await {
        let Some(engine) = engine.upgrade() else {
            return;
        };
        match event {
            ClusterEvent::Member(member) => worker_pool.put(member, &engine.activity.run),
            ClusterEvent::Left { node } => worker_pool.remove(&node),
            ClusterEvent::Said { node, words } => {
                if let Some(message) = decode(&words) {
                    (WorkerRequestHandler {
                        engine: Arc::clone(&engine),
                        worker_pool: Arc::clone(&worker_pool),
                        node,
                    })
                    .handle_message(message);
                }
                continue;
            }
        }
        // Without an orchestrator no turn starts.
        let _ = engine.commands.send(OrchestratorCommand::Room);
    }
}

/// Handles the messages of one worker.
#[derive(Clone)]
struct WorkerRequestHandler {
    engine: Arc<Engine>,
    worker_pool: Arc<WorkerPool>,
    node: String,
}

impl WorkerRequestHandler {
    /// Handles one message of the worker `node`.
    fn handle_message(&self, message: ToLeader) {
        let worker_pool = &self.worker_pool;
        let node = &*self.node;
        let bus = &self.engine.bus;
        match message {
            ToLeader::Done { turn, end } => {
                worker_pool.deliver_turn_end(node, turn, RemoteTurnEnd::Done(end))
            }
            ToLeader::Declined { turn } => {
                worker_pool.deliver_turn_end(node, turn, RemoteTurnEnd::Declined)
            }
            ToLeader::Panicked { turn } => {
                worker_pool.deliver_turn_end(node, turn, RemoteTurnEnd::Panicked)
            }
            ToLeader::Ask { call, question } => self.answer(call, *question),
            ToLeader::Gone { call } => worker_pool.cancel_calls(node, &[call]),
            ToLeader::Abandon {
                event_id,
                reason,
                calls,
            } => {
                // Must precede the command: the orchestrator checks for remaining waiters.
                worker_pool.cancel_calls(node, &calls);
                let _ = self
                    .engine
                    .commands
                    .send(OrchestratorCommand::Abandon { event_id, reason });
            }
            ToLeader::Happened(event) => {
                worker_pool.track_turn_end(&event);
                bus.record_event(*event);
            }
            ToLeader::Text {
                instance,
                turn_id,
                delta,
            } => bus.publish(SwarmEvent::Text {
                instance,
                turn_id,
                delta,
            }),
            ToLeader::Reasoning {
                instance,
                turn_id,
                delta,
            } => bus.publish(SwarmEvent::Reasoning {
                instance,
                turn_id,
                delta,
            }),
            ToLeader::TextReset { instance, turn_id } => {
                bus.publish(SwarmEvent::TextReset { instance, turn_id })
            }
            ToLeader::Spent(spending) => self.engine.spent.add(&spending),
            ToLeader::Used {
                identity,
                tokens,
                cost,
            } => {
                let generation = self.engine.generation.load();
                self.engine
                    .rate_limiter
                    .record_usage(generation.limits, tokens, cost.as_ref());
                if let Some(model) = generation.rate_limited_model(&identity) {
                    model
                        .rate_limiter
                        .record_usage(model.limits, tokens, cost.as_ref());
                }
            }
            ToLeader::Sign { turn, is_asked } => {
                if worker_pool.record_heartbeat(node, turn, is_asked) {
                    let _ = self.engine.commands.send(OrchestratorCommand::Room);
                }
            }
        }
    }

    /// Executes a request of the worker and sends the answer when it is available.
    fn answer(&self, call: CallNumber, question: LeaderRequest) {
        match question {
            LeaderRequest::Submit { event, result } => self.submit(call, event, result),
            LeaderRequest::Spawn(request) => {
                let (answer, spawned) = oneshot::channel();
                let _ = self
                    .engine
                    .commands
                    .send(OrchestratorCommand::Spawn { request, answer });
                self.reply(call, async move {
                    spawned
                        .await
                        .unwrap_or(Err(SubmitError::Ended))
                        .map_err(SerializedRefusal::from)
                });
            }
            LeaderRequest::List => {
                let (answer, metas) = oneshot::channel();
                let _ = self
                    .engine
                    .commands
                    .send(OrchestratorCommand::List { answer });
                self.reply(call, async move { metas.await.unwrap_or_default() });
            }
            LeaderRequest::Leave => {
                self.worker_pool.mark_leaving(&self.node);
                self.send_answer(call, &());
            }
            LeaderRequest::Budget => {
                let budget = self.engine.generation.load().policy.budget.clone();
                self.send_answer(call, &self.engine.spent.check(&budget, "policy.runBudget"));
            }
            LeaderRequest::Enter(wanted) => {
                self.reply(call, acquire_rate_limit(Arc::clone(&self.engine), wanted))
            }
            LeaderRequest::Approve(request) => {
                let engine = Arc::clone(&self.engine);
                self.reply(call, async move { engine.request_approval(request).await });
            }
            LeaderRequest::Remember(grants) => {
                self.reply(call, remember_grants(Arc::clone(&self.engine), grants))
            }
            LeaderRequest::Jobs(instance) => {
                self.send_answer(call, &job_operations::jobs(&self.engine, &instance))
            }
            LeaderRequest::AddJob(job) => {
                let engine = Arc::clone(&self.engine);
                self.reply(call, async move { job_operations::add(&engine, job).await });
            }
            LeaderRequest::RemoveJob(instance, id) => {
                let engine = Arc::clone(&self.engine);
                self.reply(call, async move {
                    job_operations::remove(&engine, &instance, &id).await
                });
            }
        }
    }

    /// Submits an event for the worker. With `result`, also sends the result of the event as the
    /// answer to that call.
    fn submit(&self, call: CallNumber, event: Box<AgentEvent>, result: Option<CallNumber>) {
        let (accepted, answer) = oneshot::channel();
        let waiter = result.map(|result| {
            let (waiter, waits) = oneshot::channel();
            self.wait_for(result, &event.target, waits);
            waiter
        });
        let _ = self.engine.commands.send(OrchestratorCommand::Submit {
            event,
            waiter,
            accepted,
        });
        self.reply(call, async move {
            answer
                .await
                .unwrap_or(Err(SubmitError::Ended))
                .map(drop)
                .map_err(SerializedRefusal::from)
        });
    }

    /// Sends the result of an event to the worker, and heartbeats of the handling instance until
    /// then.
    fn wait_for(
        &self,
        call: CallNumber,
        target: &InstanceId,
        result: oneshot::Receiver<TurnResult>,
    ) {
        let slot: ResultSlot = Arc::new(Mutex::new(Some(result)));
        let (handler, tracker, task_slot) = (
            self.clone(),
            self.engine.activity.tracker_for(target),
            Arc::clone(&slot),
        );
        self.worker_pool.call(&self.node, call, || {
            let task = tokio::spawn(async move {
                let send_heartbeat = |is_asked| {
                    handler
                        .worker_pool
                        .send(&handler.node, &ToWorker::Sign { call, is_asked })
                };
                let result = tokio::select! {
                    result = wait_for_slot_result(&task_slot) => result,
                    () = tracker.report_heartbeats(send_heartbeat) => None,
                };
                if let Some(result) = result {
                    handler.send_answer(call, &result);
                }
                handler.worker_pool.remove_call(&handler.node, call);
            });
            WorkerCall {
                task: task.abort_handle(),
                slot: Some(slot),
            }
        });
    }

    /// Answers when `work` is done, unless the worker has cancelled the call.
    fn reply<T: Serialize>(
        &self,
        call: CallNumber,
        work: impl Future<Output = T> + Send + 'static,
    ) {
        let handler = self.clone();
        self.worker_pool.call(&self.node, call, || {
            let task = tokio::spawn(async move {
                let answer = json!(work.await);
                handler.send_answer(call, &answer);
                handler.worker_pool.remove_call(&handler.node, call);
            });
            WorkerCall {
                task: task.abort_handle(),
                slot: None,
            }
        });
    }

    /// Sends the answer to a call of the worker.
    fn send_answer<T: Serialize>(&self, call: CallNumber, answer: &T) {
        let answer: Value = json!(answer);
        self.worker_pool
            .send(&self.node, &ToWorker::Answer { call, answer });
    }
}

/// Waits for the result in a slot. Returns `None` if the slot is emptied or the sender is dropped.
async fn wait_for_slot_result(slot: &ResultSlot) -> Option<TurnResult> {
    std::future::poll_fn(|context| {
        match &mut *slot.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(result) => Future::poll(std::pin::Pin::new(result), context).map(Result::ok),
            None => Poll::Ready(None),
        }
    })
    .await
}

/// Waits until the rate limits allow a model call. The worker itself pauses the clocks of the turn.
async fn acquire_rate_limit(engine: Arc<Engine>, request: RateLimitRequest) {
    let generation = engine.generation.load_full();
    let publish_waiting = |scope: RateScope, full: RateLimitHit| {
        let wait = full.until.saturating_duration_since(Instant::now());
        let kind = RuntimeEventKind::ModelWaiting {
            turn_id: request.turn_id.clone(),
            step_id: request.step_id.clone(),
            provider: request.provider.clone(),
            model: request.model.clone(),
            scope,
            limit: full.limit.to_owned(),
            wait: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        };
        engine.bus.runtime(&request.instance, &request.trace, kind);
    };
    let tracker = ActivityTracker::new();
    engine
        .rate_limiter
        .acquire(generation.limits, &tracker, |full| {
            publish_waiting(RateScope::Swarm, full)
        })
        .await;
    if let Some(model) = generation.rate_limited_model(&request.identity) {
        model
            .rate_limiter
            .acquire(model.limits, &tracker, |full| {
                publish_waiting(RateScope::Model, full)
            })
            .await;
    }
}

/// Stores grants of a worker; an error is returned as text.
async fn remember_grants(engine: Arc<Engine>, grants: Vec<ApprovalGrant>) -> Result<(), String> {
    let outcome = tokio::task::spawn_blocking(move || engine.approvals.remember(grants)).await;
    outcome
        .unwrap_or(Err(StoreError::Closed))
        .map_err(|error| error.to_string())
}
