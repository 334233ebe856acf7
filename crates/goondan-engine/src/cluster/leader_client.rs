//! A worker's client for the leader.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goondan_spec::Code;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::oneshot;

use super::protocol::{CallNumber, LeaderRequest, RateLimitRequest, ToLeader, encode};
use crate::activity::RemoteActivity;
use crate::usage_increment::UsageIncrement;
use goondan_core::event::{SwarmEvent, TurnError, TurnResult, UsageCost};
use goondan_core::ids::InstanceId;
use goondan_core::ports::approval::{
    ApprovalAnswer, ApprovalGrant, ApprovalRequest, ApprovalStore, Approver,
};
use goondan_core::ports::cluster::LeaderChannel;
use goondan_core::ports::store::StoreError;

/// Connection of a worker to the leader.
pub(crate) struct LeaderClient {
    leader: Arc<dyn LeaderChannel>,
    /// `None` after this node has left the cluster.
    calls: Mutex<Option<HashMap<CallNumber, CallWaiter>>>,
    next: AtomicU64,
}

/// Waiter for an answer of the leader.
pub(crate) enum CallWaiter {
    /// Caller of a request.
    Asker(oneshot::Sender<Value>),
    /// Turn that waits for the result of an event.
    ForResult {
        event_id: String,
        waiter: oneshot::Sender<TurnResult>,
        /// Activity of the instance that handles the event.
        mirror: RemoteActivity,
    },
}

impl LeaderClient {
    pub(crate) fn new(leader: Arc<dyn LeaderChannel>) -> Arc<Self> {
        Arc::new(LeaderClient {
            leader,
            calls: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
        })
    }

    /// Sends a message to the leader.
    pub(crate) fn send(&self, message: &ToLeader) {
        self.leader.send_message(encode(message));
    }

    /// Reports whether this node accepts turns.
    pub(crate) fn report_fit(&self, is_fit: bool) {
        self.leader.note_fit(is_fit);
    }

    /// Waits for the next message of the leader; `None` if this node is disconnected.
    pub(crate) async fn receive(&self) -> Option<String> {
        self.leader.receive_message().await
    }

    pub(crate) fn register_waiter(&self, waiting: CallWaiter) -> CallNumber {
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(calls) = &mut *self.lock_calls() {
            calls.insert(call, waiting);
        }
        call
    }

    /// Sends a request before it returns. Await the returned call for the answer.
    pub(crate) fn send_request(self: &Arc<Self>, request: LeaderRequest) -> LeaderCall {
        let (sender, answer) = oneshot::channel();
        let number = self.register_waiter(CallWaiter::Asker(sender));
        self.send(&ToLeader::Ask {
            call: number,
            question: Box::new(request),
        });
        LeaderCall {
            leader_client: Arc::clone(self),
            number,
            answer,
        }
    }

    /// Delivers an answer to the waiter of the call.
    pub(crate) fn deliver_answer(&self, call: CallNumber, answer: Value) {
        match self.remove_waiter(call) {
            // The caller may have been cancelled.
            Some(CallWaiter::Asker(asker)) => drop(asker.send(answer)),
            Some(CallWaiter::ForResult { waiter, .. }) => match serde_json::from_value(answer) {
                Ok(result) => drop(waiter.send(result)),
                Err(error) => tracing::error!(%error, "can't decode a result from the leader; the \
                    caller gets an error"),
            },
            None => {}
        }
    }

    /// Records a heartbeat of the instance that handles a pending event.
    pub(crate) fn record_heartbeat(&self, call: CallNumber, is_asked: bool) {
        if let Some(CallWaiter::ForResult { mirror, .. }) = self
            .lock_calls()
            .as_mut()
            .and_then(|calls| calls.get_mut(&call))
        {
            mirror.record_heartbeat(is_asked);
        }
    }

    /// Withdraws an event whose answer no task waits for.
    pub(crate) fn abandon(&self, event_id: String, reason: String) {
        let mut abandoned = Vec::new();
        if let Some(calls) = &mut *self.lock_calls() {
            calls.retain(|call, waiting| {
                let is_gone = matches!(waiting, CallWaiter::ForResult { event_id: waited, waiter, .. } if *waited == event_id && waiter.is_closed());
                if is_gone {
                    abandoned.push(*call);
                }
                !is_gone
            });
        }
        self.send(&ToLeader::Abandon {
            event_id,
            reason,
            calls: abandoned,
        });
    }

    pub(crate) fn remove_waiter(&self, call: CallNumber) -> Option<CallWaiter> {
        self.lock_calls().as_mut()?.remove(&call)
    }

    /// Drops all waiters because no answer can arrive.
    pub(crate) fn drop_waiters(&self) {
        *self.lock_calls() = None;
    }

