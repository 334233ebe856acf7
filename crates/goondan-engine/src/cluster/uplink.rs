//! The node that leads, as the turns of a worker reach it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goondan_spec::Code;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::oneshot;

use super::wire::{CallNumber, Question, RoomWanted, ToLeader, encode};
use crate::engine::Spending;
use crate::life::Mirror;
use goondan_core::event::{Cost, SwarmEvent, TurnError, TurnResult};
use goondan_core::ports::approval::{
    ApprovalAnswer, ApprovalBook, ApprovalRequest, Approver, Grant,
};
use goondan_core::ports::cluster::Leader;
use goondan_core::ports::store::StoreError;

/// The way to the node that leads.
pub(crate) struct Uplink {
    leader: Arc<dyn Leader>,
    /// `None` once this node is no member any more.
    calls: Mutex<Option<HashMap<CallNumber, Waiting>>>,
    next: AtomicU64,
}

/// Who waits for an answer.
pub(crate) enum Waiting {
    /// Whoever asked.
    Asker(oneshot::Sender<Value>),
    /// A turn that waits for the result of an event.
    ForResult {
        /// The event.
        event_id: String,
        /// The turn.
        waiter: oneshot::Sender<TurnResult>,
        /// Of the instance that is waited for.
        mirror: Mirror,
    },
}

impl Uplink {
    pub(crate) fn new(leader: Arc<dyn Leader>) -> Arc<Self> {
        Arc::new(Uplink {
            leader,
            calls: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
        })
    }

    /// Says something.
    pub(crate) fn tell(&self, words: &ToLeader) {
        self.leader.say(encode(words));
    }

    /// This node gets turns, or does not.
    pub(crate) fn note_fit(&self, is_fit: bool) {
        self.leader.note_fit(is_fit);
    }

    /// What comes from the leader next.
    pub(crate) async fn hear(&self) -> Option<String> {
        self.leader.hear().await
    }

    /// Somebody waits under a number.
    pub(crate) fn expect(&self, waiting: Waiting) -> CallNumber {
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(calls) = &mut *self.calls() {
            calls.insert(call, waiting);
        }
        call
    }

    /// Asks. The question is on its way when this is back.
    pub(crate) fn ask(self: &Arc<Self>, question: Question) -> Call {
        let (sender, answer) = oneshot::channel();
        let number = self.expect(Waiting::Asker(sender));
        self.tell(&ToLeader::Ask {
            call: number,
            question: Box::new(question),
        });
        Call {
            uplink: Arc::clone(self),
            number,
            answer,
        }
    }

    /// An answer has come.
    pub(crate) fn answered(&self, call: CallNumber, answer: Value) {
        match self.forget(call) {
            // Whoever asked may be gone.
            Some(Waiting::Asker(asker)) => drop(asker.send(answer)),
            Some(Waiting::ForResult { waiter, .. }) => match serde_json::from_value(answer) {
                Ok(result) => drop(waiter.send(result)),
                Err(error) => tracing::error!(%error, "a result of another node is not understood"),
            },
            None => {}
        }
    }

    /// Whoever is waited for has given a sign of life.
    pub(crate) fn sign(&self, call: CallNumber, is_asked: bool) {
        if let Some(Waiting::ForResult { mirror, .. }) =
            self.calls().as_mut().and_then(|calls| calls.get_mut(&call))
        {
            mirror.show(is_asked);
        }
    }

    /// Nobody waits any more for the answer to an event.
    pub(crate) fn abandon(&self, event_id: String, reason: String) {
        let mut gone = Vec::new();
        if let Some(calls) = &mut *self.calls() {
            calls.retain(|call, waiting| {
                let is_gone = matches!(waiting, Waiting::ForResult { event_id: waited, waiter, .. } if *waited == event_id && waiter.is_closed());
                if is_gone {
                    gone.push(*call);
                }
                !is_gone
            });
        }
        self.tell(&ToLeader::Abandon {
            event_id,
            reason,
            calls: gone,
        });
    }

    /// Takes back that somebody waits.
    pub(crate) fn forget(&self, call: CallNumber) -> Option<Waiting> {
        self.calls().as_mut()?.remove(&call)
    }

    /// No answer comes any more.
    pub(crate) fn hang_up(&self) {
        *self.calls() = None;
    }

