//! Submission of a request: finds its conversation, and its turn if the request is a repetition.

use std::sync::Arc;

use goondan::event::TurnResult;
use goondan::gateway::{ApprovalReports, Submission, SubmissionError, TurnStream, TurnUpdate};
use goondan::ids::{InstanceId, derived_id, is_message_of};
use goondan::message::{Message, MessageData};
use goondan::spec::JsonObject;
use goondan::start::telemetry::CallerTrace;
use goondan::{Input, SubmittedEventState};
use rand::RngExt;
use serde_json::Value;

use super::answer_stream::{
    AnswerBroadcast, AnswerSubscriber, StreamedItem, TrackEnd, items_of, items_of_turn,
};
use super::conversation_index::{
    AttemptReader, ConversationHold, ConversationIndex, Fingerprint, TurnLookup,
};
use super::error::OpenAiError;
use super::history_hash::HistoryHash;
use super::message::{ChatEntry, ChatInput};
use super::outcome::AnswerOutcome;
use super::response_id::ResponseId;
use super::responses::stored_request;
use crate::problem::ApiProblem;
use crate::service::Service;

/// A parsed request.
pub(super) struct SubmitRequest {
    pub(super) agent: String,
    pub(super) talk: ChatInput,
    /// End user, as named by the client.
    pub(super) user: Option<String>,
    /// Conversation key, if the client names one.
    pub(super) instance_key: Option<String>,
    /// Response that the request continues.
    pub(super) previous: Option<ResponseId>,
    /// Metadata of the user message.
    pub(super) metadata: JsonObject,
    /// The client requested a stream.
    pub(super) stream: bool,
    pub(super) again: RetryKey,
    /// Schema that the answer must match.
    pub(super) output: Option<Value>,
    /// The client's trace.
    pub(super) caller: Option<CallerTrace>,
}

/// Facts that identify a repeated request.
pub(super) struct RetryKey {
    /// Header `Idempotency-Key`.
    pub(super) key: Option<String>,
    /// Header `X-Stainless-Retry-Count`. Above 0, the request is a retry.
    pub(super) count: Option<u32>,
    pub(super) fingerprint: Fingerprint,
}

/// A turn that was started or found.
pub(super) struct SubmittedTurn {
    pub(super) reader: AnswerSubscriber,
    pub(super) reading: AttemptReader,
    pub(super) instance: InstanceId,
}