    /// Returns the open calls, locked; `None` after this node disconnected.
    fn lock_calls(&self) -> MutexGuard<'_, Option<HashMap<CallNumber, CallWaiter>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if the cluster-wide budget allows no further step.
    pub(crate) async fn check_budget(self: &Arc<Self>) -> Result<(), TurnError> {
        let checked: Option<Result<(), TurnError>> =
            self.send_request(LeaderRequest::Budget).answer().await;
        checked.unwrap_or_else(|| {
            Err(TurnError::new(
                Code::SWARM_STOPPING,
                "the swarm is stopping",
            ))
        })
    }

    /// Reports usage to the leader, which checks the budget of the swarm.
    pub(crate) fn report_usage(&self, spending: UsageIncrement) {
        self.send(&ToLeader::Spent(spending));
    }

    /// Waits until the cluster-wide rate limits allow a model call.
    pub(crate) async fn acquire_rate_limit(self: &Arc<Self>, room: RateLimitRequest) {
        // Without an answer the calling turn is about to end.
        let _: Option<()> = self.send_request(LeaderRequest::Enter(room)).answer().await;
    }

    /// Reports the usage of a model call.
    pub(crate) fn report_model_usage(&self, identity: &str, tokens: u64, cost: Option<UsageCost>) {
        self.send(&ToLeader::Used {
            identity: identity.to_owned(),
            tokens,
            cost,
        });
    }

    /// Forwards streamed text to the leader's subscribers.
    pub(crate) fn publish(&self, event: SwarmEvent) {
        match event {
            SwarmEvent::Text {
                instance,
                turn_id,
                delta,
            } => self.send(&ToLeader::Text {
                instance,
                turn_id,
                delta,
            }),
            SwarmEvent::Reasoning {
                instance,
                turn_id,
                delta,
            } => self.send(&ToLeader::Reasoning {
                instance,
                turn_id,
                delta,
            }),
            SwarmEvent::TextReset { instance, turn_id } => {
                self.send(&ToLeader::TextReset { instance, turn_id })
            }
            // The leader publishes these events itself.
            SwarmEvent::Runtime(_) | SwarmEvent::TurnEnded { .. } => {}
        }
    }
}

/// A sent request. Dropping this value before the answer arrives cancels the request.
pub(crate) struct LeaderCall {
    leader_client: Arc<LeaderClient>,
    number: CallNumber,
    answer: oneshot::Receiver<Value>,
}

impl LeaderCall {
    /// Waits for the answer. Returns `None` if this node has stopped working for the leader, or if
    /// the answer cannot be decoded.
    pub(crate) async fn answer<T: DeserializeOwned>(mut self) -> Option<T> {
        let answer = (&mut self.answer).await.ok()?;
        serde_json::from_value(answer)
            .inspect_err(|error| {
                tracing::error!(%error, "can't decode an answer from the leader; the caller gets \
                    an error")
            })
            .ok()
    }
}

impl Drop for LeaderCall {
    fn drop(&mut self) {
        if self.leader_client.remove_waiter(self.number).is_some() {
            self.leader_client
                .send(&ToLeader::Gone { call: self.number });
        }
    }
}

/// Forwards approval requests to the leader.
pub(crate) struct LeaderApprover(pub(crate) Arc<LeaderClient>);

#[async_trait]
impl Approver for LeaderApprover {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        match self
            .0
            .send_request(LeaderRequest::Approve(request))
            .answer()
            .await
        {
            Some(answer) => answer,
            // The turn is about to end; the approval is requested again when it resumes on another
            // node.
            None => std::future::pending().await,
        }
    }
}

/// Remembered approvals, as the leader sent them with the latest turn.
pub(crate) struct GrantCache {
    leader_client: Arc<LeaderClient>,
    grants: Mutex<Vec<ApprovalGrant>>,
}

impl GrantCache {
    pub(crate) fn new(leader_client: &Arc<LeaderClient>) -> Arc<Self> {
        Arc::new(GrantCache {
            leader_client: Arc::clone(leader_client),
            grants: Mutex::default(),
        })
    }

    /// Replaces all grants with the current grants of the leader.
    pub(crate) fn put(&self, grants: Vec<ApprovalGrant>) {
        *self.grants.lock().unwrap_or_else(PoisonError::into_inner) = grants;
    }
}

impl ApprovalStore for GrantCache {
    fn grants(&self) -> Vec<ApprovalGrant> {
        self.grants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn remember(&self, grants: Vec<ApprovalGrant>) -> Result<(), StoreError> {
        let call = self
            .leader_client
            .send_request(LeaderRequest::Remember(grants.clone()));
        // Callers run on threads that may block.
        let answer: Option<Result<(), String>> =
            tokio::runtime::Handle::current().block_on(call.answer());
        let failed = |message: String| StoreError::Other(Arc::new(std::io::Error::other(message)));
        answer.ok_or(StoreError::Closed)?.map_err(failed)?;
        self.grants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(grants);
        Ok(())
    }

    /// Removes only the local copies of the approvals. The leader deletes the conversation, and sends
    /// the current approvals with each turn.
    fn forget_conversation(&self, id: &InstanceId) -> Result<(), StoreError> {
        self.grants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|grant| !grant.is_of_conversation(id));
        Ok(())
    }
}
