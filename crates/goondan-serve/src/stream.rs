//! A stream of events for one client: what it has missed, then what happens.
//!
//! Each runtime event carries its number as the id of the server-sent event. A client that comes back names the last one that
//! it has seen, gets what is stored behind it, and then what goes on. Text is not stored while it streams: who comes in the
//! middle of an answer gets `text.reset`, and all reasoning and text so far.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use goondan::event::{RuntimeEvent, SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::ports::store::InstanceStatus;
use goondan::{Found, Listener, Question, Turn};
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{self, Sender};

use crate::hub::{Line, Now, REASONING, RESET, Running, Seen, TEXT, piece};
use crate::service::Service;
use crate::wire::{InputState, InputStatus, Interest, QuestionBody};

/// That many events may wait for a client that does not read. The others wait in the hub, then in the store.
const AHEAD: usize = 8;

/// So long a client may take, once the swarm has ended, to read what had happened before.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Clocks of instances are looked at with so much tolerance, in microseconds.
const TOLERANCE: u64 = 2_000_000;

/// An input whose turn a stream follows to its end.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    pub(crate) event_id: String,
    pub(crate) trace_id: Option<String>,
    pub(crate) instance: Option<InstanceId>,
}

impl From<&Turn> for Followed {
    fn from(turn: &Turn) -> Self {
        Followed {
            event_id: turn.event_id.clone(),
            trace_id: Some(turn.trace_id.clone()),
            instance: Some(turn.instance.clone()),
        }
    }
}

impl Followed {
    /// What is told of it.
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

/// What a subscription to the hub gives.
pub(crate) type Live = (Receiver<Arc<Seen>>, Now);

/// A stream that is about to begin.
pub(crate) struct Feed {
    pub(crate) service: Service,
    pub(crate) interest: Interest,
    /// The stream ends with the turn of this input.
    pub(crate) until: Option<Followed>,
    /// A subscription that was made before the input was handed in, which was new: its end comes there, however soon.
    pub(crate) live: Option<Live>,
}

/// The client is gone.
struct Gone;

impl Feed {
    /// The stream as a response.
    pub(crate) fn respond(self) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
        let (out, mut events) = mpsc::channel(AHEAD);
        let ended = self.service.inner.ended.clone();
        let listener = self
            .interest
            .approvals
            .then(|| self.service.inner.broker.listen());
        tokio::spawn(async move {
            let pump = Pump {
                last: self.interest.after.unwrap_or_default(),
                feed: self,
                out,
                listener,
            };
            // A client that is gone needs no word, and one that does not read gets no last one.
            tokio::select! {
                _ = pump.run() => {}
                () = async {
                    ended.cancelled().await;
                    tokio::time::sleep(LAST_WORDS).await;
                } => {}
            }
        });
        Sse::new(futures::stream::poll_fn(move |context| {
            events.poll_recv(context).map(|event| event.map(Ok))
        }))
        .keep_alive(KeepAlive::default())
    }
}

struct Pump {
    feed: Feed,
    out: Sender<Event>,
    /// All events up to this number were sent, or are not wanted.
    last: u64,
    listener: Option<Listener>,
}

