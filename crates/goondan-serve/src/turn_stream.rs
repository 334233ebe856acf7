//! Stream about one turn to one client, for protocols that report approval requests in the stream.
//! The protocol chooses the content and its form. This module decides how a turn is followed and
//! when the stream ends. It also handles clients that disconnect or read too slowly.

use std::convert::Infallible;
use std::pin::Pin;

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures::Stream;
use goondan::ApprovalHandle;
use goondan::event::TurnResult;
use serde_json::Value;
use tokio::sync::mpsc::{self, Sender};
use tokio_util::sync::CancellationToken;

use crate::hub::PublishedEvent;
use crate::turn_subscription::{TurnSubscription, TurnUpdate};

/// Most events that wait for a client that does not read. Further events wait in the hub, then in
/// the store.
const STREAM_BUFFER_EVENTS: usize = 64;

/// The client disconnected.
pub(crate) struct ClientGone;

/// Decides if a stream continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFlow {
    /// The turn continues, and so does the stream.
    More,
    /// The client has everything that it requested.
    Enough,
}

/// Sending half of a client's stream.
pub(crate) struct StreamSender {
    events: Sender<Event>,
    ended: CancellationToken,
}

impl StreamSender {
    /// Sends an event. Waits for a slow client, but not after the swarm ends.
    pub(crate) async fn send(&self, value: &Value) -> Result<(), ClientGone> {
        tokio::select! {
            biased;
            sent = self.events.send(event(value)) => sent.map_err(|_| ClientGone),
            () = self.ended.cancelled() => Err(ClientGone),
        }
    }
}

/// Encoder of a protocol: turns updates of a turn into events for the client.
pub(crate) trait TurnEncoder: Send + Sized + 'static {
    /// The turn whose text the client receives.
    fn turn_id(&self) -> &str;

    /// Begins the stream. With `sees_beginning`, all events of the turn are still to come.
    fn begin(
        &mut self,
        sees_beginning: bool,
    ) -> impl Future<Output = Result<StreamFlow, ClientGone>> + Send;

    /// Reports the text of the current step so far. The client may have missed a part of it.
    fn catch_up(&mut self, text: &str) -> impl Future<Output = Result<(), ClientGone>> + Send;

    /// Reports an event of the trace.
    fn event_published(
        &mut self,
        seen: &PublishedEvent,
    ) -> impl Future<Output = Result<StreamFlow, ClientGone>> + Send;

    /// Reports that a call needs approval.
    fn approval_requested(
        &mut self,
        question: &ApprovalHandle,
    ) -> impl Future<Output = Result<StreamFlow, ClientGone>> + Send;

    /// Reports that the last approval request is closed.
    fn approval_closed(&mut self) -> impl Future<Output = Result<(), ClientGone>> + Send;

    /// Notes that events were missed.
    fn missed(&mut self);

    /// Reports the result of the turn.
    fn over(&mut self, result: &TurnResult) -> impl Future<Output = Result<(), ClientGone>> + Send;

    /// Reports that the swarm ended before the turn.
    fn stopped(&mut self) -> impl Future<Output = Result<(), ClientGone>> + Send;
}

/// Event stream response.
pub(crate) type Events =
    Sse<KeepAliveStream<Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>>>;

/// Streams the turn that `watch` follows.
pub(crate) fn respond<T: TurnEncoder>(
    watch: TurnSubscription,
    encoder: impl FnOnce(StreamSender) -> T,
) -> Events {
    let (events, mut waiting) = mpsc::channel(STREAM_BUFFER_EVENTS);
    let client = events.clone();
    let encoder = encoder(StreamSender {
        events,
        ended: watch.service().inner.ended.clone(),
    });
    tokio::spawn(follow(encoder, watch, client));
    sse(futures::stream::poll_fn(move |context| {
        waiting.poll_recv(context).map(|event| event.map(Ok))
    }))
}

/// Returns a stream of one event.
pub(crate) fn respond_once(value: &Value) -> Events {
    sse(futures::stream::iter([Ok(event(value))]))
}

/// Creates a response that sends keep-alive comments.
fn sse(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Events {
    let stream: Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(stream);
    Sse::new(stream).keep_alive(KeepAlive::default())
}

/// Encodes a value as an event.
fn event(value: &Value) -> Event {
    Event::default().data(value.to_string())
}

/// Sends the turn to the client. If the client disconnects, keeps the approval listener until the
/// turn is over or waits for approval.
async fn follow<T: TurnEncoder>(
    mut encoder: T,
    mut watch: TurnSubscription,
    client: Sender<Event>,
) {
    match encode_updates(&mut encoder, &mut watch, &client).await {
        Ok(()) => {
            // The response ends here. It does not wait for the approval.
            drop((encoder, client));
            watch.park();
        }
        // The client may reconnect, or another client may follow the turn.
        Err(ClientGone) => {
            drop((encoder, client));
            watch.settled().await;
        }
    }
}

/// Passes updates to the encoder until the client has everything that it requested.
async fn encode_updates<T: TurnEncoder>(
    encoder: &mut T,
    watch: &mut TurnSubscription,
    client: &Sender<Event>,
) -> Result<(), ClientGone> {
    let mut flow = encoder.begin(watch.sees_beginning()).await?;
    while flow == StreamFlow::More {
        if let Some(running) = watch
            .running
            .take_if(|running| running.turn_id == encoder.turn_id())
        {
            encoder.catch_up(&running.text).await?;
        }
        let update = tokio::select! {
            update = watch.next() => update,
            () = client.closed() => return Err(ClientGone),
        };
        flow = match update {
            TurnUpdate::Seen(seen) => encoder.event_published(&seen).await?,
            TurnUpdate::Asked(question) => encoder.approval_requested(&question).await?,
            TurnUpdate::Answered => {
                encoder.approval_closed().await?;
                StreamFlow::More
            }
            TurnUpdate::Missed => {
                encoder.missed();
                StreamFlow::More
            }
            TurnUpdate::Over(result) => {
                encoder.over(&result).await?;
                StreamFlow::Enough
            }
            TurnUpdate::Gone => {
                encoder.stopped().await?;
                StreamFlow::Enough
            }
        };
    }
    Ok(())
}
