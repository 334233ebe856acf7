//! Takes the events of one connection in: durably, once each, from those who may send them.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use goondan::connectors::Bound;
use goondan::event::turn_id;
use goondan::ports::clock::Clock;
use goondan::spec::Code;
use goondan::spec::kinds::Reply as ReplyMode;
use goondan::{Found, Input, SendError, Swarm};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::asking::{self, Asking, Press, Questions, Verdict};
use crate::event::Event;
use crate::files;
use crate::lanes::{Begun, Job, Lanes};
use crate::live::{Live, Watched};
use crate::outbox::{Outbox, Reply, ReplyState};
use crate::platforms::Platform;
use crate::route::route;
use crate::senders::{Admission, Senders};
use crate::signature::digest;

/// How often it is tried to tell who has answered a question what came of it.
const TELL_TRIES: u32 = 3;
/// What the swarm will take another time.
const PASSING: [Code; 4] = [
    Code::SWARM_STOPPING,
    Code::SWARM_STOPPED,
    Code::AGENT_QUEUE_FULL,
    Code::STORE,
];

/// One connection, as its events and its answers see it.
pub(crate) struct Desk {
    pub(crate) bound: Bound,
    pub(crate) swarm: Swarm,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) platform: Arc<dyn Platform>,
    /// Where the connection keeps what it has to remember.
    pub(crate) folder: PathBuf,
    pub(crate) owed: Arc<Owed>,
    pub(crate) questions: Questions,
    pub(crate) live: Live,
    asking: Asking,
    senders: Senders,
}

/// What all connections of a swarm share.
pub(crate) struct Shared {
    pub(crate) swarm: Swarm,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) asking: Asking,
    pub(crate) live: Live,
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
        shared: &Shared,
        platform: Arc<dyn Platform>,
        folder: PathBuf,
        owed: Arc<Owed>,
    ) -> io::Result<Desk> {
        let senders = Senders::open(&folder, bound.allow.clone(), platform.is_guarded())?;
        let questions = Questions::open_in(&folder)?;
        let Shared {
            swarm,
            clock,
            asking,
            live,
        } = shared;
        let (swarm, clock, asking, live) = (
            swarm.clone(),
            Arc::clone(clock),
            asking.clone(),
            live.clone(),
        );
        Ok(Desk {
            bound,
            swarm,
            clock,
            platform,
            folder,
            owed,
            questions,
            live,
            asking,
            senders,
        })
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Who may answer questions of policies.
    pub(crate) fn approvers(&self) -> &BTreeSet<String> {
        static NOBODY: BTreeSet<String> = BTreeSet::new();
        self.bound
            .allow
            .as_ref()
            .map_or(&NOBODY, |allow| &allow.approvers)
    }

    /// Somebody answers a question.
    pub(crate) fn press(&self, press: &Press) -> Verdict {
        asking::press(self, press)
    }

    /// The answer to a question in words, of one who may give it. What others write so is a message like any other.
    fn answered(self: &Arc<Self>, event: &Event) -> bool {
        let press =
            asking::written(event).filter(|press| self.approvers().contains(&press.sender.id));
        let Some(press) = press else { return false };
        let Verdict { words, .. } = self.press(&press);
        let Some(origin) = event.origin.clone() else {
            return true;
        };
        let desk = Arc::clone(self);
        tokio::spawn(async move {
            for tries in 1..=TELL_TRIES {
                match desk.platform.send(&origin, 0, words).await {
                    Ok(()) => return,
                    // Discord knows nothing of the message before it has the answer to its request.
                    Err(_) if tries < TELL_TRIES => {
                        tokio::time::sleep(Duration::from_secs(1)).await
                    }
                    Err(error) => {
                        tracing::debug!(%error, "who has answered a question was not told what came of it")
                    }
                }
            }
        });
        true
    }

    /// Takes an event in; returns once its input is on disk, however long its turn takes.
    pub(crate) async fn accept(self: &Arc<Self>, event: Event) -> Result<Taken, NotTaken> {
        if self.answered(&event) {
            return Ok(Taken::Accepted);
        }
        match self
            .senders
            .admit(&event, self.now())
            .map_err(not_written)?
        {
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
                Some(_) => return Ok(Taken::Accepted),
                None => {
                    self.owed
                        .outbox
                        .owe(self.reply(&id, &key, &channel, origin.clone()))
                        .await
                        .map_err(not_written)?;
                    true
                }
            },
        };
        // It is known by now: when it is delivered again meanwhile, it is no other event.
        input.files = files::fetch(self, &files, &mut input.text).await;
        match self
            .hand_in(input, id.clone(), key, origin.filter(|_| is_new), &channel)
            .await
        {
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
            true => format!(
                "{}\n\n[{} {}]",
                event.text,
                event.name,
                serde_json::json!(event.properties)
            ),
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

    fn reply(&self, id: &str, instance: &str, channel: &str, origin: Value) -> Reply {
        Reply {
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

    /// The answer is queued in the moment in which the input is: both queues have the same order.
    async fn hand_in(
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
        // Before its turn can begin.
        let watched = self.watch(&id, false);
        let job = Job {
            id,
            channel: channel.to_owned(),
            origin: origin.clone(),
            draft: None,
            turn,
        };
        let submission = self.owed.lanes.queue(self, lane, job, submit)?;
        // Before its turn can ask anything.
        let questions = self
            .asking
            .follow(self, submission.trace_id(), &origin, channel);
        let found = Found::Open(submission.accepted().await?);
        // Whoever would answer has ended: the next start does.
        let _ = sender.send(Begun {
            found,
            watched,
            questions,
        });
        Ok(())
    }

    /// What the turn of an input writes, where the answer grows.
    fn watch(&self, id: &str, has_begun: bool) -> Option<Watched> {
        let grows = self.bound.reply == ReplyMode::Stream;
        grows.then(|| self.live.watch(&self.swarm, turn_id(id), has_begun))
    }

    /// Takes up the answers that an earlier process has left.
    pub(crate) async fn resume(self: &Arc<Self>, owed: Vec<Reply>) -> io::Result<()> {
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
                // The swarm never had it: the platform delivers it again.
                None => self.owed.outbox.dropped(&reply.id).await?,
                Some(found) => {
                    let (sender, turn) = oneshot::channel();
                    let questions = match &found {
                        Found::Open(turn) => {
                            self.asking
                                .follow(self, &turn.trace_id, &reply.origin, &reply.channel)
                        }
                        Found::Over(_) => None,
                    };
                    let watched = self.watch(&reply.id, true);
                    let _ = sender.send(Begun {
                        found,
                        watched,
                        questions,
                    });
                    let job = Job {
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

fn not_written(error: io::Error) -> NotTaken {
    NotTaken {
        message: format!("The event could not be put on disk: {error}."),
        is_passing: true,
    }
}
