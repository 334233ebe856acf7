//! What the node that leads does for the turns of its workers.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::roster::{Called, Ended, Roster, Slot};
use super::wire::{CallNumber, Question, Refused, RoomWanted, ToLeader, ToWorker, decode};
use crate::delivery::orchestrator::{Command, Refusal};
use crate::delivery::schedule::power;
use crate::engine::Engine;
use crate::life::Life;
use crate::turn::pace::Full;
use goondan_core::event::{RateScope, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::ports::approval::Grant;
use goondan_core::ports::cluster::News;
use goondan_core::ports::store::StoreError;

/// Hears the members out, for as long as the engine lives.
pub(crate) async fn listen(engine: Weak<Engine>, roster: Arc<Roster>) {
    while let Some(news) = roster.crew.news().await {
        let Some(engine) = engine.upgrade() else {
            return;
        };
        match news {
            News::Member(member) => roster.put(member, &engine.lives.run),
            News::Left { node } => roster.remove(&node),
            News::Said { node, words } => {
                if let Some(words) = decode(&words) {
                    (Desk {
                        engine: Arc::clone(&engine),
                        roster: Arc::clone(&roster),
                        node,
                    })
                    .hear(words);
                }
                continue;
            }
        }
        // Without an orchestrator no turn begins any more.
        let _ = engine.commands.send(Command::Room);
    }
}

/// Where a worker's words are heard.
#[derive(Clone)]
struct Desk {
    engine: Arc<Engine>,
    roster: Arc<Roster>,
    node: String,
}

impl Desk {
    fn hear(&self, words: ToLeader) {
        let (roster, node, bus) = (&self.roster, &*self.node, &self.engine.bus);
        match words {
            ToLeader::Done { turn, end } => roster.ended(node, turn, Ended::Done(end)),
            ToLeader::Declined { turn } => roster.ended(node, turn, Ended::Declined),
            ToLeader::Panicked { turn } => roster.ended(node, turn, Ended::Panicked),
            ToLeader::Ask { call, question } => self.answer(call, *question),
            ToLeader::Gone { call } => roster.gone(node, &[call]),
            ToLeader::Abandon {
                event_id,
                reason,
                calls,
            } => {
                // Before the orchestrator looks who still waits.
                roster.gone(node, &calls);
                let _ = self
                    .engine
                    .commands
                    .send(Command::Abandon { event_id, reason });
            }
            ToLeader::Happened(event) => {
                roster.happened(&event);
                bus.happened(*event);
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
                    .pace
                    .used(generation.limits, tokens, cost.as_ref());
                if let Some(model) = generation.model_like(&identity) {
                    model.pace.used(model.limits, tokens, cost.as_ref());
                }
            }
            ToLeader::Sign { turn, is_asked } => {
                if roster.sign(node, turn, is_asked) {
                    let _ = self.engine.commands.send(Command::Room);
                }
            }
        }
    }

    fn answer(&self, call: CallNumber, question: Question) {
        match question {
            Question::Submit { event, result } => self.submit(call, event, result),
            Question::Spawn(request) => {
                let (answer, spawned) = oneshot::channel();
                let _ = self
                    .engine
                    .commands
                    .send(Command::Spawn { request, answer });
                self.reply(call, async move {
                    spawned
                        .await
                        .unwrap_or(Err(Refusal::Ended))
                        .map_err(Refused::from)
                });
            }
            Question::List => {
                let (answer, metas) = oneshot::channel();
                let _ = self.engine.commands.send(Command::List { answer });
                self.reply(call, async move { metas.await.unwrap_or_default() });
            }
            Question::Leave => {
                self.roster.leave(&self.node);
                self.tell(call, &());
            }
            Question::Budget => {
                let budget = self.engine.generation.load().policy.budget.clone();
                self.tell(call, &self.engine.spent.check(&budget, "policy.budget"));
            }
            Question::Enter(wanted) => self.reply(call, enter(Arc::clone(&self.engine), wanted)),
            Question::Approve(request) => {
                let approver = Arc::clone(&self.engine.approver);
                self.reply(call, async move { approver.ask(request).await });
            }
            Question::Remember(grants) => {
                self.reply(call, remember(Arc::clone(&self.engine), grants))
            }
            Question::Jobs(instance) => self.tell(call, &power::jobs(&self.engine, &instance)),
            Question::AddJob(job) => {
                let engine = Arc::clone(&self.engine);
                self.reply(call, async move { power::add(&engine, job).await });
            }
            Question::RemoveJob(instance, id) => {
                let engine = Arc::clone(&self.engine);
                self.reply(
                    call,
                    async move { power::remove(&engine, &instance, &id).await },
                );
            }
        }
    }

    fn submit(&self, call: CallNumber, event: Box<AgentEvent>, result: Option<CallNumber>) {
        let (accepted, answer) = oneshot::channel();
        let waiter = result.map(|result| {
            let (waiter, waits) = oneshot::channel();
            self.wait_for(result, &event.target, waits);
            waiter
        });
        let _ = self.engine.commands.send(Command::Submit {
            event,
            waiter,
            accepted,
        });
        self.reply(call, async move {
            answer
                .await
                .unwrap_or(Err(Refusal::Ended))
                .map_err(Refused::from)
        });
    }

    /// Tells the worker the result of an event, and meanwhile signs of life of whoever handles it.
    fn wait_for(
        &self,
        call: CallNumber,
        target: &InstanceId,
        result: oneshot::Receiver<TurnResult>,
    ) {
        let slot: Slot = Arc::new(Mutex::new(Some(result)));
        let (desk, life, waits) = (
            self.clone(),
            self.engine.lives.of(target),
            Arc::clone(&slot),
        );
        self.roster.call(&self.node, call, || {
            let task = tokio::spawn(async move {
                let sign = |is_asked| {
                    desk.roster
                        .say(&desk.node, &ToWorker::Sign { call, is_asked })
                };
                let result = tokio::select! {
                    result = of_slot(&waits) => result,
                    () = life.report(sign) => None,
                };
                if let Some(result) = result {
                    desk.tell(call, &result);
                }
                desk.roster.called(&desk.node, call);
            });
            Called {
                task: task.abort_handle(),
                slot: Some(slot),
            }
        });
    }

    /// Answers once `work` is done, unless nobody waits for it any more.
    fn reply<T: Serialize>(
        &self,
        call: CallNumber,
        work: impl Future<Output = T> + Send + 'static,
    ) {
        let desk = self.clone();
        self.roster.call(&self.node, call, || {
            let task = tokio::spawn(async move {
                let answer = json!(work.await);
                desk.tell(call, &answer);
                desk.roster.called(&desk.node, call);
            });
            Called {
                task: task.abort_handle(),
                slot: None,
            }
        });
    }

    fn tell<T: Serialize>(&self, call: CallNumber, answer: &T) {
        let answer: Value = json!(answer);
        self.roster
            .say(&self.node, &ToWorker::Answer { call, answer });
    }
}

/// The result that comes into a slot; `None` where nobody waits for it any more, or none comes.
async fn of_slot(slot: &Slot) -> Option<TurnResult> {
    std::future::poll_fn(|context| {
        match &mut *slot.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(result) => Future::poll(std::pin::Pin::new(result), context).map(Result::ok),
            None => Poll::Ready(None),
        }
    })
    .await
}

