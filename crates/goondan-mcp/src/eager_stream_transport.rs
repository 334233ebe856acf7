//! A client that opens a session's event stream before it sends other requests.
//!
//! A server may send requests while it answers a call, some of them on the session's own stream.
//! Such a request is lost if the stream is not open yet, and the call would wait forever. The
//! client also ends calls whose response has a wrong id.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio::sync::watch;

use crate::stdio_transport::{OVERSIZED_ANSWER, has_too_many_parts, refused_answer};

/// Maximum time that a request waits for the stream. After that, it is sent without one.
const STREAM_TIMEOUT: Duration = Duration::from_secs(2);

type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A client whose requests wait until the server has accepted or refused the session's stream.
#[derive(Clone)]
pub(crate) struct EagerStreamClient<C> {
    client: C,
    /// The session whose stream was answered last.
    last_answered: Arc<watch::Sender<Option<Arc<str>>>>,
}

impl<C> EagerStreamClient<C> {
    pub(crate) fn new(client: C) -> EagerStreamClient<C> {
        EagerStreamClient {
            client,
            last_answered: Arc::default(),
        }
    }

    /// Waits for the stream of `session`, once. A server that never answers delays only one
    /// request.
    async fn listen(&self, session: &Arc<str>) {
        let mut last_answered = self.last_answered.subscribe();
        let answered =
            last_answered.wait_for(|last_answered| last_answered.as_ref() == Some(session));
        if tokio::time::timeout(STREAM_TIMEOUT, answered)
            .await
            .is_err()
        {
            self.record_answer(session);
        }
    }

