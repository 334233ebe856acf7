//! Gateway to a swarm for interfaces such as protocols, channels and commands: submit an input once,
//! follow its turn, answer its approval requests.
//!
//! `docs/serving.md` defines the behavior of all interfaces if a reader falls behind, a client
//! disconnects, a model call restarts or the swarm ends.

mod approval_bridge;
mod event_hub;
#[cfg(test)]
mod tests;
mod turn_stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goondan_core::event::{RuntimeEventKind, TurnResult};
use goondan_core::ids::{InstanceId, is_message_of};
use goondan_engine::delivery::orchestrator::AcceptanceKind;
use goondan_spec::Code;
use tokio_util::sync::CancellationToken;

pub use self::approval_bridge::{ApprovalBridge, ApprovalRefusal, ApprovalReports};
pub use self::event_hub::{
    EncodedEvent, EventHub, EventReceiver, HubSnapshot, PublishedEvent, REASONING_DELTA_TYPE,
    RunningTurn, TEXT_DELTA_TYPE, TEXT_RESET_TYPE, piece,
};
use self::turn_stream::TurnSubscription;
pub use self::turn_stream::{TurnStream, TurnUpdate};
use crate::approvals::broker::ApprovalBroker;
use crate::start::swarm::{Input, SendError, SubmittedEventState, Swarm, Turn};

/// A swarm with the state that its interfaces share. Cheap to clone.
#[derive(Clone)]
pub struct SwarmGateway {
    inner: Arc<GatewayState>,
}

struct GatewayState {
    swarm: Swarm,
    approvals: ApprovalBridge,
    hub: Arc<EventHub>,
    is_draining: AtomicBool,
    ended: CancellationToken,
}

/// A submitted input.
pub enum Submission {
    /// The input is new, and it is stored.
    New(Turn),
    /// The same input was submitted before. Its turn is queued or running.
    Running(Turn),
    /// The same input was submitted before, and its turn is over.
    Finished(Box<TurnResult>),
}

/// Reason why an input was not submitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmissionError {
    /// Another input with the same ID was submitted to another conversation.
    #[error("Another input with this `id` was sent to another conversation.")]
    IdInUse,
    /// The gateway or the swarm rejected the input.
    #[error(transparent)]
    Rejected(#[from] SendError),
}

impl From<SubmissionError> for SendError {
    fn from(error: SubmissionError) -> Self {
        match error {
            SubmissionError::Rejected(error) => error,
            SubmissionError::IdInUse => SendError {
                code: Code::SERVE_REQUEST,
                message: error.to_string(),
                suggestion: Some("Use a different id for each input.".to_owned()),
            },
        }
    }
}

impl SwarmGateway {
    /// Opens the gateway to a swarm. `broker` must be the approver of the swarm.
    pub fn open(swarm: Swarm, broker: ApprovalBroker) -> Self {
        SwarmGateway::with_buffer(swarm, broker, event_hub::MAX_BUFFERED_EVENTS)
    }

    /// Opens the gateway to a swarm, with a buffer of `events` events for slow readers.
    pub fn with_buffer(swarm: Swarm, broker: ApprovalBroker, events: usize) -> Self {
        let hub = Arc::new(EventHub::keeping(events, swarm.sequence_at_start()));
        let ended = CancellationToken::new();
        let (published, is_over) = (Arc::clone(&hub), ended.clone());
        // Runs inside the swarm's own task: waking a separate task for each event would keep a
        // second processor busy.
        swarm.observe(move |event| {
            published.publish(event);
            !is_over.is_cancelled()
        });
        let inner = GatewayState {
            swarm,
            approvals: ApprovalBridge::new(broker),
            hub,
            is_draining: AtomicBool::new(false),
            ended,
        };
        SwarmGateway {
            inner: Arc::new(inner),
        }
    }

    /// Returns the swarm.
    pub fn swarm(&self) -> &Swarm {
        &self.inner.swarm
    }

    /// Returns the approval requests of the swarm.
    pub fn approvals(&self) -> &ApprovalBridge {
        &self.inner.approvals
    }

    /// Returns the broadcast of all events of the swarm.
    pub fn hub(&self) -> &EventHub {
        &self.inner.hub
    }

    /// Rejects new inputs from now on. Streams continue, and repeated inputs find their turns.
    pub fn drain(&self) {
        self.inner.is_draining.store(true, Ordering::Release);
    }

    /// Returns true after [`SwarmGateway::drain`].
    pub fn is_draining(&self) -> bool {
        self.inner.is_draining.load(Ordering::Acquire)
    }

    /// Ends all streams.
    pub fn close(&self) {
        self.inner.ended.cancel();
    }

