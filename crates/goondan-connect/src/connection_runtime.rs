//! Accepts the events of one connection: durably, once each, and only from allowed senders.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use goondan::adapters::connectors::BoundConnection;
use goondan::gateway::{ApprovalReports, SubmissionError, SwarmGateway};
use goondan::spec::Code;
use goondan::spec::kinds::ReplyMode;
use goondan::{Input, Swarm};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::albums::AlbumCollector;
use crate::allowed_senders::{AllowedSenders, SenderAdmission};
use crate::channel_approvals::{
    self, ApprovalChannel, ButtonPress, ConnectionApprovals, PressOutcome,
};
use crate::connection_options::{ConnectionOptions, DeliveredAnswer};
use crate::event::PlatformEvent;
use crate::event_acceptance::{EventAcceptance, EventRefusal};
use crate::event_files;
use crate::followed_turn::ChannelTurn;
use crate::outbox::{Outbox, OutboxReply, ReplyState};
use crate::platforms::PlatformConnector;
use crate::reply_queue::{QueuedAnswer, ReplyQueues};
use crate::route::route;
use crate::signature::digest;

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

/// Connection with its platform, gateway, outbox and approvals.
pub(crate) struct ConnectionRuntime {
    pub(crate) bound: BoundConnection,
    pub(crate) shared: SharedConnectionState,
    pub(crate) platform: Arc<dyn PlatformConnector>,
    /// State directory.
    pub(crate) folder: PathBuf,
    pub(crate) pending_replies: Arc<PendingReplies>,
    pub(crate) questions: ConnectionApprovals,
    pub(crate) albums: AlbumCollector,
    senders: AllowedSenders,
}

/// State shared by all connections of a swarm. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SharedConnectionState {
    pub(crate) gateway: SwarmGateway,
    pub(crate) options: ConnectionOptions,
    /// Stops posts of approval requests. Their messages then keep their buttons for the next start.
    pub(crate) stopping: CancellationToken,
}

/// Pending answers of a connection. They survive a change of its settings.
pub(crate) struct PendingReplies {
    pub(crate) outbox: Outbox,
    pub(crate) queues: ReplyQueues,
}

impl ConnectionRuntime {
    /// Opens the state of a connection in `folder`.
    pub(crate) fn open(
        bound: BoundConnection,
        shared: &SharedConnectionState,
        platform: Arc<dyn PlatformConnector>,
        folder: PathBuf,
        pending_replies: Arc<PendingReplies>,
    ) -> io::Result<ConnectionRuntime> {
        let senders = AllowedSenders::open(&folder, bound.allow.clone(), platform.is_guarded())?;
        let questions = ConnectionApprovals::open_in(&folder)?;
        Ok(ConnectionRuntime {
            bound,
            shared: shared.clone(),
            platform,
            folder,
            pending_replies,
            questions,
            albums: AlbumCollector::default(),
            senders,
        })
    }

    /// Returns the swarm.
    pub(crate) fn swarm(&self) -> &Swarm {
        self.shared.gateway.swarm()
    }

    /// Reports that an answer of the conversation `conversation` was delivered.
    pub(crate) fn report_delivery(&self, conversation: &str) {
        // The console shows its own answers.
        let is_console = self.bound.connector == "cli" && self.bound.file.is_none();
        let deliveries = self.shared.options.deliveries.as_ref();
        let Some(deliveries) = deliveries.filter(|_| !is_console) else {
            return;
        };
        // A receiver that has ended needs no notices.
        let _ = deliveries.send(DeliveredAnswer {
            connection: self.bound.name.clone(),
            conversation: conversation.to_owned(),
        });
    }

