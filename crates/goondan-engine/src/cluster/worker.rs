//! Main loop of a worker: it runs the turns that the leader assigns, and has no orchestrator.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leader_client::{CallWaiter, GrantCache, LeaderClient};
use super::protocol::{
    EndOfTurn, LeaderReply, LeaderRequest, ToLeader, ToWorker, TurnAssignment, TurnNumber, decode,
};
use crate::activity::RemoteActivity;
use crate::delivery::orchestrator::{AcceptanceKind, OrchestratorCommand};
use crate::engine::Engine;
use crate::runtime::WorkerControl;
use crate::turn::instance::{self, TurnEnd, TurnStart};
use crate::turn::{ConversationCache, JoiningEvents};
use goondan_core::ids::InstanceId;

struct AssignedTurn {
    instance: InstanceId,
    cancel: CancellationToken,
    joined: JoiningEvents,
    /// Task that sends heartbeats of the turn to the leader.
    heartbeat_task: AbortHandle,
}

impl Drop for AssignedTurn {
    fn drop(&mut self) {
        self.heartbeat_task.abort();
    }
}

/// Shutdown of a worker. It sends the leave request twice. After the first answer no turns are
/// assigned. The second answer follows the end of the last turn, so the leader has received
/// everything.
struct WorkerShutdown {
    /// Deadline; turns that are still running then resume on another node.
    until: Instant,
    /// Pending answer of the leader.
    answer: Option<BoxFuture<'static, Option<()>>>,
    /// The leader assigns no further turns.
    is_known: bool,
}

impl WorkerShutdown {
    /// Starts to leave the cluster; running turns can finish until `until`.
    fn begin(leader_client: &Arc<LeaderClient>, until: Instant) -> Self {
        let mut leave = WorkerShutdown {
            until,
            answer: None,
            is_known: false,
        };
        leave.request_leave(leader_client);
        leave
    }

    /// Requests that the leader assigns no more turns to this node.
    fn request_leave(&mut self, leader_client: &Arc<LeaderClient>) {
        self.answer = Some(
            leader_client
                .send_request(LeaderRequest::Leave)
                .answer()
                .boxed(),
        );
    }

    /// Waits for the pending answer or the deadline. Returns true if the worker may exit.
    async fn step(leave: Option<&mut Self>) -> bool {
        let Some(leave) = leave else {
            return std::future::pending().await;
        };
        let answered = async {
            match &mut leave.answer {
                Some(answer) => answer.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = answered => {}
            () = tokio::time::sleep_until(leave.until) => return true,
        }
        leave.answer = None;
        std::mem::replace(&mut leave.is_known, true)
    }
}

/// A worker. Dropping it aborts its turns as if the process had crashed.
pub(crate) struct TurnWorker {
    engine: Arc<Engine>,
    leader_client: Arc<LeaderClient>,
    grant_cache: Arc<GrantCache>,
    turns: JoinSet<(TurnNumber, TurnEnd)>,
    tasks: HashMap<Id, TurnNumber>,
    running: HashMap<TurnNumber, AssignedTurn>,
    warm: ConversationCache,
    /// Instances that have had a turn on this node.
    seen: HashSet<InstanceId>,
    heartbeat_task: AbortHandle,
    leave: Option<WorkerShutdown>,
}

impl Drop for TurnWorker {
    fn drop(&mut self) {
        self.engine.dead.store(true, Ordering::Release);
        self.heartbeat_task.abort();
        self.turns.abort_all();
        self.leader_client.drop_waiters();
        // The instances continue on other nodes, so their local resources are released.
        for instance in &self.seen {
            self.engine.observer.on_instance_end(instance);
        }
    }
}

impl TurnWorker {
    pub(crate) fn new(
        engine: Arc<Engine>,
        leader_client: Arc<LeaderClient>,
        grant_cache: Arc<GrantCache>,
    ) -> Self {
        let (run, receiver) = (Arc::clone(&engine.activity.run), Arc::clone(&leader_client));
        let heartbeat_task = tokio::spawn(async move {
            run.report_heartbeats(|is_asked| {
                receiver.send(&ToLeader::Sign {
                    turn: None,
                    is_asked,
                })
            })
            .await;
        });
        TurnWorker {
            engine,
            leader_client,
            grant_cache,
            turns: JoinSet::new(),
            tasks: HashMap::new(),
            running: HashMap::new(),
            warm: ConversationCache::default(),
            seen: HashSet::new(),
            heartbeat_task: heartbeat_task.abort_handle(),
            leave: None,
        }
    }

