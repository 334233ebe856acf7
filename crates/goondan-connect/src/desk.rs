//! Takes the events of one connection in: durably, once each, from those who may send them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use goondan::connectors::Bound;
use goondan::ports::clock::Clock;
use goondan::spec::Code;
use goondan::spec::kinds::Reply as ReplyMode;
use goondan::{Input, SendError, Swarm};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::event::Event;
use crate::lanes::{Job, Lanes};
use crate::outbox::{Outbox, Reply, ReplyState};
use crate::platforms::Platform;
use crate::route::route;
use crate::senders::{Admission, Senders};
use crate::signature::digest;

/// What the swarm will take another time.
const PASSING: [Code; 4] = [Code::SWARM_STOPPING, Code::SWARM_STOPPED, Code::AGENT_QUEUE_FULL, Code::STORE];

/// One connection, as its events and its answers see it.
pub(crate) struct Desk {
    pub(crate) bound: Bound,
    pub(crate) swarm: Swarm,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) platform: Arc<dyn Platform>,
    /// Where the connection keeps what it has to remember.
    pub(crate) folder: PathBuf,
    pub(crate) owed: Arc<Owed>,
    senders: Senders,
}

/// The answers that a connection owes. They outlive a change of its settings.
pub(crate) struct Owed {
    pub(crate) outbox: Outbox,
    pub(crate) lanes: Lanes,
}

/// What has become of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Its input is on disk. It may have been there before.
    Accepted,
    /// Its sender may not send, and has been told so, or need not be.
    NotLetIn,
    /// Its sender may not send, and does not know that yet.
    Stranger,
}

/// Why an event was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct NotTaken {
    /// A sentence that stands alone.
    pub(crate) message: String,
    /// It may be taken when it is delivered again.
    pub(crate) is_passing: bool,
}

impl Desk {
    pub(crate) fn open(
        bound: Bound,
        swarm: Swarm,
        clock: Arc<dyn Clock>,
        platform: Arc<dyn Platform>,
        folder: PathBuf,
        owed: Arc<Owed>,
    ) -> io::Result<Desk> {
        let senders = Senders::open(&folder, bound.allow.clone(), platform.is_guarded())?;
        Ok(Desk { bound, swarm, clock, platform, folder, owed, senders })
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Takes an event in; returns once its input is on disk, however long its turn takes.
    pub(crate) async fn accept(self: &Arc<Self>, event: Event) -> Result<Taken, NotTaken> {
        match self.senders.admit(&event, self.now()).map_err(not_written)? {
            Admission::Passes => {}
            Admission::NewStranger => {
                tracing::warn!(
                    connection = self.bound.name,
                    sender = event.sender.as_ref().map(|sender| &sender.id),
                    "a stranger has written; `gdn connection approve` lets him in"
                );
                return Ok(Taken::Stranger);
            }
            Admission::Refused => return Ok(Taken::NotLetIn),
        }
        let id = self.input_id(&event.id);
        let origin = event.origin.clone().filter(|_| self.bound.reply == ReplyMode::Auto);
        let (input, key) = self.input(event, id.clone());
        let is_new = match &origin {
            None => false,
            Some(origin) => match self.owed.outbox.state(&id) {
                Some(ReplyState::Accepted) => {
                    self.owed.outbox.settled().await.map_err(not_written)?;
                    false
                }
                Some(_) => return Ok(Taken::Accepted),
                None => {
                    self.owed.outbox.owe(self.reply(&id, &key, origin.clone())).await.map_err(not_written)?;
                    true
                }
            },
        };
        match self.hand_in(input, id.clone(), key, origin.filter(|_| is_new)).await {
            Ok(()) => Ok(Taken::Accepted),
            Err(error) => {
                if is_new {
                    self.owed.outbox.dropped(&id).await.map_err(not_written)?;
                }
                Err(NotTaken {
                    message: format!("{} ({}).", error.message, error.code),
                    is_passing: PASSING.contains(&error.code),
                })
            }
        }
    }

    /// An input of its own, under an id that the same event always has.
    fn input(&self, event: Event, id: String) -> (Input, String) {
        let route = route(&self.bound.ingress, &event);
        let agent = route.agent.unwrap_or_else(|| self.swarm.entry_agent());
        let lane = format!("{agent}:{}", route.instance_key);
        let metadata = event.metadata(&self.bound.name, &self.bound.connector);
        // What it needs to answer by a tool. Strangers have written it: as JSON, it looks like nothing else.
        let text = match self.bound.answers_by_tool {
            true => format!("{}\n\n[{} {}]", event.text, event.name, serde_json::json!(event.properties)),
            false => event.text,
        };
        let input = Input {
            text,
            agent: Some(agent),
            instance_key: Some(route.instance_key),
            id: Some(id),
            metadata,
            ..Input::default()
        };
        (input, lane)
    }

    fn input_id(&self, event: &str) -> String {
        let digest = digest(&[self.bound.name.as_bytes(), b"\0", event.as_bytes()]);
        format!("cn-{}", &digest[..40])
    }

    fn reply(&self, id: &str, instance: &str, origin: Value) -> Reply {
        Reply {
            id: id.to_owned(),
            state: ReplyState::Accepted,
            instance: instance.to_owned(),
            at: self.now(),
            origin,
            why: None,
        }
    }

    /// The answer is queued in the moment in which the input is: both queues have the same order.
    async fn hand_in(
        self: &Arc<Self>,
        input: Input,
        id: String,
        lane: String,
        origin: Option<Value>,
    ) -> Result<(), SendError> {
        let submit = || self.swarm.submit(input);
        let Some(origin) = origin else { return submit()?.accepted().await.map(drop) };
        let (sender, turn) = oneshot::channel();
        let job = Job { id, origin, turn };
        let submission = self.owed.lanes.queue(self, lane, job, submit)?;
        let accepted = submission.accepted().await?;
        // Whoever would answer has ended: the next start does.
        let _ = sender.send(goondan::Found::Open(accepted));
        Ok(())
    }

    /// Takes up the answers that an earlier process has left.
    pub(crate) async fn resume(self: &Arc<Self>, owed: Vec<Reply>) -> io::Result<()> {
        for reply in owed {
            if reply.state == ReplyState::Sending {
                let at = reply.at.to_rfc3339_opts(SecondsFormat::Secs, true);
                let why = format!("the process ended while the answer to the event of {at} was being sent");
                self.owed.outbox.failed(&reply.id, &why).await?;
                continue;
            }
            match self.swarm.find(&reply.id).await {
                // The swarm never had it: the platform delivers it again.
                None => self.owed.outbox.dropped(&reply.id).await?,
                Some(found) => {
                    let (sender, turn) = oneshot::channel();
                    let _ = sender.send(found);
                    let job = Job { id: reply.id, origin: reply.origin, turn };
                    let queued: Result<(), ()> = self.owed.lanes.queue(self, reply.instance, job, || Ok(()));
                    debug_assert_eq!(queued, Ok(()));
                }
            }
        }
        Ok(())
    }
}

fn not_written(error: io::Error) -> NotTaken {
    NotTaken { message: format!("The event could not be put on disk: {error}."), is_passing: true }
}