    fn calls(&self) -> MutexGuard<'_, Option<HashMap<CallNumber, Waiting>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all nodes together may take another step.
    pub(crate) async fn check_budget(self: &Arc<Self>) -> Result<(), TurnError> {
        let checked: Option<Result<(), TurnError>> = self.ask(Question::Budget).answer().await;
        checked.unwrap_or_else(|| {
            Err(TurnError::new(
                Code::SWARM_STOPPING,
                "the swarm is stopping",
            ))
        })
    }

    /// Something was used up.
    pub(crate) fn spent(&self, spending: Spending) {
        self.tell(&ToLeader::Spent(spending));
    }

    /// Comes back once a model may be asked.
    pub(crate) async fn enter(self: &Arc<Self>, room: RoomWanted) {
        // Where no answer comes any more, the turn that asks is about to end.
        let _: Option<()> = self.ask(Question::Enter(room)).answer().await;
    }

    /// A model has answered.
    pub(crate) fn used(&self, identity: &str, tokens: u64, cost: Option<Cost>) {
        self.tell(&ToLeader::Used {
            identity: identity.to_owned(),
            tokens,
            cost,
        });
    }

    /// For those who watch the swarm.
    pub(crate) fn publish(&self, event: SwarmEvent) {
        match event {
            SwarmEvent::Text {
                instance,
                turn_id,
                delta,
            } => self.tell(&ToLeader::Text {
                instance,
                turn_id,
                delta,
            }),
            SwarmEvent::Reasoning {
                instance,
                turn_id,
                delta,
            } => self.tell(&ToLeader::Reasoning {
                instance,
                turn_id,
                delta,
            }),
            SwarmEvent::TextReset { instance, turn_id } => {
                self.tell(&ToLeader::TextReset { instance, turn_id })
            }
            // The leader tells of these itself.
            SwarmEvent::Runtime(_) | SwarmEvent::TurnEnded { .. } => {}
        }
    }
}

/// A question that was asked. Dropped before its answer, it is taken back.
pub(crate) struct Call {
    uplink: Arc<Uplink>,
    number: CallNumber,
    answer: oneshot::Receiver<Value>,
}

impl Call {
    /// The answer; `None` where none can come any more.
    pub(crate) async fn answer<T: DeserializeOwned>(mut self) -> Option<T> {
        let answer = (&mut self.answer).await.ok()?;
        serde_json::from_value(answer)
            .inspect_err(|error| tracing::error!(%error, "an answer is not understood"))
            .ok()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.uplink.forget(self.number).is_some() {
            self.uplink.tell(&ToLeader::Gone { call: self.number });
        }
    }
}

/// Asks whoever answers at the node that leads.
pub(crate) struct FarApprover(pub(crate) Arc<Uplink>);

#[async_trait]
impl Approver for FarApprover {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        match self.0.ask(Question::Approve(request)).answer().await {
            Some(answer) => answer,
            // The turn is about to end, and is asked again elsewhere.
            None => std::future::pending().await,
        }
    }
}

/// The approvals that hold always, as the leader told them with the last turn.
pub(crate) struct Book {
    uplink: Arc<Uplink>,
    grants: Mutex<Vec<Grant>>,
}

impl Book {
    pub(crate) fn new(uplink: &Arc<Uplink>) -> Arc<Self> {
        Arc::new(Book {
            uplink: Arc::clone(uplink),
            grants: Mutex::default(),
        })
    }

    pub(crate) fn put(&self, grants: Vec<Grant>) {
        *self.grants.lock().unwrap_or_else(PoisonError::into_inner) = grants;
    }
}

impl ApprovalBook for Book {
    fn grants(&self) -> Vec<Grant> {
        self.grants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn remember(&self, grants: Vec<Grant>) -> Result<(), StoreError> {
        let call = self.uplink.ask(Question::Remember(grants.clone()));
        // It is called where waiting is allowed.
        let kept: Option<Result<(), String>> =
            tokio::runtime::Handle::current().block_on(call.answer());
        let failed = |words: String| StoreError::Other(Arc::new(std::io::Error::other(words)));
        kept.ok_or(StoreError::Closed)?.map_err(failed)?;
        self.grants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(grants);
        Ok(())
    }
}