    /// Runs until this node leaves the cluster, on command or because it is disconnected.
    pub(crate) async fn run(
        mut self,
        mut commands: UnboundedReceiver<OrchestratorCommand>,
        mut control: WorkerControl,
    ) {
        let leader_client = Arc::clone(&self.leader_client);
        loop {
            tokio::select! {
                message = leader_client.receive() => match message {
                    Some(message) => {
                        if let Some(message) = decode(&message) {
                            self.handle_message(message);
                        }
                    }
                    None => return,
                },
                Some(command) = commands.recv() => self.pass_on(command),
                Some(ended) = self.turns.join_next_with_id() => self.report_turn_end(ended),
                Some(generation) = control.generations.recv() => self.engine.generation.store(generation),
                () = control.leave.cancelled(), if self.leave.is_none() => {
                    let grace = self.engine.generation.load().policy.shutdown_grace;
                    self.leave = Some(WorkerShutdown::begin(&leader_client, Instant::now() + grace));
                }
                is_time = WorkerShutdown::step(self.leave.as_mut()) => if is_time {
                    return;
                },
            }
            if self.is_detachable() {
                return;
            }
            let is_idle = self.running.is_empty();
            if let Some(leave) = self
                .leave
                .as_mut()
                .filter(|leave| is_idle && leave.is_known && leave.answer.is_none())
            {
                leave.request_leave(&leader_client);
            }
        }
    }

    /// Returns true if this node leaves and each of its turns waits for an approval. Those turns
    /// resume on another node, which sends the requests again.
    fn is_detachable(&self) -> bool {
        let is_leaving = self.leave.as_ref().is_some_and(|leave| leave.is_known);
        is_leaving
            && self.engine.activity.run.is_paused()
            && !self.running.is_empty()
            && self
                .running
                .values()
                .all(|turn| self.engine.activity.waits_for_approval(&turn.instance))
    }

    /// Handles one message of the leader.
    fn handle_message(&mut self, message: ToWorker) {
        match message {
            ToWorker::Fit { is_fit } => self.leader_client.report_fit(is_fit),
            ToWorker::Begin(begin) => self.begin(*begin),
            ToWorker::Join { turn, events } => {
                if let Some(running) = self.running.get(&turn) {
                    for event in events {
                        running.joined.put(event);
                    }
                }
            }
            ToWorker::Cancel { turn } => {
                if let Some(running) = self.running.get(&turn) {
                    running.cancel.cancel();
                }
            }
            ToWorker::Answer { call, answer } => self.leader_client.deliver_answer(call, answer),
            ToWorker::Sign { call, is_asked } => {
                self.leader_client.record_heartbeat(call, is_asked)
            }
            ToWorker::PutAway { instance } => {
                drop(self.warm.take(&instance));
                self.seen.remove(&instance);
                self.engine.observer.on_instance_end(&instance);
            }
        }
    }

    /// Starts a turn that the leader assigned. Declines the turn if the agent is unknown here.
    fn begin(&mut self, begin: TurnAssignment) {
        let TurnAssignment {
            turn,
            event,
            meta,
            is_new,
            is_home,
            interruption,
            joined: answers,
            grants,
        } = begin;
        let id = event.target.clone();
        let warm = self.warm.take(&id).filter(|_| is_home);
        if !is_home {
            self.engine.store.doubt_journal(&id);
        }
        let Ok(agent) = self.engine.agent_for(&event) else {
            return self.leader_client.send(&ToLeader::Declined { turn });
        };
        self.grant_cache.put(grants);
        self.seen.insert(id.clone());
        let facts = Arc::new(self.engine.turn_scope(agent, &event, &meta));
        let (joined, cancel) = (JoiningEvents::default(), CancellationToken::new());
        for answer in answers {
            joined.put(answer);
        }
        let (tracker, reporter) = (Arc::clone(&facts.tracker), Arc::clone(&self.leader_client));
        let heartbeat_task = tokio::spawn(async move {
            tracker
                .report_heartbeats(|is_asked| {
                    reporter.send(&ToLeader::Sign {
                        turn: Some(turn),
                        is_asked,
                    })
                })
                .await;
        });
        let heartbeat_task = heartbeat_task.abort_handle();
        let running = AssignedTurn {
            instance: id,
            cancel: cancel.clone(),
            joined: joined.clone(),
            heartbeat_task,
        };
        self.running.insert(turn, running);
        let engine = Arc::clone(&self.engine);
        let start = TurnStart {
            engine,
            facts,
            event,
            meta,
            is_new,
            joined,
            cancel,
            interruption,
            warm,
        };
        let task = self
            .turns
            .spawn(async move { (turn, instance::handle(start).await) });
        self.tasks.insert(task.id(), turn);
    }

