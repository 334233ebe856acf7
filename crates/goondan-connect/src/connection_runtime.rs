//! Accepts the events of one connection: durably, once each, and only from allowed senders.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use goondan::adapters::connectors::BoundConnection;
use goondan::event::turn_id;
use goondan::ports::clock::Clock;
use goondan::spec::Code;
use goondan::spec::kinds::ReplyMode;
use goondan::{Input, SendError, SubmittedEventState, Swarm};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::albums::AlbumCollector;
use crate::allowed_senders::{AllowedSenders, SenderAdmission};
use crate::channel_approvals::{
    self, ButtonPress, ChannelApprovals, ConnectionApprovals, PressOutcome,
};
use crate::connections::DeliveredAnswer;
use crate::event::PlatformEvent;
use crate::event_files;
use crate::outbox::{Outbox, OutboxReply, ReplyState};
use crate::platforms::PlatformConnector;
use crate::reply_queue::{QueuedAnswer, ReplyQueues, StartedTurn};
use crate::route::route;
use crate::signature::digest;
use crate::streamed_text::{TurnTextStreams, TurnTextWatch};

/// Reply to content that the connector cannot read.
const UNSUPPORTED_REPLY: &str = "Sorry, this kind of message is not supported.";
/// Maximum attempts to confirm an approval answer.
const MAX_REPLY_ATTEMPTS: u32 = 3;
/// Error codes after which a redelivered event may be accepted.
const RETRYABLE_CODES: [Code; 4] = [
    Code::SWARM_STOPPING,
    Code::SWARM_STOPPED,
    Code::AGENT_QUEUE_FULL,
    Code::STORE,
];

/// A connection with everything that its events and answers need.
pub(crate) struct ConnectionRuntime {
    pub(crate) bound: BoundConnection,
    pub(crate) swarm: Swarm,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) platform: Arc<dyn PlatformConnector>,
    /// State directory.
    pub(crate) folder: PathBuf,
    pub(crate) owed: Arc<PendingReplies>,
    pub(crate) questions: ConnectionApprovals,
    pub(crate) live: TurnTextStreams,
    pub(crate) albums: AlbumCollector,
    asking: ChannelApprovals,
    senders: AllowedSenders,
    deliveries: Option<UnboundedSender<DeliveredAnswer>>,
}

/// State shared by all connections of a swarm.
pub(crate) struct SharedConnectionState {
    pub(crate) swarm: Swarm,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) asking: ChannelApprovals,
    pub(crate) live: TurnTextStreams,
    pub(crate) deliveries: Option<UnboundedSender<DeliveredAnswer>>,
}

/// Pending answers of a connection. They survive a change of its settings.
pub(crate) struct PendingReplies {
    pub(crate) outbox: Outbox,
    pub(crate) lanes: ReplyQueues,
}

/// Result of accepting an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventAcceptance {
    /// The input is durable, possibly since an earlier delivery.
    Accepted,
    /// The sender is not allowed and needs no further notification.
    NotLetIn,
    /// The sender is not allowed and has not been notified yet.
    Stranger,
}

/// Reason for refusing an event.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(crate) struct EventRefusal {
    /// Reason why the event is refused, as a complete sentence.
    pub(crate) message: String,
    /// True if the event may be accepted when it is delivered again.
    pub(crate) is_passing: bool,
}

impl ConnectionRuntime {
    /// Opens the state of a connection in `folder`.
    pub(crate) fn open(
        bound: BoundConnection,
        shared: &SharedConnectionState,
        platform: Arc<dyn PlatformConnector>,
        folder: PathBuf,
        owed: Arc<PendingReplies>,
    ) -> io::Result<ConnectionRuntime> {
        let senders = AllowedSenders::open(&folder, bound.allow.clone(), platform.is_guarded())?;
        let questions = ConnectionApprovals::open_in(&folder)?;
        let SharedConnectionState {
            swarm,
            clock,
            asking,
            live,
            deliveries,
        } = shared;
        let (swarm, clock, asking, live) = (
            swarm.clone(),
            Arc::clone(clock),
            asking.clone(),
            live.clone(),
        );
        Ok(ConnectionRuntime {
            bound,
            swarm,
            clock,
            platform,
            folder,
            owed,
            questions,
            live,
            albums: AlbumCollector::default(),
            asking,
            senders,
            deliveries: deliveries.clone(),
        })
    }

    /// Reports that an answer of the conversation `lane` was delivered.
    pub(crate) fn report_delivery(&self, lane: &str) {
        // The console shows its own answers.
        let is_console = self.bound.connector == "cli" && self.bound.file.is_none();
        let Some(deliveries) = self.deliveries.as_ref().filter(|_| !is_console) else {
            return;
        };
        // A receiver that has ended needs no notices.
        let _ = deliveries.send(DeliveredAnswer {
            connection: self.bound.name.clone(),
            conversation: lane.to_owned(),
        });
    }

