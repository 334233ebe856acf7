//! From a request to a turn: which conversation it belongs to, and whether its turn runs already.

use std::sync::Arc;

use futures::FutureExt as _;
use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::{InstanceId, derived_id, is_message_of};
use goondan::message::{Message, MessageData};
use goondan::spec::{Code, JsonObject};
use goondan::telemetry::Caller;
use goondan::{Found, Input, Turn};
use rand::RngExt;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::error::ApiError;
use super::history::History;
use super::memory::{Entered, Fingerprint, Hold, Memory, Reading};
use super::message::{Said, Talk};
use super::outcome::Outcome;
use super::response_id::ResponseId;
use super::track::{End, Item, Reader, Track, items_of, said_in};
use crate::hub::Seen;
use crate::problem::Problem;
use crate::service::Service;

/// What a request wants.
pub(super) struct Ask {
    pub(super) agent: String,
    pub(super) talk: Talk,
    /// For whom the client asks.
    pub(super) user: Option<String>,
    /// The conversation, where the client names one.
    pub(super) instance_key: Option<String>,
    /// The response that the request goes on from.
    pub(super) previous: Option<ResponseId>,
    /// Becomes the metadata of the user message.
    pub(super) metadata: JsonObject,
    /// The answer is read while it is made.
    pub(super) stream: bool,
    pub(super) again: Again,
    /// The schema that the answer has to fit.
    pub(super) output: Option<Value>,
    /// The trace of the client.
    pub(super) caller: Option<Caller>,
}

/// What tells a request that is made again from a new one.
pub(super) struct Again {
    /// The header `Idempotency-Key`.
    pub(super) key: Option<String>,
    /// The client says that it tries again: the header `X-Stainless-Retry-Count`.
    pub(super) is_retry: bool,
    pub(super) fingerprint: Fingerprint,
}

/// A turn that was begun, or found.
pub(super) struct Begun {
    pub(super) reader: Reader,
    pub(super) reading: Reading,
    pub(super) instance: InstanceId,
}

/// Begins the turn of a request, or finds it where the request was made before. Its event is on disk then.
pub(super) async fn begin(service: &Service, ask: Ask) -> Result<Begun, ApiError> {
    if service.is_draining() {
        let problem = Problem::new(Code::SWARM_STOPPING, "The server is stopping.");
        return Err(problem.suggest("Send it again in a moment.").into());
    }
    let memory = &service.inner.openai;
    let (reading, is_new) = identify(memory, &ask.again);
    let mut reader = match memory.enter(reading.event_id()) {
        Entered::Joined(track) => track.read(),
        Entered::First(track) => {
            let reader = track.read();
            let known = reading.instance().cloned();
            // A client that goes away takes nothing with it.
            tokio::spawn(
                Run {
                    service: service.clone(),
                    track,
                    ask,
                    known,
                }
                .run(is_new),
            );
            reader
        }
    };
    let instance = reader.accepted().await?;
    reading.accepted(&instance);
    Ok(Begun {
        reader,
        reading,
        instance,
    })
}