/// Comes back once a model may be asked. The worker sees to the clocks of its turn.
async fn enter(engine: Arc<Engine>, wanted: RoomWanted) {
    let generation = engine.generation.load_full();
    let tell = |scope: RateScope, full: Full| {
        let wait = full.until.saturating_duration_since(Instant::now());
        let kind = RuntimeEventKind::ModelWaiting {
            turn_id: wanted.turn_id.clone(),
            step_id: wanted.step_id.clone(),
            provider: wanted.provider.clone(),
            model: wanted.model.clone(),
            scope,
            limit: full.limit.to_owned(),
            wait: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        };
        engine.bus.runtime(&wanted.instance, &wanted.trace, kind);
    };
    let life = Life::new();
    engine
        .pace
        .enter(generation.limits, &life, |full| {
            tell(RateScope::Swarm, full)
        })
        .await;
    if let Some(model) = generation.model_like(&wanted.identity) {
        model
            .pace
            .enter(model.limits, &life, |full| tell(RateScope::Model, full))
            .await;
    }
}

async fn remember(engine: Arc<Engine>, grants: Vec<Grant>) -> Result<(), String> {
    let kept = tokio::task::spawn_blocking(move || engine.approvals.remember(grants)).await;
    kept.unwrap_or(Err(StoreError::Closed))
        .map_err(|error| error.to_string())
}