    /// Current time of the swarm's clock.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.shared.options.clock.now()
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
        let press = channel_approvals::parse_written_answer(event)
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
            .map_err(storage_refusal)?
        {
            SenderAdmission::Passes => {}
            SenderAdmission::NewUnknownSender => {
                tracing::warn!(
                    connection = self.bound.name,
                    sender = event.sender.as_ref().map(|sender| &sender.id),
                    "unknown sender; `gdn connection approve` approves the sender"
                );
                return Ok(EventAcceptance::UnknownSender);
            }
            // Unknown senders can repeat their messages without limit.
            SenderAdmission::Refused => {
                tracing::debug!(
                    connection = self.bound.name,
                    channel = event.channel,
                    sender = event.sender.as_ref().map(|sender| &sender.id),
                    "ignored a message: its sender or channel is not allowed"
                );
                return Ok(EventAcceptance::NotAllowed);
            }
        }
        if let Some(kind) = &event.unsupported {
            self.refuse_content(kind, event.origin.as_ref());
            return Ok(EventAcceptance::Accepted);
        }
        let (id, files) = (self.input_id(&event.id), event.files.clone());
        let origin = match self.bound.reply {
            ReplyMode::None => None,
            _ => event.origin.clone(),
        };
        let channel = event.channel.clone().unwrap_or_default();
        let (mut input, instance) = self.input(event, id.clone());
        let outbox = &self.pending_replies.outbox;
        let pending = match origin {
            None => None,
            Some(origin) => match outbox.state(&id) {
                Some(ReplyState::Accepted) => {
                    outbox.wait_until_durable().await.map_err(storage_refusal)?;
                    None
                }
                Some(_) => return Ok(EventAcceptance::Accepted),
                None => {
                    let reply = OutboxReply {
                        id: id.clone(),
                        state: ReplyState::Accepted,
                        instance,
                        at: self.now(),
                        channel,
                        origin,
                        draft: None,
                        why: None,
                    };
                    let recorded = outbox.record_pending(reply.clone()).await;
                    recorded.map_err(storage_refusal)?;
                    Some(reply)
                }
            },
        };
        // The reply is recorded first, so that a redelivery during the download is recognized.
        input.files = event_files::fetch(self, &files, &mut input.text).await;
        let is_new = pending.is_some();
        let submitted = match pending {
            Some(reply) => self.submit_with_reply(input, reply).await,
            None => self.shared.gateway.submit(input).await.map(drop),
        };
        if submitted.is_err() && is_new {
            outbox.record_dropped(&id).await.map_err(storage_refusal)?;
        }
        match submitted {
            // Other rules routed the event to another conversation when it first arrived.
            Ok(()) | Err(SubmissionError::IdInUse) => Ok(EventAcceptance::Accepted),
            Err(SubmissionError::Rejected(error)) => Err(EventRefusal {
                message: format!("{} ({}).", error.message, error.code),
                is_retryable: RETRYABLE_CODES.contains(&error.code),
            }),
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
        let agent = route.agent.unwrap_or_else(|| self.swarm().entry_agent());
        let conversation = format!("{agent}:{}", route.instance_key);
        let metadata = event.metadata(&self.bound.name, &self.bound.connector);
        let is_builtin = self.bound.file.is_none();
        let answer_call = event
            .answer_call(&self.bound.connector)
            .filter(|_| is_builtin);
        // The properties let the agent answer with a tool. They may come from unknown senders, so
        // JSON delimits them clearly.
        let text = if self.bound.answers_by_tool {
            format!(
                "{}\n\n[{} {}]",
                event.full_text(),
                event.name,
                serde_json::json!(event.properties)
            )
        } else {
            event.full_text()
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
        (input, conversation)
    }

    /// Derives the input id from the event id, so that a redelivered event has the same input id.
    fn input_id(&self, event: &str) -> String {
        let digest = digest(&[self.bound.name.as_bytes(), b"\0", event.as_bytes()]);
        format!("cn-{}", &digest[..40])
    }

    /// Submits the input and queues its answer in one step, so that both queues have the same
    /// order.
    async fn submit_with_reply(
        self: &Arc<Self>,
        input: Input,
        reply: OutboxReply,
    ) -> Result<(), SubmissionError> {
        let (sender, turn) = oneshot::channel();
        let channel = self.approval_channel(&reply);
        let job = QueuedAnswer { reply, turn };
        let (gateway, reported_approvals) = (&self.shared.gateway, self.reported_approvals());
        let submit = || gateway.submit_and_follow(input, reported_approvals);
        let submitted = self.pending_replies.queues.queue(self, job, submit).await?;
        // If the receiver is gone, the next start sends the answer.
        let _ = sender.send(ChannelTurn::begin(submitted, channel));
        Ok(())
    }

    /// Returns which approval requests the swarm reports, so that they are posted in channels.
    fn reported_approvals(&self) -> ApprovalReports {
        if self.approvers().is_empty() {
            // Without approvers, no one could answer the posts.
            ApprovalReports::Off
        } else {
            ApprovalReports::All
        }
    }

    /// Returns the channel for approval requests of the turn that answers an event.
    fn approval_channel(self: &Arc<Self>, reply: &OutboxReply) -> ApprovalChannel {
        ApprovalChannel {
            runtime: Arc::clone(self),
            origin: reply.origin.clone(),
            channel: reply.channel.clone(),
        }
    }

    /// Resumes the pending answers of an earlier process.
    pub(crate) async fn resume(self: &Arc<Self>, pending: Vec<OutboxReply>) -> io::Result<()> {
        for reply in pending {
            if reply.state == ReplyState::Sending {
                let event_time = reply.at.to_rfc3339_opts(SecondsFormat::Secs, true);
                let reason = format!(
                    "the process ended while the answer to the event of {event_time} was being sent"
                );
                self.pending_replies
                    .outbox
                    .record_failed(&reply.id, &reason)
                    .await?;
                continue;
            }
            match self
                .shared
                .gateway
                .follow(&reply.id, self.reported_approvals())
                .await
            {
                // The swarm never accepted the input; the platform redelivers the event.
                None => {
                    self.pending_replies
                        .outbox
                        .record_dropped(&reply.id)
                        .await?
                }
                Some(found) => {
                    let (sender, turn) = oneshot::channel();
                    let channel = self.approval_channel(&reply);
                    let _ = sender.send(ChannelTurn::begin(found, channel));
                    let job = QueuedAnswer { reply, turn };
                    self.pending_replies.queues.queue(self, job, || ());
                }
            }
        }
        Ok(())
    }
}

/// Returns the refusal of an event that could not be stored. The platform may deliver it again.
fn storage_refusal(error: io::Error) -> EventRefusal {
    EventRefusal {
        message: format!("The event could not be stored: {error}."),
        is_retryable: true,
    }
}