    /// Current time of the swarm's clock.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Ids of the senders that may answer approval requests.
    pub(crate) fn approvers(&self) -> &BTreeSet<String> {
        static NO_APPROVERS: BTreeSet<String> = BTreeSet::new();
        self.bound
            .allow
            .as_ref()
            .map_or(&NO_APPROVERS, |allow| &allow.approvers)
    }

    /// Answers an approval request.
    pub(crate) fn press(&self, press: &ButtonPress) -> PressOutcome {
        channel_approvals::press(self, press)
    }

    /// Handles a written approval answer of an approver and returns true. Returns false for any
    /// other message, including the same text from another sender.
    fn take_written_answer(self: &Arc<Self>, event: &PlatformEvent) -> bool {
        let press = channel_approvals::written(event)
            .filter(|press| self.approvers().contains(&press.sender.id));
        let Some(press) = press else { return false };
        let PressOutcome { words, .. } = self.press(&press);
        let Some(origin) = event.origin.clone() else {
            return true;
        };
        let runtime = Arc::clone(self);
        tokio::spawn(async move {
            for tries in 1..=MAX_REPLY_ATTEMPTS {
                match runtime.platform.send(&origin, 0, words).await {
                    Ok(()) => return,
                    // Discord has no message to reply to until its request is answered.
                    Err(_) if tries < MAX_REPLY_ATTEMPTS => {
                        tokio::time::sleep(Duration::from_secs(1)).await
                    }
                    Err(error) => {
                        tracing::debug!(
                            %error,
                            "could not tell the sender whether the approval answer was accepted"
                        )
                    }
                }
            }
        });
        true
    }