impl Pump {
    async fn run(mut self) -> Result<(), Gone> {
        if let Some(followed) = &self.feed.until {
            self.say("accepted", &followed.state(None)).await?;
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
                    let live = self.feed.service.inner.hub.subscribe();
                    (self.over().await, live)
                }
            };
            if let Some(after) = after {
                // Nothing comes behind the end of what is followed.
                let up_to = if over.is_some() {
                    u64::MAX
                } else {
                    now.sequence
                };
                self.catch_up(after, up_to).await?;
            }
            self.last = self.last.max(now.sequence);
            if let Some(result) = over {
                return self.end(result).await;
            }
            self.say_so_far(&now.running).await?;
            match self.follow(&mut live).await? {
                Next::End => return Ok(()),
                Next::ReadAgain => after = Some(self.last),
            }
        }
    }

    /// The result of the input that is followed, where its turn is over.
    async fn over(&self) -> Option<TurnResult> {
        let followed = self.feed.until.as_ref()?;
        match self.feed.service.swarm().find(&followed.event_id).await {
            Some(Found::Over(result)) => Some(*result),
            _ => None,
        }
    }

    /// Sends what is stored behind a number, up to another. What the store has beyond that is still to come.
    async fn catch_up(&mut self, after: u64, up_to: u64) -> Result<(), Gone> {
        let mut missed = Vec::new();
        for instance in self.changed_since(after).await {
            let stored = self.feed.service.swarm().events(&instance, after).await;
            let stored = stored.unwrap_or_else(|error| {
                tracing::warn!(%instance, %error, "a stream has a gap: events could not be read");
                Vec::new()
            });
            let wanted =
                |event: &RuntimeEvent| self.wants(&event.instance(), Some(&event.trace.trace_id));
            missed.extend(
                stored
                    .into_iter()
                    .filter(|event| event.sequence <= up_to && wanted(event)),
            );
        }
        missed.sort_by_key(|event| event.sequence);
        // Only of what was there before: what is missed later is wanted whole.
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

    /// The instances in which something can have happened behind that number: it follows the clock.
    async fn changed_since(&self, after: u64) -> Vec<InstanceId> {
        let since = after.saturating_sub(TOLERANCE);
        let metas = self.feed.service.swarm().instances().await;
        let changed = metas.iter().filter(|meta| {
            let updated = u64::try_from(meta.updated_at.timestamp_micros()).unwrap_or_default();
            updated >= since || meta.status == InstanceStatus::Processing
        });
        changed
            .map(|meta| meta.id())
            .filter(|id| self.wants(id, None))
            .collect()
    }

    /// What models are saying at this moment.
    async fn say_so_far(&mut self, running: &HashMap<InstanceId, Running>) -> Result<(), Gone> {
        for (instance, turn) in running {
            let so_far = [(REASONING, &turn.reasoning), (TEXT, &turn.text)];
            let so_far: Vec<_> = so_far
                .into_iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(kind, text)| (kind, Some(text.as_str())))
                .collect();
            if so_far.is_empty() || !self.wants(instance, Some(&turn.trace_id)) {
                continue;
            }
            for (kind, delta) in [(RESET, None)].into_iter().chain(so_far) {
                let line = Line::of(&piece(kind, instance, &turn.turn_id, delta));
                self.send(&line, None).await?;
            }
        }
        Ok(())
    }

    async fn follow(&mut self, live: &mut Receiver<Arc<Seen>>) -> Result<Next, Gone> {
        let (closed, ended) = (self.out.clone(), self.feed.service.inner.ended.clone());
        loop {
            tokio::select! {
                // What has happened is told before the end.
                biased;
                seen = live.recv() => match seen {
                    Ok(seen) => if let Some(next) = self.pass_on(&seen).await? {
                        return Ok(next);
                    },
                    Err(RecvError::Lagged(_)) => return Ok(Next::ReadAgain),
                    Err(RecvError::Closed) => return Ok(Next::End),
                },
                Some(question) = next_question(&mut self.listener) => self.ask(&question).await?,
                () = closed.closed() => return Err(Gone),
                () = ended.cancelled() => return Ok(Next::End),
            }
        }
    }

    async fn pass_on(&mut self, seen: &Seen) -> Result<Option<Next>, Gone> {
        if let (
            SwarmEvent::TurnEnded {
                event_id, result, ..
            },
            Some(followed),
        ) = (&seen.event, &self.feed.until)
            && *event_id == followed.event_id
        {
            self.end((**result).clone()).await?;
            return Ok(Some(Next::End));
        }
        if let SwarmEvent::Runtime(event) = &seen.event {
            self.last = self.last.max(event.sequence);
        }
        if !self.wants(
            &seen.instance(),
            Some(seen.trace_id.as_deref().unwrap_or_default()),
        ) {
            return Ok(None);
        }
        match (&seen.event, seen.line()) {
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

    /// Whether the client wants to see that. Without a trace, whether it may want something of that instance.
    fn wants(&self, instance: &InstanceId, trace_id: Option<&str>) -> bool {
        let Interest {
            agent,
            instance_key,
            trace_id: wanted,
            ..
        } = &self.feed.interest;
        let is =
            |wanted: &Option<String>, it: &str| wanted.as_deref().is_none_or(|wanted| wanted == it);
        is(agent, &instance.agent)
            && is(instance_key, &instance.instance_key)
            && trace_id.is_none_or(|trace_id| is(wanted, trace_id))
    }

    async fn ask(&self, question: &Question) -> Result<(), Gone> {
        self.say("approval.request", &QuestionBody::from(&*question.request))
            .await?;
        let (out, question) = (self.out.clone(), question.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = question.ended() => {
                    let closed = json!({"type": "approval.closed", "id": question.request.id});
                    // A client that is gone needs no word.
                    let _ = out.send(event(&Line::of(&closed), None)).await;
                }
                () = out.closed() => {}
            }
        });
        Ok(())
    }

    async fn end(&self, result: TurnResult) -> Result<(), Gone> {
        let Some(followed) = &self.feed.until else {
            return Ok(());
        };
        self.say("result", &followed.state(Some(result))).await
    }

    async fn say(&self, name: &str, body: &impl Serialize) -> Result<(), Gone> {
        let data = serde_json::to_string(body).unwrap_or_default();
        self.send(
            &Line {
                name: name.to_owned(),
                data,
            },
            None,
        )
        .await
    }

    async fn send_runtime(
        &mut self,
        event: &RuntimeEvent,
        line: Option<&Line>,
    ) -> Result<(), Gone> {
        let made;
        let line = match line {
            Some(line) => line,
            None => {
                made = Line::of(&json!(event));
                &made
            }
        };
        self.send(line, Some(event.sequence)).await
    }

    async fn send(&self, line: &Line, id: Option<u64>) -> Result<(), Gone> {
        self.out.send(event(line, id)).await.map_err(|_| Gone)
    }
}

/// How a stream goes on.
enum Next {
    /// It is over.
    End,
    /// It has missed something, which is read from the store.
    ReadAgain,
}

fn event(line: &Line, id: Option<u64>) -> Event {
    let event = Event::default().event(&line.name).data(&line.data);
    match id {
        Some(id) => event.id(id.to_string()),
        None => event,
    }
}

async fn next_question(listener: &mut Option<Listener>) -> Option<Question> {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
