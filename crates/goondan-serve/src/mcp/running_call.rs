//! A call with a running turn: progress, approval requests, and cancellation by the client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::{ApprovalHandle, Turn};
use rmcp::RoleServer;
use rmcp::model::{InputRequiredResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::elicitation::{self, ElicitationSupport};
use crate::approvals;
use crate::hub::PublishedEvent;
use crate::progress;
use crate::service::Service;

/// Minimum time between progress messages about model output.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Time without a progress message after which the client receives one anyway. Clients give up on a
/// call after 60 seconds of silence, some after less.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(8);

/// A call with a running turn.
pub(super) struct RunningCall<'a> {
    service: &'a Service,
    context: &'a RequestContext<RoleServer>,
    turn: Option<Turn>,
    trace_id: String,
    asking: ElicitationSupport,
    /// Approval requests, by id, that may belong to this trace and were not sent yet.
    open: BTreeMap<String, ApprovalHandle>,
    progress: Option<ProgressReporter>,
    /// Cancels the turn if the call ends before the turn.
    given_up: CancelOnDrop,
}

/// End of a call.
pub(super) enum CallEnd {
    /// The turn is over.
    Over(Box<TurnResult>),
    /// The client has to prompt its user and call again.
    Asks(InputRequiredResult),
    /// The client cancelled the call.
    GivenUp,
    /// The swarm ended before the turn.
    SwarmGone,
}

/// Cancels the turn of a call when dropped, because a client can abandon a call in several ways.
struct CancelOnDrop {
    service: Service,
    event_id: String,
    is_off: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.is_off {
            return;
        }
        let (service, event_id) = (self.service.clone(), std::mem::take(&mut self.event_id));
        tokio::spawn(async move { service.swarm().cancel_event(&event_id).await });
    }
}

impl<'a> RunningCall<'a> {
    /// Follows the turn of a call.
    pub(super) fn new(
        service: &'a Service,
        turn: Turn,
        context: &'a RequestContext<RoleServer>,
    ) -> Self {
        let progress = context.meta.get_progress_token();
        let given_up = CancelOnDrop {
            service: service.clone(),
            event_id: turn.event_id.clone(),
            is_off: false,
        };
        RunningCall {
            service,
            context,
            trace_id: turn.trace_id.clone(),
            turn: Some(turn),
            asking: ElicitationSupport::of(context),
            open: BTreeMap::new(),
            progress: progress.map(ProgressReporter::new),
            given_up,
        }
    }

    /// Waits for the end of the call.
    pub(super) async fn follow(mut self, mut live: Receiver<Arc<PublishedEvent>>) -> CallEnd {
        let Some(turn) = self.turn.take() else {
            return CallEnd::SwarmGone;
        };
        let event_id = turn.event_id.clone();
        let mut result = std::pin::pin!(turn.result());
        let mut listener = self
            .asking
            .can_ask()
            .then(|| self.service.inner.broker.listen());
        let mut put = FuturesUnordered::new();
        let ended = loop {
            tokio::select! {
                biased;
                result = &mut result => break result.map_or(CallEnd::SwarmGone, |result| CallEnd::Over(Box::new(result))),
                () = self.context.ct.cancelled() => return CallEnd::GivenUp,
                Some(question) = elicitation::next(&mut listener) => {
                    self.open.insert(question.request.id.clone(), question);
                }
                Some(()) = put.next() => {}
                () = heartbeat_due(self.progress.as_ref()) => self.report_heartbeat().await,
                received = live.recv() => match received {
                    Ok(received) => self.report_progress(&received).await,
                    // Lost events are only missed progress.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break CallEnd::SwarmGone,
                }
            }
            let own_requests = self.take_own_requests();
            if !own_requests.is_empty() && self.asking == ElicitationSupport::ByCallingAgain {
                approvals::park(listener.take(), &own_requests);
                break CallEnd::Asks(elicitation::ask_for(&own_requests, event_id));
            }
            let peer = &self.context.peer;
            put.extend(
                own_requests
                    .into_iter()
                    .map(|question| elicitation::put(peer.clone(), question)),
            );
        };
        self.given_up.is_off = true;
        ended
    }