    /// Accepts an event. Returns when its input is durable, without waiting for the turn.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        event: PlatformEvent,
    ) -> Result<EventAcceptance, EventRefusal> {
        if self.take_written_answer(&event) {
            return Ok(EventAcceptance::Accepted);
        }
        match self
            .senders
            .admit(&event, self.now())
            .map_err(not_written)?
        {
            SenderAdmission::Passes => {}
            SenderAdmission::NewStranger => {
                tracing::warn!(
                    connection = self.bound.name,
                    sender = event.sender.as_ref().map(|sender| &sender.id),
                    "unknown sender; `gdn connection approve` approves the sender"
                );
                return Ok(EventAcceptance::Stranger);
            }
            // Unknown senders can repeat their messages without limit.
            SenderAdmission::Refused => {
                tracing::debug!(
                    connection = self.bound.name,
                    channel = event.channel,
                    sender = event.sender.as_ref().map(|sender| &sender.id),
                    "ignored a message: its sender or channel is not allowed"
                );
                return Ok(EventAcceptance::NotLetIn);
            }
        }
        if let Some(kind) = &event.unsupported {
            self.refuse_content(kind, event.origin.as_ref());
            return Ok(EventAcceptance::Accepted);
        }
        let (id, files) = (self.input_id(&event.id), event.files.clone());
        let origin = event
            .origin
            .clone()
            .filter(|_| self.bound.reply != ReplyMode::None);
        let channel = event.channel.clone().unwrap_or_default();
        let (mut input, key) = self.input(event, id.clone());
        let is_new = match &origin {
            None => false,
            Some(origin) => match self.owed.outbox.state(&id) {
                Some(ReplyState::Accepted) => {
                    self.owed.outbox.settled().await.map_err(not_written)?;
                    false
                }
                Some(_) => return Ok(EventAcceptance::Accepted),
                None => {
                    self.owed
                        .outbox
                        .record_pending(self.reply(&id, &key, &channel, origin.clone()))
                        .await
                        .map_err(not_written)?;
                    true
                }
            },
        };
        // The reply is recorded first, so that a redelivery during the download is recognized.
        input.files = event_files::fetch(self, &files, &mut input.text).await;
        match self
            .submit_with_reply(input, id.clone(), key, origin.filter(|_| is_new), &channel)
            .await
        {
            Ok(()) => Ok(EventAcceptance::Accepted),
            Err(error) => {
                if is_new {
                    self.owed.outbox.dropped(&id).await.map_err(not_written)?;
                }
                Err(EventRefusal {
                    message: format!("{} ({}).", error.message, error.code),
                    is_passing: RETRYABLE_CODES.contains(&error.code),
                })
            }
        }
    }

    /// Logs content that the connector cannot read. Sends an answer if the setting `unsupported` is
    /// `reply`.
    fn refuse_content(self: &Arc<Self>, kind: &str, origin: Option<&Value>) {
        tracing::warn!(connection = self.bound.name, "ignored a message: {kind}");
        let Some(origin) = origin.filter(|_| self.bound.setting("unsupported") == Some("reply"))
        else {
            return;
        };
        let (runtime, origin) = (Arc::clone(self), origin.clone());
        tokio::spawn(async move {
            if let Err(error) = runtime.platform.send(&origin, 0, UNSUPPORTED_REPLY).await {
                tracing::debug!(%error, "could not tell a sender that the message is not supported");
            }
        });
    }

    /// Creates the input for an event, with the id `id`. Also returns the conversation of the input
    /// as `AGENT:KEY`.
    fn input(&self, event: PlatformEvent, id: String) -> (Input, String) {
        let route = route(&self.bound.ingress, &event);
        let agent = route.agent.unwrap_or_else(|| self.swarm.entry_agent());
        let lane = format!("{agent}:{}", route.instance_key);
        let metadata = event.metadata(&self.bound.name, &self.bound.connector);
        let is_builtin = self.bound.file.is_none();
        let answer_call = event
            .answer_call(&self.bound.connector)
            .filter(|_| is_builtin);
        // The properties let the agent answer with a tool. They may come from unknown senders, so
        // JSON delimits them clearly.
        let text = match self.bound.answers_by_tool {
            true => format!(
                "{}\n\n[{} {}]",
                event.full_text(),
                event.name,
                serde_json::json!(event.properties)
            ),
            false => event.full_text(),
        };
        let input = Input {
            text,
            agent: Some(agent),
            instance_key: Some(route.instance_key),
            id: Some(id),
            metadata,
            answer_call,
            ..Input::default()
        };
        (input, lane)
    }

    /// Derives the input id from the event id, so that a redelivered event has the same input id.
    fn input_id(&self, event: &str) -> String {
        let digest = digest(&[self.bound.name.as_bytes(), b"\0", event.as_bytes()]);
        format!("cn-{}", &digest[..40])
    }

    /// Creates the outbox entry for a new answer.
    fn reply(&self, id: &str, instance: &str, channel: &str, origin: Value) -> OutboxReply {
        OutboxReply {
            id: id.to_owned(),
            state: ReplyState::Accepted,
            instance: instance.to_owned(),
            at: self.now(),
            channel: channel.to_owned(),
            origin,
            draft: None,
            why: None,
        }
    }

    /// Submits the input and queues its answer in one step, so that both queues have the same
    /// order.
    async fn submit_with_reply(
        self: &Arc<Self>,
        input: Input,
        id: String,
        lane: String,
        origin: Option<Value>,
        channel: &str,
    ) -> Result<(), SendError> {
        let submit = || self.swarm.submit(input);
        let Some(origin) = origin else {
            return submit()?.accepted().await.map(drop);
        };
        let (sender, turn) = oneshot::channel();
        // Must precede the start of the turn.
        let watched = self.watch(&id, /* has_begun */ false);
        let job = QueuedAnswer {
            id,
            channel: channel.to_owned(),
            origin: origin.clone(),
            draft: None,
            turn,
        };
        let submission = self.owed.lanes.queue(self, lane, job, submit)?;
        // Must precede the first approval request of the turn.
        let questions = self
            .asking
            .follow(self, submission.trace_id(), &origin, channel);
        let found = SubmittedEventState::Open(submission.accepted().await?);
        // If the receiver is gone, the next start sends the answer.
        let _ = sender.send(StartedTurn {
            found,
            watched,
            questions,
        });
        Ok(())
    }

    /// Subscribes to the text of the turn of the input `id`; `None` if answers are not streamed.
    fn watch(&self, id: &str, has_begun: bool) -> Option<TurnTextWatch> {
        let grows = self.bound.reply == ReplyMode::Stream;
        grows.then(|| self.live.watch(&self.swarm, turn_id(id), has_begun))
    }

    /// Resumes the pending answers of an earlier process.
    pub(crate) async fn resume(self: &Arc<Self>, owed: Vec<OutboxReply>) -> io::Result<()> {
        for reply in owed {
            if reply.state == ReplyState::Sending {
                let at = reply.at.to_rfc3339_opts(SecondsFormat::Secs, true);
                let why = format!(
                    "the process ended while the answer to the event of {at} was being sent"
                );
                self.owed.outbox.failed(&reply.id, &why).await?;
                continue;
            }
            match self.swarm.find(&reply.id).await {
                // The swarm never accepted the input; the platform redelivers the event.
                None => self.owed.outbox.dropped(&reply.id).await?,
                Some(found) => {
                    let (sender, turn) = oneshot::channel();
                    let questions = match &found {
                        SubmittedEventState::Open(turn) => {
                            self.asking
                                .follow(self, &turn.trace_id, &reply.origin, &reply.channel)
                        }
                        SubmittedEventState::Over(_) => None,
                    };
                    let watched = self.watch(&reply.id, /* has_begun */ true);
                    let _ = sender.send(StartedTurn {
                        found,
                        watched,
                        questions,
                    });
                    let job = QueuedAnswer {
                        id: reply.id,
                        channel: reply.channel,
                        origin: reply.origin,
                        draft: reply.draft,
                        turn,
                    };
                    let queued: Result<(), ()> =
                        self.owed.lanes.queue(self, reply.instance, job, || Ok(()));
                    debug_assert_eq!(queued, Ok(()));
                }
            }
        }
        Ok(())
    }
}

/// Converts a storage error. The event may be delivered again.
fn not_written(error: io::Error) -> EventRefusal {
    EventRefusal {
        message: format!("The event could not be stored: {error}."),
        is_passing: true,
    }
}
