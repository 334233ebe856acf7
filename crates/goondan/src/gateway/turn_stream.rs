//! Stream of what happens in the trace of one input, up to the end of its turn.
//!
//! The events come from the bounded buffer of the [`EventHub`](super::EventHub). Following a turn
//! copies no text of other turns, and a turn that the stream sees from its beginning takes no lock
//! that events need.

use std::sync::Arc;

use goondan_core::agent_event::turn_id;
use goondan_core::event::{RuntimeEventKind, SwarmEvent, TurnResult};
use goondan_core::ids::InstanceId;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::approval_bridge::{ApprovalReports, PresenceChange, TracePresence};
use super::event_hub::{EventReceiver, PublishedEvent, RunningTurn};
use super::{Submission, SwarmGateway};
use crate::approvals::broker::ApprovalHandle;
use crate::start::swarm::{SubmittedEventState, Turn};

/// Update of a followed turn.
pub enum TurnUpdate {
    /// Text and reasoning of the current step so far. It replaces earlier text of the step.
    TextSoFar(RunningTurn),
    /// More text of the turn.
    Text(String),
    /// More reasoning of the turn.
    Reasoning(String),
    /// The model call begins again. The text of the step so far is void.
    Restarted,
    /// Another event of the trace: an event of the runtime, or text of another turn.
    Event(Arc<PublishedEvent>),
    /// A call needs approval.
    ApprovalRequested(ApprovalHandle),
    /// A reported approval request is closed.
    ApprovalClosed(ApprovalHandle),
    /// Events were missed because the subscriber fell behind. The stream continues with the current
    /// state.
    Lagged,
    /// The turn is over. The last update.
    Ended(Box<TurnResult>),
    /// The swarm ended before the turn, which resumes at the next start. The last update.
    SwarmEnded,
}

/// Subscription that begins before an input is submitted, so that no event of its turn is missed.
pub(super) struct TurnSubscription {
    gateway: SwarmGateway,
    live: EventReceiver,
    approval_client: TracePresence,
}

/// Stream of one turn. While it exists, approval requests of its trace wait for its client.
pub struct TurnStream {
    gateway: SwarmGateway,
    event_id: String,
    turn_id: String,
    /// The turn; `None` if it ended before this stream was created.
    turn: Option<Turn>,
    /// Events of the swarm; `None` if the stream reports no progress.
    live: Option<EventReceiver>,
    /// Registration of the client for the approval requests of the trace.
    approval_client: TracePresence,
    /// Text and reasoning from before the subscription, until they are reported.
    so_far: Option<RunningTurn>,
    state: StreamState,
    sees_beginning: bool,
}

enum StreamState {
    /// Events are reported as they occur.
    Live,
    /// Events were missed, and the current state is not read yet.
    Behind,
    /// The turn is over, or the swarm ended (`None`). Events in the buffer are reported first.
    Draining(Option<Box<TurnResult>>),
    /// The result is reported next.
    Finished(Box<TurnResult>),
    /// The last update was reported.
    Closed,
}

impl TurnSubscription {
    /// Subscribes before an input is submitted.
    pub(super) fn begin(gateway: &SwarmGateway, reports: ApprovalReports) -> Self {
        TurnSubscription {
            gateway: gateway.clone(),
            live: gateway.hub().subscribe(),
            approval_client: TracePresence::register(gateway.approvals(), reports),
        }
    }

    /// Follows a submitted input.
    pub(super) fn follow(self, event_id: &str, submission: Submission) -> TurnStream {
        match submission {
            Submission::New(turn) => TurnStream {
                sees_beginning: true,
                ..self.stream(event_id, &turn.trace_id.clone(), Some(turn))
            },
            Submission::Running(turn) => {
                let mut stream = self.stream(event_id, &turn.trace_id, None);
                stream.join(turn);
                stream
            }
            // The client of a turn that is over must not keep requests of other traces waiting.
            Submission::Finished(result) => TurnStream {
                state: StreamState::Finished(result),
                ..self.stream(event_id, "", None)
            },
        }
    }

