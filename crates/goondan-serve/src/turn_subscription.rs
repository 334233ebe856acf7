//! Subscription to the trace of an input until its turn is over, for protocols that report approval
//! requests in the stream.

use std::sync::Arc;

use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::{ApprovalHandle, ApprovalListener, Input, SendError, SubmittedEventState};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::approvals;
use crate::hub::{PublishedEvent, RunningTurn};
use crate::service::Service;

/// Subscription to the trace of an input. While it exists, approval requests have a listener.
pub(crate) struct TurnSubscription {
    service: Service,
    event_id: String,
    instance: InstanceId,
    trace_id: String,
    live: Receiver<Arc<PublishedEvent>>,
    listener: Option<ApprovalListener>,
    /// The approval request that was reported last.
    asked: Option<ApprovalHandle>,
    /// The result, if the turn was already over at the start.
    over: Option<Box<TurnResult>>,
    /// The turn so far, if its start was not observed or events were missed.
    pub(crate) running: Option<RunningTurn>,
    sees_beginning: bool,
    /// Events were missed, and the state was not read again yet.
    is_behind: bool,
}

/// Update of a followed turn.
pub(crate) enum TurnUpdate {
    /// An event of the trace.
    Seen(Arc<PublishedEvent>),
    /// A call needs approval.
    Asked(ApprovalHandle),
    /// The last approval request is closed.
    Answered,
    /// The turn is over.
    Over(Box<TurnResult>),
    /// Events were missed because the subscriber fell behind. The subscription continues with the
    /// current state.
    Missed,
    /// The swarm ended.
    Gone,
}

/// An input that may have been submitted before.
pub(crate) enum InputLookup {
    /// The input was submitted before.
    Taken(TurnSubscription),
    /// The input is new.
    Free(NewInput),
}

/// Subscription for an input that is not submitted yet. It receives the input's events even if
/// another client submits it.
pub(crate) struct NewInput(TurnSubscription);

impl NewInput {
    /// Submits the input.
    pub(crate) async fn send(self, input: Input) -> Result<TurnSubscription, SendError> {
        let NewInput(watch) = self;
        let turn = watch.service.swarm().send(input).await?;
        let trace_id = match watch.service.swarm().find(&watch.event_id).await {
            // A concurrent request may have submitted the same input first. Its trace then applies.
            Some(SubmittedEventState::Open(known)) => known.trace_id,
            _ => turn.trace_id,
        };
        Ok(TurnSubscription { trace_id, ..watch })
    }
}

impl TurnSubscription {
    /// Subscribes to a submitted input in its conversation; `None` if the id is unknown.
    pub(crate) async fn begin(
        service: &Service,
        event_id: &str,
        instance: &InstanceId,
    ) -> Option<TurnSubscription> {
        match TurnSubscription::look_up(service, event_id, instance).await {
            InputLookup::Taken(watch) => Some(watch),
            InputLookup::Free(_) => None,
        }
    }

    /// Subscribes to an input that may have been submitted before.
    pub(crate) async fn look_up(
        service: &Service,
        event_id: &str,
        instance: &InstanceId,
    ) -> InputLookup {
        // Subscribes before the lookup, so that no event in between is missed.
        let (live, now) = service.inner.hub.subscribe();
        let listener = Some(service.inner.broker.listen());
        let watch = TurnSubscription {
            service: service.clone(),
            event_id: event_id.to_owned(),
            instance: instance.clone(),
            trace_id: String::new(),
            live,
            listener,
            asked: None,
            over: None,
            running: None,
            sees_beginning: false,
            is_behind: false,
        };
        match service.swarm().find(event_id).await {
            None => InputLookup::Free(NewInput(TurnSubscription {
                sees_beginning: true,
                ..watch
            })),
            Some(SubmittedEventState::Over(result)) => InputLookup::Taken(TurnSubscription {
                over: Some(result),
                ..watch
            }),
            Some(SubmittedEventState::Open(turn)) => {
                let running = now
                    .running
                    .get(instance)
                    .filter(|running| running.trace_id == turn.trace_id)
                    .cloned();
                InputLookup::Taken(TurnSubscription {
                    running,
                    trace_id: turn.trace_id,
                    ..watch
                })
            }
        }
    }