    /// Records the session whose stream was answered.
    fn record_answer(&self, session: &Arc<str>) {
        self.last_answered.send_replace(Some(Arc::clone(session)));
    }
}

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for EagerStreamClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        if let (Some(session), JsonRpcMessage::Request(_)) = (&session, &message) {
            self.listen(session).await;
        }
        let request_id = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let has_session = session.is_some();
        let answer = self
            .client
            .post_message_with_response_limits(uri, message, session, token, headers, limits)
            .await;
        let answer = match answer {
            // A refusal that is not a JSON-RPC error, with its status and its body.
            Err(StreamableHttpError::UnexpectedServerResponse(refusal))
                if has_session && is_about_lost_session(&refusal) =>
            {
                return Err(StreamableHttpError::SessionExpired);
            }
            answer => answer?,
        };
        Ok(match (answer, request_id) {
            // The transport then begins a new session and sends the request again.
            (StreamableHttpPostResponse::Json(JsonRpcMessage::Error(refusal), _), _)
                if has_session && is_about_lost_session(&refusal.error.message) =>
            {
                return Err(StreamableHttpError::SessionExpired);
            }
            (StreamableHttpPostResponse::Json(answer, session), Some(request_id)) => {
                StreamableHttpPostResponse::Json(correct_response_id(answer, &request_id), session)
            }
            (StreamableHttpPostResponse::Sse(events, session), _) => {
                StreamableHttpPostResponse::Sse(without_oversized(events), session)
            }
            (answer, _) => answer,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), StreamableHttpError<C::Error>> {
        self.client
            .delete_session(uri, session, token, headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, StreamableHttpError<C::Error>> {
        let size = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session, last_event_id, token, headers, size)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
        max_size: usize,
    ) -> Result<Events, StreamableHttpError<C::Error>> {
        let answered_session = session.clone();
        let answer = self
            .client
            .get_stream_with_max_sse_event_size(
                uri,
                session,
                last_event_id,
                token,
                headers,
                max_size,
            )
            .await;
        if let Some(session) = &answered_session {
            self.record_answer(session);
        }
        answer.map(without_oversized)
    }
}

/// Replaces each answer that has too many parts by an error. Other messages of that size are
/// dropped.
fn without_oversized(events: Events) -> Events {
    let bounded = |mut event: Sse| {
        if let Some(data) = event.data.as_deref().map(str::as_bytes)
            && has_too_many_parts(data)
        {
            let refusal = refused_answer(data, OVERSIZED_ANSWER);
            event.data = refusal.and_then(|refusal| serde_json::to_string(&refusal).ok());
        }
        event
    };
    events.map_ok(bounded).boxed()
}

/// Corrects the id of the answer to the request `request_id`. A proxy may refuse a request without
/// the id. An answer with another id would leave the caller waiting, so it becomes an error.
fn correct_response_id(
    answer: ServerJsonRpcMessage,
    request_id: &RequestId,
) -> ServerJsonRpcMessage {
    match answer {
        JsonRpcMessage::Error(refusal) => {
            ServerJsonRpcMessage::error(refusal.error, Some(request_id.clone()))
        }
        JsonRpcMessage::Response(response) if !is_same(&response.id, request_id) => {
            let error = ErrorData::invalid_request("the server answered another request", None);
            ServerJsonRpcMessage::error(error, Some(request_id.clone()))
        }
        answer => answer,
    }
}

/// Returns true for the words with which servers refuse a session id that they do not know. The
/// specification requires status 404, but many servers answer with 400 and an error.
fn is_about_lost_session(message: &str) -> bool {
    let message = message.to_lowercase();
    let is_refused = [
        "expired",
        "invalid",
        "missing",
        "no valid",
        "not found",
        "not initialized",
        "terminated",
        "unknown",
    ];
    message.contains("session") && is_refused.iter().any(|word| message.contains(word))
}

/// Compares ids as strings, because some servers return a numeric id as a string.
fn is_same(one: &RequestId, other: &RequestId) -> bool {
    one.to_string() == other.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use rmcp::model::{
        ClientNotification, ClientRequest, InitializedNotification, PingRequest, RequestId,
    };
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;

    /// A server that delays the response to `get_stream` until it gets a permit, and counts posted
    /// messages.
    #[derive(Clone)]
    struct SlowStreamServer {
        stream_permits: Arc<Semaphore>,
        posted: Arc<AtomicUsize>,
    }

    impl StreamableHttpClient for SlowStreamServer {
        type Error = std::io::Error;

        async fn post_message(
            &self,
            _uri: Arc<str>,
            _message: ClientJsonRpcMessage,
            _session: Option<Arc<str>>,
            _token: Option<String>,
            _headers: Headers,
        ) -> Result<StreamableHttpPostResponse, StreamableHttpError<std::io::Error>> {
            self.posted.fetch_add(1, Ordering::SeqCst);
            Ok(StreamableHttpPostResponse::Accepted)
        }

        async fn delete_session(
            &self,
            _uri: Arc<str>,
            _session: Arc<str>,
            _token: Option<String>,
            _headers: Headers,
        ) -> Result<(), StreamableHttpError<std::io::Error>> {
            Ok(())
        }

        async fn get_stream(
            &self,
            _uri: Arc<str>,
            _session: Option<Arc<str>>,
            _last_event_id: Option<String>,
            _token: Option<String>,
            _headers: Headers,
        ) -> Result<Events, StreamableHttpError<std::io::Error>> {
            self.stream_permits
                .acquire()
                .await
                .expect("the semaphore stays open")
                .forget();
            Ok(futures::stream::empty().boxed())
        }
    }

    fn slow_server() -> (SlowStreamServer, EagerStreamClient<SlowStreamServer>) {
        let server = SlowStreamServer {
            stream_permits: Arc::new(Semaphore::new(0)),
            posted: Arc::default(),
        };
        (server.clone(), EagerStreamClient::new(server))
    }

    fn request() -> ClientJsonRpcMessage {
        ClientJsonRpcMessage::request(
            ClientRequest::PingRequest(PingRequest::default()),
            RequestId::Number(1),
        )
    }

    async fn post(
        client: &EagerStreamClient<SlowStreamServer>,
        message: ClientJsonRpcMessage,
        session: Option<&str>,
    ) {
        let answer = client
            .post_message(
                "u".into(),
                message,
                session.map(Arc::from),
                None,
                Headers::new(),
            )
            .await;
        assert!(answer.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_until_the_event_stream_is_open() {
        let (server, client) = slow_server();
        let stream = client.get_stream("u".into(), Some("s".into()), None, None, Headers::new());
        let posting = post(&client, request(), Some("s"));
        tokio::pin!(stream, posting);
        assert!(stream.as_mut().now_or_never().is_none());
        assert!(posting.as_mut().now_or_never().is_none());
        assert_eq!(
            server.posted.load(Ordering::SeqCst),
            0,
            "the request is not posted before the stream is open"
        );
        server.stream_permits.add_permits(1);
        assert!(stream.await.is_ok());
        posting.now_or_never().expect("the request no longer waits");
        assert_eq!(server.posted.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_stream_timeout_applies_only_once_per_session() {
        let (server, client) = slow_server();
        let start = tokio::time::Instant::now();
        post(&client, request(), Some("s")).await;
        post(&client, request(), Some("s")).await;
        assert_eq!(start.elapsed(), STREAM_TIMEOUT);
        assert_eq!(server.posted.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn messages_that_need_no_stream_are_sent_immediately() {
        let (server, client) = slow_server();
        let notification =
            ClientNotification::InitializedNotification(InitializedNotification::default());
        let notification = ClientJsonRpcMessage::notification(notification);
        post(&client, notification, Some("s"))
            .now_or_never()
            .expect("a notification does not wait");
        post(&client, request(), None)
            .now_or_never()
            .expect("a request without a session does not wait");
        assert_eq!(server.posted.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn lost_session_errors_are_recognized() {
        for lost in [
            "Bad Request: No valid session ID provided",
            "Session not found",
            "Invalid or missing session ID",
            "session expired",
        ] {
            assert!(is_about_lost_session(lost), "{lost}");
        }
        for other in [
            "Method not found",
            "invalid arguments",
            "the session is busy",
        ] {
            assert!(!is_about_lost_session(other), "{other}");
        }
    }
}
