//! A call with a running turn: progress, approval requests, and cancellation by the client.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use goondan::event::{SwarmEvent, TurnResult};
use goondan::gateway::{TurnStream, TurnUpdate};
use rmcp::RoleServer;
use rmcp::model::{InputRequiredResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::time::Instant;

use super::elicitation::{self, ElicitationSupport};
use crate::progress;
use crate::service::Service;

/// Minimum time between progress messages about model output.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Time without a progress message after which the client receives one anyway. Clients give up on a
/// call after 60 seconds of silence, some after less.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(8);

/// A call with a running turn.
pub(super) struct RunningMcpCall<'a> {
    context: &'a RequestContext<RoleServer>,
    agent: String,
    asking: ElicitationSupport,
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

impl<'a> RunningMcpCall<'a> {
    /// Creates the state of a call to `agent`.
    pub(super) fn new(
        service: &Service,
        agent: String,
        asking: ElicitationSupport,
        turn: &TurnStream,
        context: &'a RequestContext<RoleServer>,
    ) -> Self {
        let progress = context.meta.get_progress_token();
        RunningMcpCall {
            context,
            agent,
            asking,
            progress: progress.map(ProgressReporter::new),
            given_up: CancelOnDrop {
                service: service.clone(),
                event_id: turn.event_id().to_owned(),
                is_off: false,
            },
        }
    }

    pub(super) async fn wait_for_end(mut self, mut turn: TurnStream) -> CallEnd {
        let mut put = FuturesUnordered::new();
        let ended = loop {
            let update = tokio::select! {
                biased;
                () = self.context.ct.cancelled() => return CallEnd::GivenUp,
                Some(()) = put.next() => continue,
                () = heartbeat_due(self.progress.as_ref()) => {
                    self.report_heartbeat().await;
                    continue;
                }
                update = turn.next() => update,
            };
            match update {
                Some(TurnUpdate::Ended(result)) => break CallEnd::Over(result),
                Some(TurnUpdate::SwarmEnded) | None => break CallEnd::SwarmGone,
                Some(TurnUpdate::ApprovalRequested(request)) => {
                    if self.asking == ElicitationSupport::ByCallingAgain {
                        let event_id = turn.event_id().to_owned();
                        let asked = elicitation::ask_for(&turn.open_approvals(), event_id);
                        turn.park();
                        break CallEnd::Asks(asked);
                    }
                    put.push(elicitation::put(self.context.peer.clone(), request));
                }
                Some(update) => self.report_progress(&update).await,
            }
        };
        self.given_up.is_off = true;
        ended
    }

    /// Notifies the client that the turn still runs.
    async fn report_heartbeat(&mut self) {
        if let Some(progress) = &mut self.progress {
            let notification = progress.message("the turn is running".to_owned());
            // A disconnected client abandons the call; its handler detects that.
            let _ = self.context.peer.notify_progress(notification).await;
        }
    }

    /// Notifies the client, if the client requested progress.
    async fn report_progress(&mut self, update: &TurnUpdate) {
        let Some(progress) = &mut self.progress else {
            return;
        };
        let notification = match update {
            TurnUpdate::Text(_) => progress.activity_notification(&self.agent, "writes"),
            TurnUpdate::Reasoning(_) => progress.activity_notification(&self.agent, "reasons"),
            TurnUpdate::Event(published) => progress.notification(&published.event),
            _ => None,
        };
        if let Some(notification) = notification {
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
        match event {
            SwarmEvent::Runtime(event) => Some(self.message(progress::progress_line(event)?)),
            SwarmEvent::Text { instance, .. } => {
                self.activity_notification(&instance.agent, "writes")
            }
            SwarmEvent::Reasoning { instance, .. } => {
                self.activity_notification(&instance.agent, "reasons")
            }
            SwarmEvent::TextReset { .. } | SwarmEvent::TurnEnded { .. } => None,
        }
    }

    /// Returns a progress message about model output, at most one each [`PROGRESS_INTERVAL`].
    fn activity_notification(
        &mut self,
        agent: &str,
        activity: &str,
    ) -> Option<ProgressNotificationParam> {
        let is_early = |spoke: Instant| spoke.elapsed() < PROGRESS_INTERVAL;
        if self.spoke.is_some_and(is_early) {
            return None;
        }
        self.spoke = Some(Instant::now());
        Some(self.message(format!("{agent}: {activity}")))
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
    async fn a_silent_turn_sends_periodic_progress() {
        let mut progress = ProgressReporter::new(ProgressToken(NumberOrString::Number(1)));
        let start = Instant::now();
        for number in 1..=4 {
            heartbeat_due(Some(&progress)).await;
            let sent = progress.message("running".to_owned());
            assert_eq!(sent.progress, f64::from(number));
        }
        assert!(start.elapsed() <= 4 * Duration::from_secs(10));
    }
}