/// Starts the turn of a request, or finds it for a repeated request. When this returns, its event
/// is on disk.
pub(super) async fn begin(
    service: &Service,
    ask: SubmitRequest,
) -> Result<SubmittedTurn, OpenAiError> {
    let memory = &service.inner.openai;
    let (reading, is_new) = identify_event(memory, &ask.again).await;
    let mut reader = match memory.join_or_register(reading.event_id()) {
        TurnLookup::Joined(track) => track.read(),
        TurnLookup::First(track) => {
            let reader = track.read();
            let known = reading.instance().cloned();
            // Runs in its own task, so that the turn survives a client that disconnects.
            tokio::spawn(
                TurnRun {
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
    let instance = reader.wait_until_accepted().await?;
    reading.set_instance(&instance);
    Ok(SubmittedTurn {
        reader,
        reading,
        instance,
    })
}

/// Returns the event of a request. The flag is true if the event is certainly new.
async fn identify_event(memory: &ConversationIndex, again: &RetryKey) -> (AttemptReader, bool) {
    if let Some(key) = &again.key {
        let digest = hex(&again.fingerprint);
        let event_id = format!("evt-openai-{}", derived_id(&["openai", key, &digest]));
        return (memory.register_attempt(again.fingerprint, &event_id), false);
    }
    if let Some(count) = again.count.filter(|count| *count > 0)
        && let Some(reading) = memory.attempt_again(&again.fingerprint, count).await
    {
        return (reading, false);
    }
    let random: [u8; 12] = rand::rng().random();
    let reading =
        memory.register_attempt(again.fingerprint, &format!("evt-openai-{}", hex(&random)));
    if let Some(count) = again.count {
        reading.set_count(count);
    }
    (reading, true)
}

/// Formats bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the key of a new conversation, derived from the event so that a repeated event gets the
/// same one.
fn new_instance(agent: &str, event_id: &str) -> InstanceId {
    InstanceId::new(agent, event_id.strip_prefix("evt-").unwrap_or(event_id))
}

/// Target of an input.
struct InputTarget {
    instance: InstanceId,
    /// Messages that open the conversation.
    history: Vec<MessageData>,
    /// Exclusive right to continue the conversation.
    hold: Option<ConversationHold>,
    /// Hash of all messages before the answer; `None` if the conversation cannot be found by its
    /// messages.
    hash: Option<HistoryHash>,
}

/// Turn of a request.
enum AnsweringTurn {
    Followed(Box<TurnStream>),
    Awaited(Submission),
}

/// A request until the end of its turn.
struct TurnRun {
    service: Service,
    track: Arc<AnswerBroadcast>,
    ask: SubmitRequest,
    /// Conversation of an earlier attempt.
    known: Option<InstanceId>,
}

impl Drop for TurnRun {
    fn drop(&mut self) {
        self.service.inner.openai.remove_turn(&self.track.event_id);
        self.track.end_unless_over();
    }
}

impl TurnRun {
    /// Runs until the turn is over or the swarm ends. `is_new`: the event was certainly not
    /// submitted before.
    async fn run(self, is_new: bool) {
        let ended = self.service.gateway().closed_token().clone();
        ended
            .run_until_cancelled(self.follow_or_start(is_new))
            .await;
    }

    /// Follows the turn of an earlier attempt, or starts a turn.
    async fn follow_or_start(&self, is_new: bool) {
        if !is_new && self.follow_known().await {
            return;
        }
        match self.select_target().await {
            Ok(target) => self.send(target).await,
            Err(error) => self.track.end(TrackEnd::Failed(error), true),
        }
    }

    /// Follows an event that was accepted before; false if there is none.
    async fn follow_known(&self) -> bool {
        let event_id = &self.track.event_id;
        match self.service.swarm().find(event_id).await {
            Some(SubmittedEventState::Open(turn)) => {
                let instance = turn.instance.clone();
                self.track.publish_instance(&instance);
                let result = turn.result().await;
                self.end(result, /* is_exact */ false, &instance).await;
            }
            Some(SubmittedEventState::Over(result)) => {
                let instance = self.conversation_of_turn().await;
                self.track.publish_instance(&instance);
                let items = self.items_of_result(&result, &instance).await;
                self.track.end(TrackEnd::from_result(&result, items), false);
            }
            None => return false,
        }
        true
    }

    /// Finds the conversation of a turn that is over.
    async fn conversation_of_turn(&self) -> InstanceId {
        let of_key = |key: &String| InstanceId::new(&*self.ask.agent, &**key);
        let requested = self.ask.instance_key.as_ref().map(of_key);
        let previous = self
            .ask
            .previous
            .as_ref()
            .map(|previous| previous.instance.clone());
        for instance in [self.known.clone(), requested, previous]
            .into_iter()
            .flatten()
        {
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

    /// Submits the input and follows its turn. Then records the position of the conversation.
    async fn send(&self, target: InputTarget) {
        let SubmitRequest {
            agent,
            talk,
            metadata,
            caller,
            output,
            ..
        } = &self.ask;
        let (text, files) = talk.input();
        let input = Input {
            text,
            files,
            agent: Some(agent.clone()),
            instance_key: Some(target.instance.instance_key.clone()),
            id: Some(self.track.event_id.clone()),
            history: target.history,
            instructions: talk.instructions.clone(),
            metadata: metadata.clone(),
            caller: caller.clone(),
            output: output.clone(),
            ..Input::default()
        };
        let submitted = self.submit(input).await;
        let answering = match submitted {
            Ok(answering) => answering,
            Err(error) => {
                if let Some(hold) = target.hold {
                    hold.keep_position();
                }
                return self.track.end(TrackEnd::Failed(error.into()), true);
            }
        };
        self.track.publish_instance(&target.instance);
        let (result, is_exact) = match answering {
            AnsweringTurn::Followed(turn) => self.collect_text(*turn).await,
            AnsweringTurn::Awaited(Submission::Finished(result)) => (Some(*result), false),
            AnsweringTurn::Awaited(Submission::New(turn) | Submission::Running(turn)) => {
                (turn.result().await, false)
            }
        };
        let answer = self.end(result, is_exact, &target.instance).await;
        let hash = target
            .hash
            .zip(answer)
            .map(|(hash, answer)| hash.with_message(&ChatEntry::assistant(answer)));
        match (target.hold, hash) {
            (Some(hold), hash) => hold.set_position(hash),
            (None, Some(hash)) => {
                if let Some(hold) = self.service.inner.openai.try_hold(&target.instance) {
                    hold.set_position(Some(hash));
                }
            }
            (None, None) => {}
        }
    }

    /// Submits the input. Only streamed answers follow the turn.
    async fn submit(&self, input: Input) -> Result<AnsweringTurn, SubmissionError> {
        let gateway = self.service.gateway();
        Ok(match self.ask.stream {
            true => {
                let turn = gateway.submit_and_follow(input, ApprovalReports::Off);
                AnsweringTurn::Followed(Box::new(turn.await?))
            }
            false => AnsweringTurn::Awaited(gateway.submit(input).await?),
        })
    }

    /// Ends the broadcast with the result of the turn. Returns the answer as this client sees it;
    /// `None` without an answer. With `is_exact`, no text event was missed.
    async fn end(
        &self,
        result: Option<TurnResult>,
        is_exact: bool,
        instance: &InstanceId,
    ) -> Option<String> {
        let Some(result) = result else {
            self.track
                .end(TrackEnd::Failed(OpenAiError::swarm_stopped()), false);
            return None;
        };
        let is_complete =
            is_exact && self.track.step_texts().last() == Some(&result.response_text());
        let items = if is_complete {
            self.track.items()
        } else {
            self.items_of_result(&result, instance).await
        };
        let end = TrackEnd::from_result(&result, items);
        let text = match &end {
            TrackEnd::Over(answer) if answer.outcome != AnswerOutcome::Declined => {
                Some(answer.text())
            }
            _ => None,
        };
        self.track.end(end, is_exact);
        // The sent text counts, because the client sends it back in its next request.
        let sent_text = (self.ask.stream && text.is_some()).then(|| {
            self.track
                .step_texts()
                .join(super::answer_stream::STEP_TEXT_SEPARATOR)
        });
        sent_text.or(text)
    }

    /// Collects text until the turn ends. Returns its result, or `None` if the swarm ended first.
    /// The flag is true if no event was missed.
    async fn collect_text(&self, mut turn: TurnStream) -> (Option<TurnResult>, bool) {
        let mut is_exact = true;
        loop {
            match turn.next().await {
                Some(TurnUpdate::Ended(result)) => return (Some(*result), is_exact),
                Some(TurnUpdate::SwarmEnded) | None => return (None, false),
                // The collected text has a gap, so `end` reads the text from the result.
                Some(TurnUpdate::Lagged) => is_exact = false,
                Some(update) if is_exact => self.track.take(&update),
                Some(_) => {}
            }
        }
    }

    /// Returns the reasoning and the texts of a turn that is over.
    async fn items_of_result(
        &self,
        result: &TurnResult,
        instance: &InstanceId,
    ) -> Vec<StreamedItem> {
        if result.step_count > 1
            && let Ok(messages) = self.service.swarm().conversation(instance).await
        {
            let items = items_of_turn(messages.iter().map(|message| &**message), &result.turn_id);
            if !items.is_empty() {
                return items;
            }
        }
        result
            .response_message
            .as_ref()
            .map(items_of)
            .unwrap_or_default()
    }

    /// Selects the conversation for the input.
    async fn select_target(&self) -> Result<InputTarget, OpenAiError> {
        if let Some(previous) = &self.ask.previous {
            return self.continue_response(previous).await;
        }
        let ChatInput {
            instructions,
            before,
            new,
        } = &self.ask.talk;
        let history = || before.iter().map(ChatEntry::to_message_data).collect();
        if let Some(key) = &self.ask.instance_key {
            let instance = InstanceId::new(&*self.ask.agent, &**key);
            // A long history is stored only once.
            let history = if self.has_instance(&instance).await {
                Vec::new()
            } else {
                history()
            };
            return Ok(InputTarget {
                instance,
                history,
                hold: None,
                hash: None,
            });
        }
        let begin = HistoryHash::begin(
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
            Some(hold) if self.has_instance(&hold.instance).await => Ok(InputTarget {
                instance: hold.instance.clone(),
                history: Vec::new(),
                hold: Some(hold),
                hash,
            }),
            // The conversation was deleted.
            Some(hold) => {
                hold.clear_position();
                Ok(self.new_target(history(), hash))
            }
            None => Ok(self.new_target(history(), hash)),
        }
    }

    /// Returns true if the conversation exists.
    async fn has_instance(&self, instance: &InstanceId) -> bool {
        self.service.swarm().has_instance(instance).await
    }

    /// Returns a new conversation with this history.
    fn new_target(&self, history: Vec<MessageData>, hash: Option<HistoryHash>) -> InputTarget {
        InputTarget {
            instance: new_instance(&self.ask.agent, &self.track.event_id),
            history,
            hold: None,
            hash,
        }
    }

    /// Continues a response: in its conversation if that has no later messages, otherwise in a new
    /// conversation with the same history.
    async fn continue_response(&self, previous: &ResponseId) -> Result<InputTarget, OpenAiError> {
        let swarm = self.service.swarm();
        if let Some(SubmittedEventState::Open(_)) = swarm.find(&previous.event_id).await {
            let message =
                "The turn of the previous response is still running. Retry when the turn is over.";
            return Err(OpenAiError::invalid_param("previous_response_id", message)
                .code("previous_response_in_progress"));
        }
        let hold = self.service.inner.openai.try_hold(&previous.instance);
        let messages = swarm
            .conversation(&previous.instance)
            .await
            .map_err(ApiProblem::from)?;
        let turn_id = goondan::event::turn_id(&previous.event_id);
        let last = messages
            .iter()
            .rposition(|message| is_message_of(&message.id, &turn_id));
        let of_turn = messages.iter().map(|message| &**message);
        let of_turn = of_turn.filter(|message| is_message_of(&message.id, &turn_id));
        let is_stored = stored_request(of_turn).is_some();
        let Some(last) = last.filter(|_| is_stored) else {
            return Err(OpenAiError::invalid_param(
                "previous_response_id",
                "There is no previous response with this id.",
            )
            .code("previous_response_not_found"));
        };
        let is_same_agent = previous.instance.agent == self.ask.agent;
        let is_latest = last + 1 == messages.len() && self.ask.talk.before.is_empty();
        if let Some(hold) = hold {
            if is_same_agent && is_latest {
                let instance = previous.instance.clone();
                return Ok(InputTarget {
                    instance,
                    history: Vec::new(),
                    hold: Some(hold),
                    hash: None,
                });
            }
            hold.keep_position();
        }
        let past = messages[..=last]
            .iter()
            .filter_map(|message| ChatEntry::from_message(&visible_data(message)?));
        let history = past
            .chain(self.ask.talk.before.iter().cloned())
            .map(|said| said.to_message_data())
            .collect();
        let target = self.new_target(history, None);
        swarm
            .inherit(&previous.instance, &target.instance)
            .await
            .map_err(ApiProblem::from)?;
        Ok(target)
    }
}

/// Returns the data of a user or agent message; `None` for messages of extensions and the engine.
fn visible_data(message: &Message) -> Option<MessageData> {
    use goondan::message::MessageSource::{Assistant, User};
    matches!(message.source, User | Assistant { .. }).then(|| message.data.clone())
}