    /// Returns true if the subscription began before the turn.
    pub(crate) fn sees_beginning(&self) -> bool {
        self.sees_beginning
    }

    /// Waits for the next update.
    pub(crate) async fn next(&mut self) -> TurnUpdate {
        loop {
            if let Some(result) = self.over.take() {
                return TurnUpdate::Over(result);
            }
            if self.is_behind {
                return self.resubscribe().await;
            }
            if self
                .asked
                .take_if(|question| question.end().is_some())
                .is_some()
            {
                return TurnUpdate::Answered;
            }
            if self.asked.is_none()
                && let Some(question) = approvals::oldest_request(&self.service, &self.trace_id)
            {
                self.asked = Some(question.clone());
                return TurnUpdate::Asked(question);
            }
            tokio::select! {
                // The last events come before the end of the swarm.
                biased;
                received = self.live.recv() => match received {
                    Ok(received) => if let Some(update) = self.to_update(received) {
                        return update;
                    },
                    Err(RecvError::Lagged(_)) => self.is_behind = true,
                    Err(RecvError::Closed) => return TurnUpdate::Gone,
                },
                // The request is looked up at the top of the loop. The start of its turn may arrive
                // later.
                () = next_request(&mut self.listener) => {}
                () = ended(self.asked.as_ref()) => {}
                () = self.service.inner.ended.cancelled() => return TurnUpdate::Gone,
            }
        }
    }

    /// Subscribes again with the current state.
    async fn resubscribe(&mut self) -> TurnUpdate {
        match TurnSubscription::begin(&self.service, &self.event_id, &self.instance).await {
            Some(subscription) => {
                *self = subscription;
                TurnUpdate::Missed
            }
            None => TurnUpdate::Gone,
        }
    }

    /// Converts an event; `None` if the event belongs to another trace.
    fn to_update(&self, published: Arc<PublishedEvent>) -> Option<TurnUpdate> {
        if let SwarmEvent::TurnEnded {
            event_id, result, ..
        } = &published.event
            && *event_id == self.event_id
        {
            return Some(TurnUpdate::Over(result.clone()));
        }
        (published.trace_id.as_ref() == Some(&self.trace_id)).then_some(TurnUpdate::Seen(published))
    }

    /// Trace of the input.
    pub(crate) fn trace_id(&self) -> &str {
        &self.trace_id
    }

    /// Service of the subscription.
    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// Ends the subscription, but keeps the approval listener until the client answers.
    pub(crate) fn park(self) {
        let open_requests: Vec<ApprovalHandle> = self.asked.into_iter().collect();
        approvals::park(self.listener, &open_requests);
    }

    /// Waits until the turn is over or waits for approval. Returns false if the swarm ended before.
    pub(crate) async fn settled(mut self) -> bool {
        loop {
            let is_open = |question: &ApprovalHandle| question.end().is_none();
            if self.asked.as_ref().is_some_and(is_open) {
                // The listener must stay subscribed, so that the client can still answer.
                self.park();
                return true;
            }
            match self.next().await {
                TurnUpdate::Over(_) => return true,
                TurnUpdate::Gone => return false,
                TurnUpdate::Seen(_)
                | TurnUpdate::Asked(_)
                | TurnUpdate::Answered
                | TurnUpdate::Missed => {}
            }
        }
    }
}

/// Waits for an approval request. Never returns without a listener.
async fn next_request(listener: &mut Option<ApprovalListener>) {
    let question = match listener {
        Some(listener) => listener.next().await,
        None => None,
    };
    if question.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Waits for the end of the approval request. Never returns without a request.
async fn ended(question: Option<&ApprovalHandle>) {
    match question {
        Some(question) => question.ended().await,
        None => std::future::pending().await,
    }
}
