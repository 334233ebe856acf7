//! A node that works for another: it runs the turns that it is handed, and has no orchestrator.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::uplink::{Book, Uplink, Waiting};
use super::wire::{Begin, EndOfTurn, Question, Reply, ToLeader, ToWorker, TurnNumber, decode};
use crate::delivery::orchestrator::Command;
use crate::engine::Engine;
use crate::life::Mirror;
use crate::runtime::Orders;
use crate::turn::instance::{self, TurnEnd, TurnStart};
use crate::turn::{JoinBox, Warm};
use goondan_core::ids::InstanceId;

/// A turn that runs here.
struct Running {
    instance: InstanceId,
    cancel: CancellationToken,
    joined: JoinBox,
    /// Tells the leader that it lives.
    pulse: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.pulse.abort();
    }
}

/// A worker on its way out. It asks the leader twice: once that has answered, no more turns come; and once that has answered
/// behind the end of the last turn, it has heard everything.
struct Leave {
    /// What is not over by then goes on elsewhere.
    until: Instant,
    /// The answer that it waits for.
    answer: Option<BoxFuture<'static, Option<()>>>,
    /// The leader hands it no more turns.
    is_known: bool,
}

impl Leave {
    fn begin(uplink: &Arc<Uplink>, until: Instant) -> Self {
        let mut leave = Leave {
            until,
            answer: None,
            is_known: false,
        };
        leave.ask(uplink);
        leave
    }

    fn ask(&mut self, uplink: &Arc<Uplink>) {
        self.answer = Some(uplink.ask(Question::Leave).answer().boxed());
    }

    /// Waits for what it waits for. Gives back whether it is time to go.
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

/// A worker. Dropped, its turns end where they stand, as if the process had died.
pub(crate) struct Worker {
    engine: Arc<Engine>,
    uplink: Arc<Uplink>,
    book: Arc<Book>,
    turns: JoinSet<(TurnNumber, TurnEnd)>,
    tasks: HashMap<Id, TurnNumber>,
    running: HashMap<TurnNumber, Running>,
    warm: Warm,
    /// Those that have had a turn here.
    seen: HashSet<InstanceId>,
    pulse: AbortHandle,
    leave: Option<Leave>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.engine.dead.store(true, Ordering::Release);
        self.pulse.abort();
        self.turns.abort_all();
        self.uplink.hang_up();
        // They go on elsewhere, and nothing of them here.
        self.seen
            .iter()
            .for_each(|instance| self.engine.observer.ended(instance));
    }
}

impl Worker {
    pub(crate) fn new(engine: Arc<Engine>, uplink: Arc<Uplink>, book: Arc<Book>) -> Self {
        let (run, told) = (Arc::clone(&engine.lives.run), Arc::clone(&uplink));
        let pulse = tokio::spawn(async move {
            run.report(|is_asked| {
                told.tell(&ToLeader::Sign {
                    turn: None,
                    is_asked,
                })
            })
            .await;
        });
        Worker {
            engine,
            uplink,
            book,
            turns: JoinSet::new(),
            tasks: HashMap::new(),
            running: HashMap::new(),
            warm: Warm::default(),
            seen: HashSet::new(),
            pulse: pulse.abort_handle(),
            leave: None,
        }
    }

    /// Works until this node is no member any more, or until it has left as it was ordered to.
    pub(crate) async fn run(
        mut self,
        mut commands: UnboundedReceiver<Command>,
        mut orders: Orders,
    ) {
        let uplink = Arc::clone(&self.uplink);
        loop {
            tokio::select! {
                words = uplink.hear() => match words {
                    Some(words) => {
                        if let Some(words) = decode(&words) {
                            self.obey(words);
                        }
                    }
                    None => return,
                },
                Some(command) = commands.recv() => self.pass_on(command),
                Some(ended) = self.turns.join_next_with_id() => self.ended(ended),
                Some(generation) = orders.generations.recv() => self.engine.generation.store(generation),
                () = orders.leave.cancelled(), if self.leave.is_none() => {
                    let grace = self.engine.generation.load().policy.shutdown_grace;
                    self.leave = Some(Leave::begin(&uplink, Instant::now() + grace));
                }
                is_time = Leave::step(self.leave.as_mut()) => if is_time {
                    return;
                },
            }
            let is_idle = self.running.is_empty();
            if let Some(leave) = self
                .leave
                .as_mut()
                .filter(|leave| is_idle && leave.is_known && leave.answer.is_none())
            {
                leave.ask(&uplink);
            }
        }
    }

