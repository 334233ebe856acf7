//! A stream that tells one client of one turn, for protocols whose clients hear of questions on the way. What is told, and in
//! which words, is up to each protocol. How a turn is followed, when the stream ends, and what becomes of a turn whose client is
//! gone or reads too slowly, is the same for all of them.

use std::convert::Infallible;
use std::pin::Pin;

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures::Stream;
use goondan::Question;
use goondan::event::TurnResult;
use serde_json::Value;
use tokio::sync::mpsc::{self, Sender};
use tokio_util::sync::CancellationToken;

use crate::hub::Seen;
use crate::watch::{News, Watch};

/// That many events may wait for a client that does not read. The others wait in the hub, then in the store.
const AHEAD: usize = 64;

/// The client is gone.
pub(crate) struct Gone;

/// Whether more is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The turn goes on, and so does the stream.
    More,
    /// The client has what it asked for.
    Enough,
}

/// The way to a client.
pub(crate) struct Out {
    events: Sender<Event>,
    ended: CancellationToken,
}

impl Out {
    /// Sends an event. It waits for a client that reads slowly, but not beyond the end of the swarm.
    pub(crate) async fn send(&self, value: &Value) -> Result<(), Gone> {
        tokio::select! {
            biased;
            sent = self.events.send(event(value)) => sent.map_err(|_| Gone),
            () = self.ended.cancelled() => Err(Gone),
        }
    }
}

/// How a protocol tells of a turn.
pub(crate) trait Teller: Send + Sized + 'static {
    /// Whose beginning is told of.
    fn turn_id(&self) -> &str;

    /// The stream begins. Where it `sees_beginning`, everything that happens in the turn is still to come.
    fn begin(&mut self, sees_beginning: bool) -> impl Future<Output = Result<Flow, Gone>> + Send;

    /// The model has said that much in its step, of which the client may have missed something.
    fn catch_up(&mut self, text: &str) -> impl Future<Output = Result<(), Gone>> + Send;

    /// Something has happened in the chain.
    fn seen(&mut self, seen: &Seen) -> impl Future<Output = Result<Flow, Gone>> + Send;

    /// Somebody's word is needed.
    fn asked(&mut self, question: &Question) -> impl Future<Output = Result<Flow, Gone>> + Send;

    /// It is not needed any more.
    fn answered(&mut self) -> impl Future<Output = Result<(), Gone>> + Send;

    /// Something was missed.
    fn missed(&mut self);

    /// The turn is over.
    fn over(&mut self, result: &TurnResult) -> impl Future<Output = Result<(), Gone>> + Send;

    /// The swarm has ended before the turn has.
    fn stopped(&mut self) -> impl Future<Output = Result<(), Gone>> + Send;
}

/// A stream of events, as a response.
pub(crate) type Events =
    Sse<KeepAliveStream<Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>>>;

/// Tells of a turn.
pub(crate) fn respond<T: Teller>(watch: Watch, teller: impl FnOnce(Out) -> T) -> Events {
    let (events, mut waiting) = mpsc::channel(AHEAD);
    let client = events.clone();
    let teller = teller(Out {
        events,
        ended: watch.service().inner.ended.clone(),
    });
    tokio::spawn(follow(teller, watch, client));
    sse(futures::stream::poll_fn(move |context| {
        waiting.poll_recv(context).map(|event| event.map(Ok))
    }))
}

/// Tells one thing, and that is all.
pub(crate) fn respond_once(value: &Value) -> Events {
    sse(futures::stream::iter([Ok(event(value))]))
}

fn sse(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Events {
    let stream: Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(stream);
    Sse::new(stream).keep_alive(KeepAlive::default())
}

fn event(value: &Value) -> Event {
    Event::default().data(value.to_string())
}

async fn follow<T: Teller>(mut teller: T, mut watch: Watch, client: Sender<Event>) {
    match tell(&mut teller, &mut watch, &client).await {
        Ok(()) => {
            // What is sent ends here, and not when somebody has answered.
            drop((teller, client));
            watch.park();
        }
        // It may come back, or another one comes.
        Err(Gone) => {
            drop((teller, client));
            watch.settled().await;
        }
    }
}

async fn tell<T: Teller>(
    teller: &mut T,
    watch: &mut Watch,
    client: &Sender<Event>,
) -> Result<(), Gone> {
    let mut flow = teller.begin(watch.sees_beginning()).await?;
    while flow == Flow::More {
        if let Some(running) = watch
            .running
            .take_if(|running| running.turn_id == teller.turn_id())
        {
            teller.catch_up(&running.text).await?;
        }
        let news = tokio::select! {
            news = watch.next() => news,
            () = client.closed() => return Err(Gone),
        };
        flow = match news {
            News::Seen(seen) => teller.seen(&seen).await?,
            News::Asked(question) => teller.asked(&question).await?,
            News::Answered => {
                teller.answered().await?;
                Flow::More
            }
            News::Missed => {
                teller.missed();
                Flow::More
            }
            News::Over(result) => {
                teller.over(&result).await?;
                Flow::Enough
            }
            News::Gone => {
                teller.stopped().await?;
                Flow::Enough
            }
        };
    }
    Ok(())
}