/// The event of a request, and whether it can't have been handed in before.
fn identify(memory: &Memory, again: &Again) -> (Reading, bool) {
    if let Some(key) = &again.key {
        let digest = hex(&again.fingerprint);
        let event_id = format!("evt-openai-{}", derived_id(&["openai", key, &digest]));
        return (memory.attempt(again.fingerprint, &event_id), false);
    }
    if again.is_retry
        && let Some(reading) = memory.attempt_again(&again.fingerprint)
    {
        return (reading, false);
    }
    let random: [u8; 12] = rand::rng().random();
    (
        memory.attempt(again.fingerprint, &format!("evt-openai-{}", hex(&random))),
        true,
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The conversation that a new one gets: the same for an event that is handed in again.
fn new_instance(agent: &str, event_id: &str) -> InstanceId {
    InstanceId::new(agent, event_id.strip_prefix("evt-").unwrap_or(event_id))
}

/// Where an input goes.
struct Place {
    instance: InstanceId,
    /// What opens the conversation.
    history: Vec<MessageData>,
    /// The right to go on with it.
    hold: Option<Hold>,
    /// Everything that was said up to the answer; `None` where nobody goes on from there by saying it again.
    hash: Option<History>,
}

/// A request on its way to the end of its turn.
struct Run {
    service: Service,
    track: Arc<Track>,
    ask: Ask,
    /// The conversation that the same request was in.
    known: Option<InstanceId>,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.service.inner.openai.leave(&self.track.event_id);
        self.track.end_unless_over();
    }
}

impl Run {
    async fn run(self, is_new: bool) {
        let ended = self.service.inner.ended.clone();
        ended.run_until_cancelled(self.go(is_new)).await;
    }

    async fn go(&self, is_new: bool) {
        if !is_new && self.go_on().await {
            return;
        }
        match self.place().await {
            Ok(place) => self.send(place).await,
            Err(error) => self.track.end(End::Failed(error), true),
        }
    }

    /// Reads an event that was accepted before; false where there is none.
    async fn go_on(&self) -> bool {
        let event_id = &self.track.event_id;
        match self.service.swarm().find(event_id).await {
            Some(Found::Open(turn)) => {
                let instance = turn.instance.clone();
                self.track.accepted(&instance);
                self.follow(turn, None, &instance).await;
            }
            Some(Found::Over(result)) => {
                let instance = self.where_it_was().await;
                self.track.accepted(&instance);
                let items = self.said(&result, &instance).await;
                self.track.end(End::of(&result, items), false);
            }
            None => return false,
        }
        true
    }

    /// The conversation of a turn that is over.
    async fn where_it_was(&self) -> InstanceId {
        let of_key = |key: &String| InstanceId::new(&*self.ask.agent, &**key);
        let named = self.ask.instance_key.as_ref().map(of_key);
        let previous = self
            .ask
            .previous
            .as_ref()
            .map(|previous| previous.instance.clone());
        for instance in [self.known.clone(), named, previous].into_iter().flatten() {
            let messages = self
                .service
                .swarm()
                .conversation(&instance)
                .await
                .unwrap_or_default();
            if messages
                .iter()
                .any(|message| is_message_of(&message.id, &self.track.turn_id))
            {
                return instance;
            }
        }
        new_instance(&self.ask.agent, &self.track.event_id)
    }

    async fn send(&self, place: Place) {
        let Ask {
            agent,
            talk,
            metadata,
            stream,
            caller,
            output,
            ..
        } = &self.ask;
        let (text, files) = talk.input();
        let input = Input {
            text,
            files,
            agent: Some(agent.clone()),
            instance_key: Some(place.instance.instance_key.clone()),
            id: Some(self.track.event_id.clone()),
            history: place.history,
            instructions: talk.instructions.clone(),
            metadata: metadata.clone(),
            caller: caller.clone(),
            output: output.clone(),
        };
        let live = stream.then(|| self.service.inner.hub.subscribe().0);
        let turn = match self.service.swarm().send(input).await {
            Ok(turn) => turn,
            Err(error) => {
                if let Some(hold) = place.hold {
                    hold.untouched();
                }
                return self.track.end(End::Failed(error.into()), true);
            }
        };
        self.track.accepted(&place.instance);
        let answer = self.follow(turn, live, &place.instance).await;
        let hash = place
            .hash
            .zip(answer)
            .map(|(hash, answer)| hash.and(&Said::assistant(answer)));
        match (place.hold, hash) {
            (Some(hold), hash) => hold.stands_at(hash),
            (None, Some(hash)) => {
                if let Some(hold) = self.service.inner.openai.hold(&place.instance) {
                    hold.stands_at(Some(hash));
                }
            }
            (None, None) => {}
        }
    }

    /// Follows a turn to its end. What its answer is for the client that has asked; `None` where there is none.
    async fn follow(
        &self,
        turn: Turn,
        live: Option<Receiver<Arc<Seen>>>,
        instance: &InstanceId,
    ) -> Option<String> {
        let (result, is_exact) = match live {
            Some(live) => self.listen(turn, live).await,
            None => (turn.result().await, false),
        };
        let Some(result) = result else {
            self.track.end(End::Failed(ApiError::stopped()), false);
            return None;
        };
        let is_complete = is_exact && self.track.said().last() == Some(&result.response_text());
        let items = if is_complete {
            self.track.items()
        } else {
            self.said(&result, instance).await
        };
        let end = End::of(&result, items);
        let text = match &end {
            End::Over(answer) if answer.outcome != Outcome::Declined => Some(answer.text()),
            _ => None,
        };
        self.track.end(end, is_exact);
        // What was sent counts: that is what the client will send back.
        let sent = (self.ask.stream && text.is_some())
            .then(|| self.track.said().join(super::track::BETWEEN));
        sent.or(text)
    }

    /// Reads what is said, until the turn is over. Tells whether nothing was missed.
    async fn listen(
        &self,
        turn: Turn,
        mut live: Receiver<Arc<Seen>>,
    ) -> (Option<TurnResult>, bool) {
        let mut ended = std::pin::pin!(turn.result().fuse());
        let mut known = None;
        loop {
            let seen = tokio::select! {
                seen = live.recv() => seen,
                result = &mut ended => match result {
                    // What was said before is on its way.
                    Some(result) => {
                        known = Some(result);
                        continue;
                    }
                    None => return (None, false),
                },
            };
            match seen {
                Ok(seen) => match &seen.event {
                    SwarmEvent::TurnEnded {
                        event_id, result, ..
                    } if *event_id == self.track.event_id => {
                        return (Some((**result).clone()), true);
                    }
                    event => self.track.take(event),
                },
                Err(RecvError::Lagged(_) | RecvError::Closed) => {
                    let result = if known.is_some() { known } else { ended.await };
                    return (result, false);
                }
            }
        }
    }

    /// Returns the reasoning and the texts of a turn that is over.
    async fn said(&self, result: &TurnResult, instance: &InstanceId) -> Vec<Item> {
        if result.step_count > 1
            && let Ok(messages) = self.service.swarm().conversation(instance).await
        {
            let said = said_in(messages.iter().map(|message| &**message), &result.turn_id);
            if !said.is_empty() {
                return said;
            }
        }
        result
            .response_message
            .as_ref()
            .map(items_of)
            .unwrap_or_default()
    }

    async fn place(&self) -> Result<Place, ApiError> {
        if let Some(previous) = &self.ask.previous {
            return self.behind(previous).await;
        }
        let Talk {
            instructions,
            before,
            new,
        } = &self.ask.talk;
        let history = || before.iter().map(Said::data).collect();
        if let Some(key) = &self.ask.instance_key {
            let instance = InstanceId::new(&*self.ask.agent, &**key);
            // Long histories are not written down again and again.
            let history = if self.knows(&instance).await {
                Vec::new()
            } else {
                history()
            };
            return Ok(Place {
                instance,
                history,
                hold: None,
                hash: None,
            });
        }
        let begin = History::begin(
            &self.ask.agent,
            instructions.as_deref(),
            self.ask.user.as_deref(),
        )
        .and_all(before);
        let hash = Some(begin.and_all(new));
        let hold = if before.is_empty() {
            None
        } else {
            self.service.inner.openai.take(begin)
        };
        match hold {
            Some(hold) if self.knows(&hold.instance).await => Ok(Place {
                instance: hold.instance.clone(),
                history: Vec::new(),
                hold: Some(hold),
                hash,
            }),
            // It was deleted.
            Some(hold) => {
                hold.lost();
                Ok(self.anew(history(), hash))
            }
            None => Ok(self.anew(history(), hash)),
        }
    }

    async fn knows(&self, instance: &InstanceId) -> bool {
        self.service.swarm().has_instance(instance).await
    }

    fn anew(&self, history: Vec<MessageData>, hash: Option<History>) -> Place {
        Place {
            instance: new_instance(&self.ask.agent, &self.track.event_id),
            history,
            hold: None,
            hash,
        }
    }

    /// Goes on from a response: in its conversation where nothing was said since, otherwise in one with the same past.
    async fn behind(&self, previous: &ResponseId) -> Result<Place, ApiError> {
        let swarm = self.service.swarm();
        if let Some(Found::Open(_)) = swarm.find(&previous.event_id).await {
            let message =
                "The turn of the previous response is not over yet. Ask again when it is.";
            return Err(ApiError::parameter("previous_response_id", message)
                .code("previous_response_in_progress"));
        }
        let hold = self.service.inner.openai.hold(&previous.instance);
        let messages = swarm
            .conversation(&previous.instance)
            .await
            .map_err(Problem::from)?;
        let turn_id = goondan::event::turn_id(&previous.event_id);
        let last = messages
            .iter()
            .rposition(|message| is_message_of(&message.id, &turn_id));
        let Some(last) = last.filter(|_| previous.is_stored) else {
            return Err(ApiError::parameter(
                "previous_response_id",
                "There is no previous response of that id.",
            )
            .code("previous_response_not_found"));
        };
        let is_same_agent = previous.instance.agent == self.ask.agent;
        let is_latest = last + 1 == messages.len() && self.ask.talk.before.is_empty();
        if let Some(hold) = hold {
            if is_same_agent && is_latest {
                let instance = previous.instance.clone();
                return Ok(Place {
                    instance,
                    history: Vec::new(),
                    hold: Some(hold),
                    hash: None,
                });
            }
            hold.untouched();
        }
        let past = messages[..=last]
            .iter()
            .filter_map(|message| Said::of(&visible(message)?));
        let history = past
            .chain(self.ask.talk.before.iter().cloned())
            .map(|said| said.data())
            .collect();
        let place = self.anew(history, None);
        swarm
            .inherit(&previous.instance, &place.instance)
            .await
            .map_err(Problem::from)?;
        Ok(place)
    }
}

/// What somebody has said; not what an extension or the engine has put between.
fn visible(message: &Message) -> Option<MessageData> {
    use goondan::message::MessageSource::{Assistant, User};
    matches!(message.source, User | Assistant { .. }).then(|| message.data.clone())
}
