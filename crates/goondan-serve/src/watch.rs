//! What happens in the chain of an input, until its turn is over: for protocols whose clients hear of questions on the way.

use std::sync::Arc;

use goondan::event::{SwarmEvent, TurnResult};
use goondan::ids::InstanceId;
use goondan::{Found, Input, Listener, Question, SendError};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::asking;
use crate::hub::{Running, Seen};
use crate::service::Service;

/// Sees what happens in the chain of an input. As long as it does, somebody is there to answer.
pub(crate) struct Watch {
    service: Service,
    event_id: String,
    instance: InstanceId,
    trace_id: String,
    live: Receiver<Arc<Seen>>,
    listener: Option<Listener>,
    /// The question that was told.
    asked: Option<Question>,
    /// The result, where the turn was over from the beginning.
    over: Option<Box<TurnResult>>,
    /// The turn as it runs, where its beginning was not seen or something was missed.
    pub(crate) running: Option<Running>,
    sees_beginning: bool,
    /// Something was missed that has not been looked for yet.
    is_behind: bool,
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
    /// Something was missed: there was too much of it. It goes on with what is true now.
    Missed,
    /// The swarm has ended.
    Gone,
}

/// An input, before it is known whether it was handed in already.
pub(crate) enum Place {
    /// It was.
    Taken(Watch),
    /// It was not.
    Free(Free),
}

/// A place for an input that nobody has handed in yet. What becomes of it is seen from now on, whoever hands it in.
pub(crate) struct Free(Watch);

impl Free {
    /// Hands the input in.
    pub(crate) async fn send(self, input: Input) -> Result<Watch, SendError> {
        let Free(watch) = self;
        let turn = watch.service.swarm().send(input).await?;
        let trace_id = match watch.service.swarm().find(&watch.event_id).await {
            // Another request with the same input may have been faster: then it goes on under that one's chain.
            Some(Found::Open(known)) => known.trace_id,
            _ => turn.trace_id,
        };
        Ok(Watch { trace_id, ..watch })
    }
}

impl Watch {
    /// Watches an input from now on, in its conversation; `None` where there is none of that id.
    pub(crate) async fn begin(
        service: &Service,
        event_id: &str,
        instance: &InstanceId,
    ) -> Option<Watch> {
        match Watch::place(service, event_id, instance).await {
            Place::Taken(watch) => Some(watch),
            Place::Free(_) => None,
        }
    }

    /// Watches an input from now on that may have been handed in already.
    pub(crate) async fn place(service: &Service, event_id: &str, instance: &InstanceId) -> Place {
        // First: nothing is missed that happens after it was looked for.
        let (live, now) = service.inner.hub.subscribe();
        let listener = Some(service.inner.broker.listen());
        let watch = Watch {
            service: service.clone(),
            event_id: event_id.to_owned(),
            instance: instance.clone(),
            trace_id: String::new(),
            live,
            listener,
            asked: None,
            over: None,
            running: None,
            sees_beginning: false,
            is_behind: false,
        };
        match service.swarm().find(event_id).await {
            None => Place::Free(Free(Watch {
                sees_beginning: true,
                ..watch
            })),
            Some(Found::Over(result)) => Place::Taken(Watch {
                over: Some(result),
                ..watch
            }),
            Some(Found::Open(turn)) => {
                let running = now
                    .running
                    .get(instance)
                    .filter(|running| running.trace_id == turn.trace_id)
                    .cloned();
                Place::Taken(Watch {
                    running,
                    trace_id: turn.trace_id,
                    ..watch
                })
            }
        }
    }

    /// It has begun before the turn has.
    pub(crate) fn sees_beginning(&self) -> bool {
        self.sees_beginning
    }

    /// Waits for what happens next.
    pub(crate) async fn next(&mut self) -> News {
        loop {
            if let Some(result) = self.over.take() {
                return News::Over(result);
            }
            if self.is_behind {
                return self.look_again().await;
            }
            if self
                .asked
                .take_if(|question| question.end().is_some())
                .is_some()
            {
                return News::Answered;
            }
            if self.asked.is_none()
                && let Some(question) = asking::asked(&self.service, &self.trace_id)
            {
                self.asked = Some(question.clone());
                return News::Asked(question);
            }
            tokio::select! {
                // The last events come before the end of the swarm.
                biased;
                seen = self.live.recv() => match seen {
                    Ok(seen) => if let Some(news) = self.sort(seen) {
                        return news;
                    },
                    Err(RecvError::Lagged(_)) => self.is_behind = true,
                    Err(RecvError::Closed) => return News::Gone,
                },
                // It is looked for above. The beginning of its turn may be heard of later.
                () = heard(&mut self.listener) => {}
                () = ended(self.asked.as_ref()) => {}
                () = self.service.inner.ended.cancelled() => return News::Gone,
            }
        }
    }

    /// Goes on with what is true now.
    async fn look_again(&mut self) -> News {
        match Watch::begin(&self.service, &self.event_id, &self.instance).await {
            Some(again) => {
                *self = again;
                News::Missed
            }
            None => News::Gone,
        }
    }

    fn sort(&self, seen: Arc<Seen>) -> Option<News> {
        if let SwarmEvent::TurnEnded {
            event_id, result, ..
        } = &seen.event
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

    /// Whose turn it is.
    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// The client asks its person, and comes back.
    pub(crate) fn park(self) {
        let asked: Vec<Question> = self.asked.into_iter().collect();
        asking::park(self.listener, &asked);
    }

    /// Waits until the turn is over or waits for somebody's word. Tells whether it is: otherwise the swarm has ended before.
    pub(crate) async fn settled(mut self) -> bool {
        loop {
            if self
                .asked
                .as_ref()
                .is_some_and(|question| question.end().is_none())
            {
                self.park();
                return true;
            }
            match self.next().await {
                News::Over(_) => return true,
                News::Gone => return false,
                News::Seen(_) | News::Asked(_) | News::Answered | News::Missed => {}
            }
        }
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
