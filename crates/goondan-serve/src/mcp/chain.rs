//! A call while its turn runs: progress, questions, and the client that may give it up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::{Question, Turn};
use rmcp::RoleServer;
use rmcp::model::{InputRequiredResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::question::{self, Asking};
use crate::asking;
use crate::hub::Seen;
use crate::progress;
use crate::service::Service;

/// A model that writes is told of no more often than that.
const BETWEEN_WORDS: Duration = Duration::from_secs(1);

/// A call whose turn runs.
pub(super) struct Chain<'a> {
    service: &'a Service,
    context: &'a RequestContext<RoleServer>,
    turn: Option<Turn>,
    trace_id: String,
    asking: Asking,
    /// Questions that may be of this chain and were not put yet, by their ids.
    open: BTreeMap<String, Question>,
    progress: Option<Progress>,
    given_up: GivenUp,
}

/// How a call ends.
pub(super) enum Ended {
    /// Its turn is over.
    Over(Box<TurnResult>),
    /// The client has to ask its person, and to call again.
    Asks(InputRequiredResult),
    /// The client does not want it any more.
    GivenUp,
    /// The swarm has ended first.
    SwarmGone,
}

/// Cancels the turn of a call that the client gives up, in whichever way it does.
struct GivenUp {
    service: Service,
    event_id: String,
    is_off: bool,
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if self.is_off {
            return;
        }
        let (service, event_id) = (self.service.clone(), std::mem::take(&mut self.event_id));
        tokio::spawn(async move { service.swarm().cancel_event(&event_id).await });
    }
}

impl<'a> Chain<'a> {
    /// The call of that turn.
    pub(super) fn new(
        service: &'a Service,
        turn: Turn,
        context: &'a RequestContext<RoleServer>,
    ) -> Self {
        let progress = context.meta.get_progress_token();
        let given_up = GivenUp {
            service: service.clone(),
            event_id: turn.event_id.clone(),
            is_off: false,
        };
        Chain {
            service,
            context,
            trace_id: turn.trace_id.clone(),
            turn: Some(turn),
            asking: Asking::of(context),
            open: BTreeMap::new(),
            progress: progress.map(Progress::new),
            given_up,
        }
    }

    /// Waits until it ends.
    pub(super) async fn follow(mut self, mut live: Receiver<Arc<Seen>>) -> Ended {
        let Some(turn) = self.turn.take() else {
            return Ended::SwarmGone;
        };
        let event_id = turn.event_id.clone();
        let mut result = std::pin::pin!(turn.result());
        let mut listener = self
            .asking
            .can_ask()
            .then(|| self.service.inner.broker.listen());
        let mut put = FuturesUnordered::new();
        let ended = loop {
            tokio::select! {
                biased;
                result = &mut result => break result.map_or(Ended::SwarmGone, |result| Ended::Over(Box::new(result))),
                () = self.context.ct.cancelled() => return Ended::GivenUp,
                Some(question) = question::next(&mut listener) => {
                    self.open.insert(question.request.id.clone(), question);
                }
                Some(()) = put.next() => {}
                seen = live.recv() => match seen {
                    Ok(seen) => self.saw(&seen).await,
                    // Some progress was missed.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break Ended::SwarmGone,
                }
            }
            let mine = self.mine();
            if !mine.is_empty() && self.asking == Asking::ByCallingAgain {
                asking::park(listener.take(), &mine);
                break Ended::Asks(question::ask_for(&mine, event_id));
            }
            let peer = &self.context.peer;
            put.extend(
                mine.into_iter()
                    .map(|question| question::put(peer.clone(), question)),
            );
        };
        self.given_up.is_off = true;
        ended
    }

    /// Takes out the questions of this chain. It may be that the beginning of a turn is heard of after its question.
    fn mine(&mut self) -> Vec<Question> {
        let (hub, trace_id) = (&self.service.inner.hub, &self.trace_id);
        let chain = |instance: &InstanceId| hub.chain_of(instance);
        let mine = self.open.extract_if(.., |_, question| {
            question.end().is_some() || chain(&question.request.instance).as_ref() == Some(trace_id)
        });
        mine.map(|(_, question)| question)
            .filter(|question| question.end().is_none())
            .collect()
    }

    async fn saw(&mut self, seen: &Seen) {
        if seen.trace_id.as_ref() != Some(&self.trace_id) {
            return;
        }
        let Some(progress) = &mut self.progress else {
            return;
        };
        if let Some(told) = progress.told(&seen.event) {
            // A client that is gone has given the call up, which is noticed elsewhere.
            let _ = self.context.peer.notify_progress(told).await;
        }
    }
}

/// What is told of a call that runs.
struct Progress {
    token: ProgressToken,
    count: u32,
    spoke: Option<Instant>,
}

impl Progress {
    fn new(token: ProgressToken) -> Self {
        Progress {
            token,
            count: 0,
            spoke: None,
        }
    }

    fn told(&mut self, event: &SwarmEvent) -> Option<ProgressNotificationParam> {
        let words = match event {
            SwarmEvent::Runtime(event) => progress::words(event)?,
            SwarmEvent::Text { instance, .. } | SwarmEvent::Reasoning { instance, .. } => {
                if self
                    .spoke
                    .is_some_and(|spoke| spoke.elapsed() < BETWEEN_WORDS)
                {
                    return None;
                }
                self.spoke = Some(Instant::now());
                let is_text = matches!(event, SwarmEvent::Text { .. });
                let what = if is_text { "writes" } else { "reasons" };
                format!("{}: {what}", instance.agent)
            }
            SwarmEvent::TextReset { .. } | SwarmEvent::TurnEnded { .. } => return None,
        };
        self.count += 1;
        Some(
            ProgressNotificationParam::new(self.token.clone(), f64::from(self.count))
                .with_message(words),
        )
    }
}