    /// Creates the stream from the current events on.
    fn stream(self, event_id: &str, trace_id: &str, turn: Option<Turn>) -> TurnStream {
        self.approval_client.set_trace(trace_id);
        TurnStream {
            gateway: self.gateway,
            event_id: event_id.to_owned(),
            turn_id: turn_id(event_id),
            turn,
            live: Some(self.live),
            approval_client: self.approval_client,
            so_far: None,
            state: StreamState::Live,
            sees_beginning: false,
        }
    }
}

impl TurnStream {
    /// Reports only approval requests and the end from now on. Events then do not wake the stream.
    pub fn without_progress(self) -> Self {
        TurnStream {
            live: None,
            so_far: None,
            ..self
        }
    }

    /// Returns true if all updates of the turn are still to come.
    pub fn sees_beginning(&self) -> bool {
        self.sees_beginning
    }

    /// Event ID of the input.
    pub fn event_id(&self) -> &str {
        &self.event_id
    }

    /// ID of the turn.
    pub fn turn_id(&self) -> &str {
        &self.turn_id
    }

    /// Conversation of the input; `None` if its turn ended before this stream was created.
    pub fn instance(&self) -> Option<&InstanceId> {
        self.turn.as_ref().map(|turn| &turn.instance)
    }

    /// Trace of the input; empty if its turn ended before this stream was created.
    pub fn trace_id(&self) -> &str {
        self.turn.as_ref().map_or("", |turn| turn.trace_id.as_str())
    }

    /// Returns the open approval requests of the trace, oldest first.
    pub fn open_approvals(&self) -> Vec<ApprovalHandle> {
        match &self.turn {
            Some(turn) => self.gateway.approvals().open_in(&turn.trace_id),
            None => Vec::new(),
        }
    }

    /// Waits for the next update. Returns `None` after the last one. No update is lost if the future
    /// is dropped.
    pub async fn next(&mut self) -> Option<TurnUpdate> {
        loop {
            match &mut self.state {
                StreamState::Live => {}
                StreamState::Behind => return Some(self.read_current_state().await),
                StreamState::Draining(_) => return Some(self.drained()),
                StreamState::Finished(_) | StreamState::Closed => return self.end(),
            }
            if let Some(running) = self.so_far.take() {
                return Some(TurnUpdate::TextSoFar(running));
            }
            match self.approval_client.change() {
                Some(PresenceChange::Opened(request)) => {
                    return Some(TurnUpdate::ApprovalRequested(request));
                }
                Some(PresenceChange::Closed(request)) => {
                    return Some(TurnUpdate::ApprovalClosed(request));
                }
                None => {}
            }
            if let Some(update) = self.live_update().await {
                return Some(update);
            }
        }
    }

