//! What happens in the chain of an input, until its turn is over: for protocols whose clients hear of questions on the way.

use std::sync::Arc;

use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::{Found, Listener, Question};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::asking;
use crate::hub::{Running, Seen};
use crate::service::Service;

/// Sees what happens in the chain of an input. As long as it does, somebody is there to answer.
pub(crate) struct Watch {
    service: Service,
    event_id: String,
    trace_id: String,
    live: Receiver<Arc<Seen>>,
    listener: Option<Listener>,
    /// The question that was told.
    asked: Option<Question>,
    /// The result, where the turn was over from the beginning.
    over: Option<Box<TurnResult>>,
    /// The turn as it ran at the beginning.
    pub(crate) running: Option<Running>,
    sees_beginning: bool,
}

/// What happens.
pub(crate) enum News {
    /// Something in the chain.
    Seen(Arc<Seen>),
    /// Somebody's word is needed.
    Asked(Question),
    /// It is not needed any more.
    Answered,
    /// The turn is over.
    Over(Box<TurnResult>),
    /// Something was missed: there was too much of it.
    Missed,
    /// The swarm has ended.
    Gone,
}

impl Watch {
    /// Watches an input from now on, in its conversation; `None` where there is none of that id.
    pub(crate) async fn begin(service: &Service, event_id: &str, instance: &InstanceId) -> Option<Watch> {
        // First: nothing that happens from now on is missed.
        let (live, now) = service.inner.hub.subscribe();
        let listener = Some(service.inner.broker.listen());
        let (trace_id, over) = match service.swarm().find(event_id).await? {
            Found::Open(turn) => (turn.trace_id, None),
            Found::Over(result) => (String::new(), Some(result)),
        };
        let running = now.running.get(instance).filter(|turn| turn.trace_id == trace_id).cloned();
        Some(Watch {
            service: service.clone(),
            event_id: event_id.to_owned(),
            trace_id,
            live,
            listener,
            asked: None,
            over,
            running,
            sees_beginning: false,
        })
    }

    /// Watches an input that is about to be handed in: nothing of it is missed.
    pub(crate) fn before(service: &Service, event_id: &str) -> Watch {
        let (service, event_id) = (service.clone(), event_id.to_owned());
        let (live, listener) = (service.inner.hub.subscribe().0, Some(service.inner.broker.listen()));
        let (trace_id, running) = (String::new(), None);
        Watch { service, event_id, trace_id, live, listener, asked: None, over: None, running, sees_beginning: true }
    }

    /// The input was handed in, and goes on under that chain.
    pub(crate) fn of_chain(self, trace_id: String) -> Watch {
        Watch { trace_id, ..self }
    }

    /// It has begun before the turn has.
    pub(crate) fn sees_beginning(&self) -> bool {
        self.sees_beginning
    }

    /// Waits for what happens next.
    pub(crate) async fn next(&mut self) -> News {
        if let Some(result) = self.over.take() {
            return News::Over(result);
        }
        loop {
            if self.asked.take_if(|question| question.end().is_some()).is_some() {
                return News::Answered;
            }
            if self.asked.is_none()
                && let Some(question) = asking::asked(&self.service, &self.trace_id)
            {
                self.asked = Some(question.clone());
                return News::Asked(question);
            }
            tokio::select! {
                seen = self.live.recv() => match seen {
                    Ok(seen) => if let Some(news) = self.sort(seen) {
                        return news;
                    },
                    Err(RecvError::Lagged(_)) => return News::Missed,
                    Err(RecvError::Closed) => return News::Gone,
                },
                // It is looked for above. The beginning of its turn may be heard of later.
                () = heard(&mut self.listener) => {}
                () = ended(self.asked.as_ref()) => {}
            }
        }
    }

    fn sort(&self, seen: Arc<Seen>) -> Option<News> {
        if let SwarmEvent::TurnEnded { event_id, result, .. } = &seen.event
            && *event_id == self.event_id
        {
            return Some(News::Over(result.clone()));
        }
        (seen.trace_id.as_ref() == Some(&self.trace_id)).then_some(News::Seen(seen))
    }

    /// The chain.
    pub(crate) fn trace_id(&self) -> &str {
        &self.trace_id
    }

    /// The client asks its person, and comes back.
    pub(crate) fn park(self) {
        let asked: Vec<Question> = self.asked.into_iter().collect();
        asking::park(self.listener, &asked);
    }
}

async fn heard(listener: &mut Option<Listener>) {
    let question = match listener {
        Some(listener) => listener.next().await,
        None => None,
    };
    if question.is_none() {
        std::future::pending::<()>().await;
    }
}

async fn ended(question: Option<&Question>) {
    match question {
        Some(question) => question.ended().await,
        None => std::future::pending().await,
    }
}
