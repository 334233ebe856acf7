//! Event stream of one client: missed events, then live events.
//!
//! The id of each server-sent event is the number of its runtime event. A client that reconnects
//! names the last number that it received. It gets the stored events after that number, then live
//! events. Streamed text is not stored: a client that connects in the middle of an answer gets
//! `text.reset` and all reasoning and text so far.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use goondan::event::{RuntimeEvent, RuntimeEventKind, SwarmEvent, TurnResult};
use goondan::gateway::{
    EncodedEvent, EventReceiver, HubSnapshot, PublishedEvent, REASONING_DELTA_TYPE, RunningTurn,
    TEXT_DELTA_TYPE, TEXT_RESET_TYPE, piece,
};
use goondan::ids::InstanceId;
use goondan::ports::store::InstanceStatus;
use goondan::{ApprovalHandle, ApprovalListener, SubmittedEventState, Turn};
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{self, Sender};

use crate::service::Service;
use crate::wire::{EventFilter, InputState, InputStatus, QuestionBody};

/// Most events that wait for a client that does not read. Further events wait in the hub, then in
/// the store.
const STREAM_BUFFER_EVENTS: usize = 8;

/// Time that a client has, after the end of the swarm, to read the last events.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Tolerance for conversation timestamps, in microseconds.
const CLOCK_TOLERANCE_MICROS: u64 = 2_000_000;

/// An input whose turn a stream follows to its end.
#[derive(Debug, Clone)]
pub(crate) struct FollowedInput {
    pub(crate) event_id: String,
    pub(crate) trace_id: Option<String>,
    pub(crate) instance: Option<InstanceId>,
}

impl From<&Turn> for FollowedInput {
    fn from(turn: &Turn) -> Self {
        FollowedInput {
            event_id: turn.event_id.clone(),
            trace_id: Some(turn.trace_id.clone()),
            instance: Some(turn.instance.clone()),
        }
    }
}

impl FollowedInput {
    /// Returns the state of the input; `result` if its turn is over.
    pub(crate) fn state(&self, result: Option<TurnResult>) -> InputState {
        InputState {
            id: self.event_id.clone(),
            trace_id: self.trace_id.clone(),
            agent_name: self
                .instance
                .as_ref()
                .map(|instance| instance.agent.clone()),
            instance_key: self
                .instance
                .as_ref()
                .map(|instance| instance.instance_key.clone()),
            status: if result.is_some() {
                InputStatus::Over
            } else {
                InputStatus::Open
            },
            text: result
                .as_ref()
                .and_then(|result| result.response_message.as_ref())
                .map(|message| message.text()),
            result,
        }
    }
}

/// Subscription to the hub.
pub(crate) type Live = (EventReceiver, HubSnapshot);

/// A stream that is about to begin.
pub(crate) struct EventStream {
    pub(crate) service: Service,
    pub(crate) interest: EventFilter,
    /// Input whose turn ends the stream.
    pub(crate) until: Option<FollowedInput>,
    /// Subscription from before the input was submitted. Without it, the stream could miss the end
    /// of a short turn.
    pub(crate) live: Option<Live>,
    /// Client of approval requests from before the input was submitted.
    pub(crate) listener: Option<ApprovalListener>,
}

/// Event after the stored events that a client requested with `last`.
const STORED_COMPLETE: &str = "stored.complete";

struct StreamClosed;

impl EventStream {
    /// Creates the stream of all events.
    pub(crate) fn of_swarm(service: Service) -> Self {
        EventStream {
            service,
            interest: EventFilter::default(),
            until: None,
            live: None,
            listener: None,
        }
    }

    /// Creates the stream of an input, until its turn is over.
    pub(crate) fn of_input(service: Service, followed: FollowedInput) -> Self {
        EventStream {
            until: Some(followed),
            ..EventStream::of_swarm(service)
        }
    }

    /// Returns the event stream response.
    pub(crate) fn into_sse(mut self) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
        let (out, mut events) = mpsc::channel(STREAM_BUFFER_EVENTS);
        let ended = self.service.gateway().closed_token().clone();
        if let Some(followed) = &self.until {
            self.interest.trace_id.clone_from(&followed.trace_id);
        }
        let earlier = self.listener.take();
        let listener = self
            .interest
            .approvals
            .then(|| earlier.unwrap_or_else(|| self.service.inner.broker.listen()));
        tokio::spawn(async move {
            let pump = EventPump {
                last: self.interest.after.unwrap_or_default(),
                feed: self,
                out,
                listener,
            };
            // A disconnected client needs no last event, and a client that does not read gets none.
            tokio::select! {
                _ = pump.run() => {}
                () = async {
                    ended.cancelled().await;
                    tokio::time::sleep(DRAIN_TIMEOUT).await;
                } => {}
            }
        });
        Sse::new(futures::stream::poll_fn(move |context| {
            events.poll_recv(context).map(|event| event.map(Ok))
        }))
        .keep_alive(KeepAlive::default())
    }
}

struct EventPump {
    feed: EventStream,
    out: Sender<Event>,
    /// Number up to which all events are sent or filtered out.
    last: u64,
    listener: Option<ApprovalListener>,
}