    /// Reports the end or the panic of a turn to the leader.
    fn report_turn_end(&mut self, ended: Result<(Id, (TurnNumber, TurnEnd)), JoinError>) {
        match ended {
            Ok((task, (turn, end))) => {
                self.tasks.remove(&task);
                let Some(running) = self.running.remove(&turn) else {
                    return;
                };
                let TurnEnd {
                    result,
                    handled,
                    answer,
                    warm,
                    meta,
                    ..
                } = end;
                if let Some(log) = warm {
                    self.warm.put(&running.instance, log);
                }
                let end = Box::new(EndOfTurn {
                    result,
                    handled,
                    answer,
                    meta,
                });
                self.leader_client.send(&ToLeader::Done { turn, end });
            }
            Err(error) => {
                let Some(turn) = self.tasks.remove(&error.id()) else {
                    return;
                };
                let instance = self
                    .running
                    .remove(&turn)
                    .map(|running| running.instance.to_string());
                tracing::error!(instance, %error, "a turn panicked");
                self.leader_client.send(&ToLeader::Panicked { turn });
            }
        }
    }

    /// Forwards commands of turns to the leader.
    fn pass_on(&self, command: OrchestratorCommand) {
        let leader_client = &self.leader_client;
        match command {
            OrchestratorCommand::Submit {
                event,
                waiter,
                accepted,
            } => {
                let result = waiter.map(|waiter| {
                    let mirror =
                        RemoteActivity::new(self.engine.activity.tracker_for(&event.target));
                    leader_client.register_waiter(CallWaiter::ForResult {
                        event_id: event.id.clone(),
                        waiter,
                        mirror,
                    })
                });
                let (call, leader_client) = (
                    leader_client.send_request(LeaderRequest::Submit { event, result }),
                    Arc::clone(leader_client),
                );
                tokio::spawn(async move {
                    let Some(answer) = call.answer::<LeaderReply<()>>().await else {
                        return;
                    };
                    if let (Err(_), Some(result)) = (&answer, result) {
                        leader_client.remove_waiter(result);
                    }
                    // The caller may have been cancelled.
                    // Only turns submit events here, and they ignore repetitions.
                    let accepted_as = answer.map(|()| AcceptanceKind::New);
                    let _ = accepted.send(accepted_as.map_err(Into::into));
                });
            }
            OrchestratorCommand::Spawn { request, answer } => {
                let call = leader_client.send_request(LeaderRequest::Spawn(request));
                tokio::spawn(async move {
                    if let Some(spawned) = call.answer::<LeaderReply<bool>>().await {
                        let _ = answer.send(spawned.map_err(Into::into));
                    }
                });
            }
            OrchestratorCommand::List { answer } => {
                let call = leader_client.send_request(LeaderRequest::List);
                tokio::spawn(async move {
                    if let Some(metas) = call.answer().await {
                        let _ = answer.send(metas);
                    }
                });
            }
            OrchestratorCommand::Abandon { event_id, reason } => {
                leader_client.abandon(event_id, reason)
            }
            // Heartbeats inform the leader about pending approvals. Turns send none of the other
            // commands.
            OrchestratorCommand::Room
            | OrchestratorCommand::Cancel { .. }
            | OrchestratorCommand::CancelEvent { .. }
            | OrchestratorCommand::Find { .. }
            | OrchestratorCommand::Has { .. }
            | OrchestratorCommand::Delete { .. }
            | OrchestratorCommand::Settled { .. }
            | OrchestratorCommand::Looked(_)
            | OrchestratorCommand::Swapped
            | OrchestratorCommand::Tended { .. }
            | OrchestratorCommand::Shutdown { .. } => {}
        }
    }
}