    /// Waits until [`SwarmGateway::close`].
    pub async fn closed(&self) {
        self.inner.ended.cancelled().await;
    }

    /// Returns a token that [`SwarmGateway::close`] cancels.
    pub fn closed_token(&self) -> &CancellationToken {
        &self.inner.ended
    }

    /// Submits an input at once, and waits until it is stored. Inputs are processed in call order.
    /// An input with the ID of an earlier input of the same conversation starts no second turn.
    ///
    /// # Errors
    /// [`SubmissionError::IdInUse`] if the ID belongs to an input of another conversation, even if
    /// its turn is over. `SWARM_STOPPING` for a new input after [`SwarmGateway::drain`]. Otherwise
    /// the error of [`Swarm::send`].
    pub fn submit(
        &self,
        input: Input,
    ) -> impl Future<Output = Result<Submission, SubmissionError>> + Send + use<> {
        let (gateway, id) = (self.clone(), input.id.clone());
        let instance = self.swarm().instance_of(&input);
        let submitted = match self.is_draining() {
            true => Err(SendError {
                code: Code::SWARM_STOPPING,
                message: "The server is stopping.".to_owned(),
                suggestion: Some("Retry in a few seconds.".to_owned()),
            }),
            false => self.swarm().submit(input),
        };
        async move {
            let accepted = async { submitted?.accepted().await }.await;
            let is_new = |turn: &Turn| turn.acceptance == AcceptanceKind::New;
            // A repeated input finds its turn even if the swarm rejects new inputs.
            let known = match id {
                Some(id) if !accepted.as_ref().is_ok_and(is_new) => gateway.swarm().find(&id).await,
                _ => None,
            };
            match known {
                Some(known) => gateway.repeated(known, &instance).await,
                None => Ok(Submission::New(accepted?)),
            }
        }
    }

    /// Submits an input like [`SwarmGateway::submit`], and follows its turn. No event of a new turn
    /// is missed.
    pub fn submit_and_follow(
        &self,
        input: Input,
        reports: ApprovalReports,
    ) -> impl Future<Output = Result<TurnStream, SubmissionError>> + Send + use<> {
        let subscription = TurnSubscription::begin(self, reports);
        let (id, submission) = (input.id.clone(), self.submit(input));
        async move {
            let submission = submission.await?;
            let event_id = match (&submission, id) {
                (Submission::New(turn) | Submission::Running(turn), _) => turn.event_id.clone(),
                (Submission::Finished(_), id) => id.unwrap_or_default(),
            };
            Ok(subscription.follow(&event_id, submission))
        }
    }

    /// Follows a submitted input. Returns `None` if the ID is unknown or its result has expired.
    pub async fn follow(&self, event_id: &str, reports: ApprovalReports) -> Option<TurnStream> {
        // The client is present before the lookup, so that no request is denied in between.
        let subscription = TurnSubscription::begin(self, reports);
        let submission = match self.swarm().find(event_id).await? {
            SubmittedEventState::Open(turn) => Submission::Running(turn),
            SubmittedEventState::Over(result) => Submission::Finished(result),
        };
        Some(subscription.follow(event_id, submission))
    }

    /// Returns the state of an input that was submitted before.
    async fn repeated(
        &self,
        found: SubmittedEventState,
        instance: &InstanceId,
    ) -> Result<Submission, SubmissionError> {
        match found {
            SubmittedEventState::Open(turn) if turn.instance == *instance => {
                Ok(Submission::Running(turn))
            }
            SubmittedEventState::Over(result) if self.is_in(&result, instance).await => {
                Ok(Submission::Finished(result))
            }
            SubmittedEventState::Open(_) | SubmittedEventState::Over(_) => {
                Err(SubmissionError::IdInUse)
            }
        }
    }

    /// Returns false if the answer of a finished turn is not from the conversation.
    async fn is_in(&self, result: &TurnResult, instance: &InstanceId) -> bool {
        if result.response_message.is_none() {
            return true;
        }
        let messages = self.swarm().conversation(instance).await;
        let mut messages = messages.iter().flatten();
        // Extensions remove messages, but no events.
        messages.any(|message| is_message_of(&message.id, &result.turn_id))
            || self.has_started(&result.turn_id, instance).await
    }

    /// Returns true if the conversation has the start event of the turn.
    async fn has_started(&self, turn: &str, instance: &InstanceId) -> bool {
        let events = self.swarm().events(instance, 0).await;
        let mut kinds = events.iter().flatten().map(|event| &event.kind);
        kinds.any(
            |kind| matches!(kind, RuntimeEventKind::TurnStarted { turn_id, .. } if turn_id == turn),
        )
    }
}