    /// Waits for an event. Returns `None` if it belongs to another trace, or changed the state.
    async fn live_update(&mut self) -> Option<TurnUpdate> {
        let result = async {
            match &mut self.turn {
                Some(turn) => (&mut turn.result).await.ok().map(Box::new),
                None => std::future::pending().await,
            }
        };
        let received = async {
            match &mut self.live {
                Some(live) => live.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The last events come before the end of the turn or the swarm.
            biased;
            received = received => match received {
                Ok(published) => return self.update_of(published),
                Err(RecvError::Lagged(_)) => self.state = StreamState::Behind,
                Err(RecvError::Closed) => self.state = StreamState::Draining(None),
            },
            result = result => self.state = StreamState::Draining(result),
            () = self.approval_client.changed() => {}
            () = self.gateway.closed() => self.state = StreamState::Draining(None),
        }
        None
    }

    /// Returns the next event in the buffer, or the end.
    fn drained(&mut self) -> TurnUpdate {
        while let Some(live) = &mut self.live {
            match live.try_recv() {
                Ok(published) => {
                    if let Some(update) = self.update_of(published) {
                        return update;
                    }
                }
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        self.end().unwrap_or(TurnUpdate::SwarmEnded)
    }

    /// Ends the stream and returns the last update; `None` if it was returned before.
    fn end(&mut self) -> Option<TurnUpdate> {
        match std::mem::replace(&mut self.state, StreamState::Closed) {
            StreamState::Finished(result) | StreamState::Draining(Some(result)) => {
                Some(TurnUpdate::Ended(result))
            }
            StreamState::Draining(None) => Some(TurnUpdate::SwarmEnded),
            StreamState::Live | StreamState::Behind | StreamState::Closed => None,
        }
    }

    /// Follows a turn that may be running, from its current state on.
    fn join(&mut self, turn: Turn) {
        let (live, running) = self.gateway.hub().subscribe_in(&turn.instance);
        self.live = Some(live);
        self.so_far = running.filter(|running| running.turn_id == self.turn_id);
        self.turn = Some(turn);
    }

    /// Continues with the current state after missed events.
    async fn read_current_state(&mut self) -> TurnUpdate {
        self.state = match self.gateway.swarm().find(&self.event_id).await {
            // The turn may have ended before the swarm.
            None => {
                let result = self
                    .turn
                    .as_mut()
                    .and_then(|turn| turn.result.try_recv().ok());
                StreamState::Draining(result.map(Box::new))
            }
            Some(SubmittedEventState::Over(result)) => StreamState::Finished(result),
            Some(SubmittedEventState::Open(turn)) => {
                self.join(turn);
                StreamState::Live
            }
        };
        self.approval_client.report_again();
        TurnUpdate::Lagged
    }

    /// Converts an event; `None` if it belongs to another trace.
    fn update_of(&mut self, published: Arc<PublishedEvent>) -> Option<TurnUpdate> {
        if let Some(result) = published.event.result_of(&self.event_id) {
            self.state = StreamState::Closed;
            return Some(TurnUpdate::Ended(Box::new(result.clone())));
        }
        self.follow_joined(&published.event);
        // Text of a step that was not seen from its beginning is incomplete.
        let is_whole = published.trace_id.is_some();
        match &published.event {
            SwarmEvent::Text { turn_id, delta, .. } if is_whole && *turn_id == self.turn_id => {
                return Some(TurnUpdate::Text(delta.clone()));
            }
            SwarmEvent::Reasoning { turn_id, delta, .. }
                if is_whole && *turn_id == self.turn_id =>
            {
                return Some(TurnUpdate::Reasoning(delta.clone()));
            }
            SwarmEvent::TextReset { turn_id, .. } if *turn_id == self.turn_id => {
                return Some(TurnUpdate::Restarted);
            }
            _ => {}
        }
        let is_own = published.trace_id.as_deref() == Some(self.trace_id());
        is_own.then_some(TurnUpdate::Event(published))
    }

    /// Follows the turn that the input joined.
    fn follow_joined(&mut self, event: &SwarmEvent) {
        let (SwarmEvent::Runtime(event), Some(turn)) = (event, &mut self.turn) else {
            return;
        };
        if let RuntimeEventKind::InputJoined {
            turn_id, event_id, ..
        } = &event.kind
            && *event_id == self.event_id
        {
            self.turn_id.clone_from(turn_id);
            turn.trace_id.clone_from(&event.trace.trace_id);
            let open = self.gateway.approvals().open_in(&turn.trace_id);
            self.approval_client.move_to_trace(&turn.trace_id, open);
        }
    }

    /// Ends the stream, but keeps the client present until the open approval requests are closed.
    /// Waits at most 15 minutes for the client to come back with the answers.
    pub fn park(self) {
        let open = self.open_approvals();
        self.approval_client.park(open);
    }

    /// Waits until the turn is over or waits for an approval that this stream reports, and then
    /// [parks](TurnStream::park) the stream. Returns false if the swarm ended before.
    pub async fn settled(mut self) -> bool {
        loop {
            if self.approval_client.is_asking() {
                self.park();
                return true;
            }
            match self.next().await {
                Some(TurnUpdate::Ended(_)) | None => return true,
                Some(TurnUpdate::SwarmEnded) => return false,
                Some(_) => {}
            }
        }
    }
}