impl EventPump {
    /// Sends stored events, then live events.
    async fn run(mut self) -> Result<(), StreamClosed> {
        if let Some(followed) = &self.feed.until {
            self.send_named("accepted", &followed.state(None)).await?;
        }
        let mut after = self
            .feed
            .interest
            .after
            .or(self.feed.interest.last.map(|_| 0));
        loop {
            let (over, (mut live, now)) = match self.feed.live.take() {
                Some(live) => (None, live),
                None => {
                    let hub = self.feed.service.gateway().hub();
                    let live = hub.subscribe_with(|instance, turn| {
                        self.is_selected(instance, Some(&turn.trace_id))
                    });
                    (self.finished_result().await, live)
                }
            };
            if let Some(after) = after {
                // No events follow the end of the followed turn.
                let last_id = if over.is_some() {
                    u64::MAX
                } else {
                    now.sequence
                };
                let is_first = self.feed.interest.last.is_some();
                self.send_stored_events(after, last_id).await?;
                if is_first {
                    self.send_named(STORED_COMPLETE, &json!({})).await?;
                }
            }
            self.last = self.last.max(now.sequence);
            if let Some(result) = over {
                return self.end(result).await;
            }
            self.send_partial_text(&now.running).await?;
            match self.send_live_events(&mut live).await? {
                StreamStep::End => return Ok(()),
                StreamStep::ReadAgain => after = Some(self.last),
            }
        }
    }

    /// Returns the result of the followed input, if its turn is over.
    async fn finished_result(&self) -> Option<TurnResult> {
        let followed = self.feed.until.as_ref()?;
        match self.feed.service.swarm().find(&followed.event_id).await {
            Some(SubmittedEventState::Over(result)) => Some(*result),
            _ => None,
        }
    }

    /// Sends stored events from `after` (exclusive) up to `up_to`. Later stored events arrive
    /// through the subscription.
    async fn send_stored_events(&mut self, after: u64, up_to: u64) -> Result<(), StreamClosed> {
        let mut missed = Vec::new();
        for instance in self.changed_since(after).await {
            let stored = self.feed.service.swarm().events(&instance, after).await;
            let stored = stored.unwrap_or_else(|error| {
                tracing::warn!(%instance, %error, "could not read stored events; an event stream \
                    has a gap");
                Vec::new()
            });
            let is_wanted = |event: &RuntimeEvent| {
                self.is_selected(&event.instance(), Some(&event.trace.trace_id))
            };
            missed.extend(
                stored
                    .into_iter()
                    .filter(|event| event.sequence <= up_to && is_wanted(event)),
            );
        }
        missed.sort_by_key(|event| event.sequence);
        // `last` limits only the first read. Events missed later are all sent.
        if let Some(last) = self.feed.interest.last.take() {
            missed.drain(
                ..missed
                    .len()
                    .saturating_sub(usize::try_from(last).unwrap_or(usize::MAX)),
            );
        }
        for event in missed {
            self.send_runtime(&event, None).await?;
        }
        Ok(())
    }

    /// Returns conversations that may have events after `after`. Event numbers follow the clock, so
    /// timestamps suffice.
    async fn changed_since(&self, after: u64) -> Vec<InstanceId> {
        let since = after.saturating_sub(CLOCK_TOLERANCE_MICROS);
        let metas = self.feed.service.swarm().instances().await;
        let changed = metas.iter().filter(|meta| {
            let updated = u64::try_from(meta.updated_at.timestamp_micros()).unwrap_or_default();
            updated >= since || meta.status == InstanceStatus::Processing
        });
        changed
            .map(|meta| meta.id())
            .filter(|id| self.is_selected(id, None))
            .collect()
    }