    fn obey(&mut self, words: ToWorker) {
        match words {
            ToWorker::Fit { is_fit } => self.uplink.note_fit(is_fit),
            ToWorker::Begin(begin) => self.begin(*begin),
            ToWorker::Join { turn, events } => {
                if let Some(running) = self.running.get(&turn) {
                    events
                        .into_iter()
                        .for_each(|event| running.joined.put(event));
                }
            }
            ToWorker::Cancel { turn } => {
                if let Some(running) = self.running.get(&turn) {
                    running.cancel.cancel();
                }
            }
            ToWorker::Answer { call, answer } => self.uplink.answered(call, answer),
            ToWorker::Sign { call, is_asked } => self.uplink.sign(call, is_asked),
            ToWorker::PutAway { instance } => {
                drop(self.warm.take(&instance));
                self.seen.remove(&instance);
                self.engine.observer.ended(&instance);
            }
        }
    }

    fn begin(&mut self, begin: Begin) {
        let Begin {
            turn,
            event,
            meta,
            is_new,
            is_home,
            joined: answers,
            grants,
        } = begin;
        let id = event.target.clone();
        let warm = self.warm.take(&id).filter(|_| is_home);
        if !is_home {
            self.engine.store.doubt_journal(&id);
        }
        let Ok(agent) = self.engine.agent_for(&event) else {
            return self.uplink.tell(&ToLeader::Declined { turn });
        };
        self.book.put(grants);
        self.seen.insert(id.clone());
        let facts = Arc::new(self.engine.facts(agent, &event, &meta));
        let (joined, cancel) = (JoinBox::default(), CancellationToken::new());
        answers.into_iter().for_each(|answer| joined.put(answer));
        let (life, told) = (Arc::clone(&facts.life), Arc::clone(&self.uplink));
        let pulse = tokio::spawn(async move {
            life.report(|is_asked| {
                told.tell(&ToLeader::Sign {
                    turn: Some(turn),
                    is_asked,
                })
            })
            .await;
        });
        let pulse = pulse.abort_handle();
        let running = Running {
            instance: id,
            cancel: cancel.clone(),
            joined: joined.clone(),
            pulse,
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
            warm,
        };
        let task = self
            .turns
            .spawn(async move { (turn, instance::handle(start).await) });
        self.tasks.insert(task.id(), turn);
    }

    fn ended(&mut self, ended: Result<(Id, (TurnNumber, TurnEnd)), JoinError>) {
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
                self.uplink.tell(&ToLeader::Done { turn, end });
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
                self.uplink.tell(&ToLeader::Panicked { turn });
            }
        }
    }

    /// What a turn says to the orchestrator goes to the leader.
    fn pass_on(&self, command: Command) {
        let uplink = &self.uplink;
        match command {
            Command::Submit {
                event,
                waiter,
                accepted,
            } => {
                let result = waiter.map(|waiter| {
                    let mirror = Mirror::of(self.engine.lives.of(&event.target));
                    uplink.expect(Waiting::ForResult {
                        event_id: event.id.clone(),
                        waiter,
                        mirror,
                    })
                });
                let (call, uplink) = (
                    uplink.ask(Question::Submit { event, result }),
                    Arc::clone(uplink),
                );
                tokio::spawn(async move {
                    let Some(answer) = call.answer::<Reply<()>>().await else {
                        return;
                    };
                    if let (Err(_), Some(result)) = (&answer, result) {
                        uplink.forget(result);
                    }
                    // Whoever asked may be gone.
                    let _ = accepted.send(answer.map_err(Into::into));
                });
            }
            Command::Spawn { request, answer } => {
                let call = uplink.ask(Question::Spawn(request));
                tokio::spawn(async move {
                    if let Some(spawned) = call.answer::<Reply<bool>>().await {
                        let _ = answer.send(spawned.map_err(Into::into));
                    }
                });
            }
            Command::List { answer } => {
                let call = uplink.ask(Question::List);
                tokio::spawn(async move {
                    if let Some(metas) = call.answer().await {
                        let _ = answer.send(metas);
                    }
                });
            }
            Command::Abandon { event_id, reason } => uplink.abandon(event_id, reason),
            // The leader learns from signs of life who waits for a person; the others are nothing that a turn says.
            Command::Room
            | Command::Cancel { .. }
            | Command::CancelEvent { .. }
            | Command::Find { .. }
            | Command::Has { .. }
            | Command::Settled { .. }
            | Command::Looked(_)
            | Command::Swapped
            | Command::Tended { .. }
            | Command::Shutdown { .. } => {}
        }
    }
}
