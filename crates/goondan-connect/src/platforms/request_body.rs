//! Bodies of platform requests: limits, compression and character sets.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use goondan::received_text::{self, UnreadableText};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{bad_request, header};

/// Time limit for receiving a request body.
const REQUEST_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of request bodies that are held at the same time before their signatures are checked.
/// Anyone can send such bodies, so all connections share this limit.
const MAX_UNVERIFIED_BYTES: usize = 64 * 1024 * 1024;

static UNVERIFIED_BYTES: Semaphore = Semaphore::const_new(MAX_UNVERIFIED_BYTES);

/// Body of a request, with its share of the bytes that are not verified yet.
pub(super) type ReceivedBody = (Bytes, Option<SemaphorePermit<'static>>);

/// Reads a body of at most `max_bytes` within the time limit.
pub(super) async fn read_in_time(body: Body, max_bytes: usize) -> Result<ReceivedBody, Response> {
    let reading = read(body, max_bytes, &UNVERIFIED_BYTES);
    match tokio::time::timeout(REQUEST_BODY_TIMEOUT, reading).await {
        Ok(received) => received,
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "The body took too long.\n").into_response()),
    }
}

/// Reads a body. Takes a permit of `unverified` for each byte, and refuses the request if none is
/// left.
async fn read(
    body: Body,
    max_bytes: usize,
    unverified: &'static Semaphore,
) -> Result<ReceivedBody, Response> {
    let mut pieces = body.into_data_stream();
    let (mut received, mut permits) = (BytesMut::new(), None::<SemaphorePermit<'static>>);
    while let Some(piece) = pieces.next().await {
        let piece = piece
            .ok()
            .filter(|piece| piece.len() <= max_bytes - received.len())
            .ok_or_else(too_large)?;
        let permit = u32::try_from(piece.len())
            .ok()
            .and_then(|bytes| unverified.try_acquire_many(bytes).ok())
            .ok_or_else(too_many_unverified_bytes)?;
        match &mut permits {
            Some(permits) => permits.merge(permit),
            None => permits = Some(permit),
        }
        received.extend_from_slice(&piece);
    }
    Ok((received.freeze(), permits))
}

/// Returns the response for a compressed body. Its signature may cover either form.
pub(super) fn unsupported_encoding_response(encoding: &str) -> Response {
    let encoding: String = encoding.escape_debug().take(40).collect();
    (
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        [("accept-encoding", "identity")],
        format!("The body is encoded as `{encoding}`. Send it without compression.\n"),
    )
        .into_response()
}

/// Parses a signed JSON body.
pub(crate) fn json_body(headers: &HeaderMap, body: &Bytes) -> Result<Value, Response> {
    received_text::parse(body, header(headers, "content-type"))
        .map_err(|error| unreadable_body_response(&error))
}

/// Returns the response for a body that cannot be read.
pub(crate) fn unreadable_body_response(error: &UnreadableText) -> Response {
    match error {
        UnreadableText::Charset => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("{error}\n")).into_response()
        }
        _ => bad_request(&error.to_string()),
    }
}

fn too_large() -> Response {
    (
        StatusCode::PAYLOAD_TOO_LARGE,
        "The body is too large or incomplete.\n",
    )
        .into_response()
}

fn too_many_unverified_bytes() -> Response {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        [("retry-after", "1")],
        "Too many requests arrive at the same time.\n",
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unauthenticated_bodies_share_a_limit() {
        let limit: &'static Semaphore = Box::leak(Box::new(Semaphore::new(10)));
        let status = |received: Result<ReceivedBody, Response>| received.err().map(|r| r.status());
        let first = read(Body::from("123456"), 8, limit).await.unwrap();
        let second = read(Body::from("12345"), 8, limit).await;
        assert_eq!(status(second), Some(StatusCode::SERVICE_UNAVAILABLE));
        let large = read(Body::from("123456789"), 8, limit).await;
        assert_eq!(status(large), Some(StatusCode::PAYLOAD_TOO_LARGE));
        drop(first);
        assert_eq!(
            read(Body::from("12345"), 8, limit).await.unwrap().0,
            "12345"
        );
        assert_eq!(limit.available_permits(), 10);
    }
}