    /// Sends the text and reasoning so far of running steps.
    async fn send_partial_text(
        &mut self,
        running: &[(InstanceId, RunningTurn)],
    ) -> Result<(), StreamClosed> {
        for (instance, turn) in running {
            let partial_texts = [
                (REASONING_DELTA_TYPE, &turn.reasoning),
                (TEXT_DELTA_TYPE, &turn.text),
            ];
            let partial_texts: Vec<_> = partial_texts
                .into_iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(kind, text)| (kind, Some(text.as_str())))
                .collect();
            if partial_texts.is_empty() {
                continue;
            }
            for (kind, delta) in [(TEXT_RESET_TYPE, None)].into_iter().chain(partial_texts) {
                let line = EncodedEvent::of(&piece(kind, instance, &turn.turn_id, delta));
                self.send(&line, None).await?;
            }
        }
        Ok(())
    }

    /// Sends live events until the stream ends or must read missed events from the store.
    async fn send_live_events(
        &mut self,
        live: &mut EventReceiver,
    ) -> Result<StreamStep, StreamClosed> {
        let (closed, ended) = (
            self.out.clone(),
            self.feed.service.gateway().closed_token().clone(),
        );
        loop {
            tokio::select! {
                // Sends pending events before the end.
                biased;
                received = live.recv() => match received {
                    Ok(received) => if let Some(next) = self.send_if_selected(&received).await? {
                        return Ok(next);
                    },
                    Err(RecvError::Lagged(_)) => return Ok(StreamStep::ReadAgain),
                    Err(RecvError::Closed) => return Ok(StreamStep::End),
                },
                Some(question) = next_question(&mut self.listener) => self.send_approval_request(&question).await?,
                () = closed.closed() => return Err(StreamClosed),
                () = ended.cancelled() => return Ok(StreamStep::End),
            }
        }
    }

    /// Sends an event, if the client selected it. Returns the next step if the followed input is
    /// over.
    async fn send_if_selected(
        &mut self,
        published: &PublishedEvent,
    ) -> Result<Option<StreamStep>, StreamClosed> {
        let followed = self.feed.until.as_ref();
        if let Some(result) = followed.and_then(|it| published.event.result_of(&it.event_id)) {
            self.end(result.clone()).await?;
            return Ok(Some(StreamStep::End));
        }
        if let SwarmEvent::Runtime(event) = &published.event {
            self.last = self.last.max(event.sequence);
            self.follow_joined(event);
        }
        if !self.is_selected(
            &published.instance(),
            Some(published.trace_id.as_deref().unwrap_or_default()),
        ) {
            return Ok(None);
        }
        match (&published.event, published.line()) {
            (SwarmEvent::Runtime(event), line) => self.send_runtime(event, line).await?,
            (
                SwarmEvent::Text { .. }
                | SwarmEvent::Reasoning { .. }
                | SwarmEvent::TextReset { .. },
                Some(line),
            ) => self.send(line, None).await?,
            _ => {}
        }
        Ok(None)
    }

    /// Selects the trace of the turn that the followed input joins.
    fn follow_joined(&mut self, event: &RuntimeEvent) {
        if let (RuntimeEventKind::InputJoined { event_id, .. }, Some(followed)) =
            (&event.kind, &self.feed.until)
            && *event_id == followed.event_id
        {
            self.feed.interest.trace_id = Some(event.trace.trace_id.clone());
        }
    }

    /// Checks the client's filter. Without a trace, checks if the conversation can match at all.
    fn is_selected(&self, instance: &InstanceId, trace_id: Option<&str>) -> bool {
        let EventFilter {
            agent,
            instance_key,
            trace_id: wanted,
            ..
        } = &self.feed.interest;
        let matches_filter = |wanted: &Option<String>, actual: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == actual)
        };
        matches_filter(agent, &instance.agent)
            && matches_filter(instance_key, &instance.instance_key)
            && trace_id.is_none_or(|trace_id| matches_filter(wanted, trace_id))
    }

    /// Sends an approval request, and later its end.
    async fn send_approval_request(&self, question: &ApprovalHandle) -> Result<(), StreamClosed> {
        self.send_named("approval.request", &QuestionBody::from(&*question.request))
            .await?;
        let (out, question) = (self.out.clone(), question.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = question.ended() => {
                    let closed = json!({"type": "approval.closed", "id": question.request.id});
                    // A disconnected client needs no notice.
                    let _ = out.send(event(&EncodedEvent::of(&closed), None)).await;
                }
                () = out.closed() => {}
            }
        });
        Ok(())
    }

    /// Sends the result of the followed input.
    async fn end(&self, result: TurnResult) -> Result<(), StreamClosed> {
        let Some(followed) = &self.feed.until else {
            return Ok(());
        };
        self.send_named("result", &followed.state(Some(result)))
            .await
    }

    /// Sends a value as an event without an id.
    async fn send_named(&self, name: &str, body: &impl Serialize) -> Result<(), StreamClosed> {
        let data = serde_json::to_string(body).unwrap_or_default();
        self.send(
            &EncodedEvent {
                name: name.to_owned(),
                data,
            },
            None,
        )
        .await
    }

    /// Sends a runtime event with its sequence number as the id. `line` is its encoded form, if
    /// any.
    async fn send_runtime(
        &mut self,
        event: &RuntimeEvent,
        line: Option<&EncodedEvent>,
    ) -> Result<(), StreamClosed> {
        let encoded;
        let line = match line {
            Some(line) => line,
            None => {
                encoded = EncodedEvent::of(&json!(event));
                &encoded
            }
        };
        self.send(line, Some(event.sequence)).await
    }

    /// Sends an encoded event.
    async fn send(&self, line: &EncodedEvent, id: Option<u64>) -> Result<(), StreamClosed> {
        self.out
            .send(event(line, id))
            .await
            .map_err(|_| StreamClosed)
    }
}

/// Next step of a stream.
enum StreamStep {
    /// The stream is over.
    End,
    /// The stream missed events and reads them from the store.
    ReadAgain,
}

/// Creates a server-sent event.
fn event(line: &EncodedEvent, id: Option<u64>) -> Event {
    let event = Event::default().event(&line.name).data(&line.data);
    match id {
        Some(id) => event.id(id.to_string()),
        None => event,
    }
}

/// Waits for an approval request. Never returns without a listener.
async fn next_question(listener: &mut Option<ApprovalListener>) -> Option<ApprovalHandle> {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
