//! Response that streams one turn to one client, for protocols that report approval requests in the
//! stream. The protocol encodes the updates. This module handles clients that disconnect or read
//! too slowly.

use std::convert::Infallible;
use std::pin::Pin;

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures::Stream;
use goondan::gateway::{SwarmGateway, TurnStream, TurnUpdate};
use serde_json::Value;
use tokio::sync::mpsc::{self, Sender};
use tokio_util::sync::CancellationToken;

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

/// Encoder of a protocol. Converts the updates of a turn into events for the client.
pub(crate) trait TurnEncoder: Send + Sized + 'static {
    /// Begins the stream. With `sees_beginning`, all updates of the turn are still to come.
    fn begin(
        &mut self,
        sees_beginning: bool,
    ) -> impl Future<Output = Result<StreamFlow, ClientGone>> + Send;

    /// Sends an update.
    fn encode(
        &mut self,
        update: TurnUpdate,
    ) -> impl Future<Output = Result<StreamFlow, ClientGone>> + Send;
}

/// Event stream response.
pub(crate) type Events =
    Sse<KeepAliveStream<Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>>>;

pub(crate) fn stream_turn<T: TurnEncoder>(
    gateway: &SwarmGateway,
    turn: TurnStream,
    encoder: impl FnOnce(StreamSender) -> T,
) -> Events {
    let (events, mut waiting) = mpsc::channel(STREAM_BUFFER_EVENTS);
    let client = events.clone();
    let encoder = encoder(StreamSender {
        events,
        ended: gateway.closed_token().clone(),
    });
    tokio::spawn(forward_turn(encoder, turn, client));
    sse_response(futures::stream::poll_fn(move |context| {
        waiting.poll_recv(context).map(|event| event.map(Ok))
    }))
}

/// Returns a stream of one event.
pub(crate) fn respond_once(value: &Value) -> Events {
    sse_response(futures::stream::iter([Ok(event(value))]))
}

/// Creates a response that sends keep-alive comments.
fn sse_response(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Events {
    let stream: Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(stream);
    Sse::new(stream).keep_alive(KeepAlive::default())
}

/// Encodes a value as an event.
fn event(value: &Value) -> Event {
    Event::default().data(value.to_string())
}

/// Sends the turn to the client. If the client disconnects, it stays present until the turn is over
/// or waits for approval.
async fn forward_turn<T: TurnEncoder>(mut encoder: T, mut turn: TurnStream, client: Sender<Event>) {
    let sent = encode_updates(&mut encoder, &mut turn, &client).await;
    // The response ends here. It does not wait for the approval.
    drop((encoder, client));
    match sent {
        Ok(()) => turn.park(),
        // The client may reconnect, or another client may follow the turn.
        Err(ClientGone) => drop(turn.settled().await),
    }
}

/// Passes updates to the encoder until the client has everything that it requested.
async fn encode_updates<T: TurnEncoder>(
    encoder: &mut T,
    turn: &mut TurnStream,
    client: &Sender<Event>,
) -> Result<(), ClientGone> {
    let mut flow = encoder.begin(turn.sees_beginning()).await?;
    while flow == StreamFlow::More {
        let update = tokio::select! {
            update = turn.next() => update,
            () = client.closed() => return Err(ClientGone),
        };
        flow = match update {
            Some(update) => encoder.encode(update).await?,
            None => StreamFlow::Enough,
        };
    }
    Ok(())
}