    /// Removes and returns the requests of this trace. A turn's start event may arrive after its
    /// request.
    fn take_own_requests(&mut self) -> Vec<ApprovalHandle> {
        let (hub, trace_id) = (&self.service.inner.hub, &self.trace_id);
        let chain = |instance: &InstanceId| hub.chain_of(instance);
        let own_requests = self.open.extract_if(.., |_, question| {
            question.end().is_some() || chain(&question.request.instance).as_ref() == Some(trace_id)
        });
        own_requests
            .map(|(_, question)| question)
            .filter(|question| question.end().is_none())
            .collect()
    }

    /// Notifies the client that the turn still runs.
    async fn report_heartbeat(&mut self) {
        if let Some(progress) = &mut self.progress {
            let notification = progress.message("the turn is running".to_owned());
            // A disconnected client abandons the call; its handler detects that.
            let _ = self.context.peer.notify_progress(notification).await;
        }
    }

    /// Notifies the client, if the event belongs to the trace and the client requested progress.
    async fn report_progress(&mut self, published: &PublishedEvent) {
        if published.trace_id.as_ref() != Some(&self.trace_id) {
            return;
        }
        let Some(progress) = &mut self.progress else {
            return;
        };
        if let Some(notification) = progress.notification(&published.event) {
            // A disconnected client abandons the call; its handler detects that.
            let _ = self.context.peer.notify_progress(notification).await;
        }
    }
}

/// Progress reports of a running call.
struct ProgressReporter {
    token: ProgressToken,
    count: u32,
    /// Time of the last message about model output.
    spoke: Option<Instant>,
    /// Time of the last message.
    reported: Instant,
}

/// Waits until the client needs a message. Never returns for a client that requested no progress.
async fn heartbeat_due(progress: Option<&ProgressReporter>) {
    match progress {
        Some(progress) => {
            tokio::time::sleep_until(progress.reported + HEARTBEAT_INTERVAL).await;
        }
        None => std::future::pending().await,
    }
}

impl ProgressReporter {
    /// Creates the reporter for the client's progress token.
    fn new(token: ProgressToken) -> Self {
        ProgressReporter {
            token,
            count: 0,
            spoke: None,
            reported: Instant::now(),
        }
    }

    /// Returns the progress message for an event, if any.
    fn notification(&mut self, event: &SwarmEvent) -> Option<ProgressNotificationParam> {
        let message = match event {
            SwarmEvent::Runtime(event) => progress::progress_line(event)?,
            SwarmEvent::Text { instance, .. } | SwarmEvent::Reasoning { instance, .. } => {
                if self
                    .spoke
                    .is_some_and(|spoke| spoke.elapsed() < PROGRESS_INTERVAL)
                {
                    return None;
                }
                self.spoke = Some(Instant::now());
                let is_text = matches!(event, SwarmEvent::Text { .. });
                let activity = if is_text { "writes" } else { "reasons" };
                format!("{}: {activity}", instance.agent)
            }
            SwarmEvent::TextReset { .. } | SwarmEvent::TurnEnded { .. } => return None,
        };
        Some(self.message(message))
    }

    /// Returns a progress message with the next number.
    fn message(&mut self, message: String) -> ProgressNotificationParam {
        (self.count, self.reported) = (self.count + 1, Instant::now());
        ProgressNotificationParam::new(self.token.clone(), f64::from(self.count))
            .with_message(message)
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_turn_is_reported_again_and_again() {
        let mut progress = ProgressReporter::new(ProgressToken(NumberOrString::Number(1)));
        let began = Instant::now();
        for number in 1..=4 {
            heartbeat_due(Some(&progress)).await;
            let sent = progress.message("running".to_owned());
            assert_eq!(sent.progress, f64::from(number));
        }
        assert!(began.elapsed() <= 4 * Duration::from_secs(10));
    }
}
