//! Client of this crate's API, for commands that talk to the process that runs the swarm.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use goondan::event::{RuntimeEvent, SwarmEvent};
use goondan::gateway;
use goondan::ids::InstanceId;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::local_endpoint::{EndpointAddress, LocalEndpoint};
use crate::wire::{ErrorBody, InputState, ProblemBody, QuestionBody};

/// Client of one server on this machine. Each request uses a new connection.
#[derive(Debug, Clone)]
pub struct LocalClient {
    address: EndpointAddress,
    token: String,
}

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection was not established.
    #[error("the process that runs the swarm does not answer: {0}")]
    Unreachable(#[from] std::io::Error),
    /// The connection broke.
    #[error("the connection to the process that runs the swarm broke: {0}")]
    Broken(#[from] hyper::Error),
    /// The server refused the request.
    #[error("{}", .0.message)]
    Refused(ErrorBody),
    /// The response has a form that this version does not expect.
    #[error("the process that runs the swarm returned an unexpected response: {0}")]
    Unexpected(String),
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEvent {
    /// The event type: the type of a runtime event, `text.delta`, `result` and so on.
    pub name: String,
    /// The event body, as JSON.
    pub data: String,
}

/// Parsed form of a server-sent event.
#[derive(Debug, Clone)]
pub enum ClientEvent {
    /// The input is accepted, now or by an earlier request with the same id.
    Accepted(InputState),
    /// An event of the swarm.
    Happened(SwarmEvent),
    /// A new approval request.
    Asked(QuestionBody),
    /// The id of an approval request that is answered or withdrawn.
    Closed(String),
    /// The result of the input's turn.
    Result(InputState),
}

impl ServerEvent {
    /// Parses the event. Fails if this version cannot parse the event body.
    pub fn parse(&self) -> Result<ClientEvent, ClientError> {
        let parsed_event = match &*self.name {
            "accepted" => self.parse_data().map(ClientEvent::Accepted),
            "result" => self.parse_data().map(ClientEvent::Result),
            "approval.request" => self.parse_data().map(ClientEvent::Asked),
            "approval.closed" => self
                .parse_data()
                .map(|ClosedRequest { id }| ClientEvent::Closed(id)),
            gateway::TEXT_DELTA_TYPE | gateway::TEXT_RESET_TYPE => self
                .parse_data()
                .map(|text: TextDelta| ClientEvent::Happened(text.into())),
            gateway::REASONING_DELTA_TYPE => self
                .parse_data()
                .map(|reasoning: ReasoningDelta| ClientEvent::Happened(reasoning.into())),
            _ => self.parse_data().map(|event: RuntimeEvent| {
                ClientEvent::Happened(SwarmEvent::Runtime(Arc::new(event)))
            }),
        };
        parsed_event.map_err(|error| ClientError::Unexpected(format!("`{}`: {error}", self.name)))
    }

    /// Parses the data of the event.
    fn parse_data<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.data)
    }
}

#[derive(Deserialize)]
struct ClosedRequest {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextDelta {
    agent_name: String,
    instance_key: String,
    turn_id: String,
    delta: Option<String>,
}

impl From<TextDelta> for SwarmEvent {
    fn from(
        TextDelta {
            agent_name,
            instance_key,
            turn_id,
            delta,
        }: TextDelta,
    ) -> Self {
        let instance = InstanceId::new(agent_name, instance_key);
        match delta {
            Some(delta) => SwarmEvent::Text {
                instance,
                turn_id,
                delta,
            },
            None => SwarmEvent::TextReset { instance, turn_id },
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReasoningDelta {
    agent_name: String,
    instance_key: String,
    turn_id: String,
    delta: String,
}

impl From<ReasoningDelta> for SwarmEvent {
    fn from(reasoning: ReasoningDelta) -> Self {
        SwarmEvent::Reasoning {
            instance: InstanceId::new(reasoning.agent_name, reasoning.instance_key),
            turn_id: reasoning.turn_id,
            delta: reasoning.delta,
        }
    }
}

/// Returns the API path of an action on a conversation, such as `fork`.
pub fn conversation_path(id: &InstanceId, action: &str) -> String {
    format!(
        "/api/instances/{}/{}/{action}",
        segment(&id.agent),
        segment(&id.instance_key)
    )
}

/// Percent-encodes a path segment.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl LocalClient {
    /// Returns a client of the server that a local control file names.
    pub fn for_endpoint(endpoint: &LocalEndpoint) -> LocalClient {
        LocalClient {
            address: endpoint.address.clone(),
            token: endpoint.token.expose().to_owned(),
        }
    }

    /// Returns the server's address.
    pub fn address(&self) -> &EndpointAddress {
        &self.address
    }

    /// Sends a GET request and parses the response.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.send(Method::GET, path, "application/json", None)
            .await?
            .read()
            .await
    }

    /// Sends a POST request and parses the response.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(
            Method::POST,
            path,
            "application/json",
            Some(encode_json(body)?),
        )
        .await?
        .read()
        .await
    }

    /// Sends a POST request and ignores the response body.
    pub async fn post_only(&self, path: &str, body: &impl Serialize) -> Result<(), ClientError> {
        self.send(
            Method::POST,
            path,
            "application/json",
            Some(encode_json(body)?),
        )
        .await
        .map(drop)
    }

    /// Sends a DELETE request.
    pub async fn delete(&self, path: &str) -> Result<(), ClientError> {
        self.send(Method::DELETE, path, "application/json", None)
            .await
            .map(drop)
    }

    /// Sends a POST request and returns the event stream of the response.
    pub async fn follow(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<ServerEvents, ClientError> {
        self.send(
            Method::POST,
            path,
            EVENT_STREAM_MEDIA_TYPE,
            Some(encode_json(body)?),
        )
        .await
        .map(ServerEvents::from_response)
    }

    /// Returns the event stream of a GET request.
    pub async fn events(&self, path: &str) -> Result<ServerEvents, ClientError> {
        self.send(Method::GET, path, EVENT_STREAM_MEDIA_TYPE, None)
            .await
            .map(ServerEvents::from_response)
    }

    /// Sends a request. Fails unless the status is a success.
    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<Bytes>,
    ) -> Result<ClientResponse, ClientError> {
        let stream = self.address.connect().await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // The task ends with the response. Its errors are also reported by the response.
        let connection = ConnectionTask(tokio::spawn(async move { drop(connection.await) }));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.host())
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| ClientError::Unexpected(error.to_string()))?;
        let response = sender.send_request(request).await?;
        ClientResponse {
            response,
            connection,
        }
        .error_for_status()
        .await
    }
}

const EVENT_STREAM_MEDIA_TYPE: &str = "text/event-stream";

fn encode_json(body: &impl Serialize) -> Result<Bytes, ClientError> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| ClientError::Unexpected(error.to_string()))
}

/// Task of a connection. Dropping it closes the connection.
struct ConnectionTask(JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct ClientResponse {
    response: Response<Incoming>,
    #[expect(dead_code, reason = "the stream ends when it is dropped")]
    connection: ConnectionTask,
}

impl ClientResponse {
    /// Returns the response, or an error for a status other than success.
    async fn error_for_status(self) -> Result<ClientResponse, ClientError> {
        let status = self.response.status();
        if status.is_success() {
            return Ok(self);
        }
        let body = self.response.into_body().collect().await?.to_bytes();
        match serde_json::from_slice::<ProblemBody>(&body) {
            Ok(problem) => Err(ClientError::Refused(problem.error)),
            Err(_) => Err(ClientError::Unexpected(format!("status {status}"))),
        }
    }

    /// Reads a JSON body.
    async fn read<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        let body = self.response.into_body().collect().await?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| ClientError::Unexpected(error.to_string()))
    }
}

/// A stream of server-sent events. It parses only the form that this crate's server writes.
pub struct ServerEvents {
    answer: Option<ClientResponse>,
    lines: SseParser,
}

#[derive(Default)]
struct SseParser {
    rest: Vec<u8>,
    ready: VecDeque<ServerEvent>,
}

impl ServerEvents {
    /// Parses the events of a response.
    fn from_response(answer: ClientResponse) -> Self {
        ServerEvents {
            answer: Some(answer),
            lines: SseParser::default(),
        }
    }

    /// Waits for the next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<ServerEvent>, ClientError> {
        loop {
            if let Some(event) = self.lines.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(answer) = &mut self.answer else {
                return Ok(None);
            };
            match answer.response.body_mut().frame().await {
                Some(frame) => frame?
                    .data_ref()
                    .into_iter()
                    .for_each(|bytes| self.lines.take(bytes)),
                None => self.answer = None,
            }
        }
    }
}

impl SseParser {
    /// Adds received bytes to the parser.
    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let block: Vec<u8> = self.rest.drain(..end + 2).collect();
            self.ready.extend(parse(&String::from_utf8_lossy(&block)));
        }
    }
}

/// Parses a block of lines; `None` for a comment, which only keeps the connection alive.
fn parse(block: &str) -> Option<ServerEvent> {
    let (mut name, mut data) = ("message".to_owned(), None::<String>);
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut name),
            "data" => match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_owned()),
            },
            _ => {}
        }
    }
    data.map(|data| ServerEvent { name, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> ServerEvent {
        ServerEvent {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn sse_events_parse_at_every_chunk_boundary() {
        let text = b"id: 1\nevent: a\ndata: {\"x\":\ndata: 1}\n\n: alive\n\nevent: b\ndata:y\n\n";
        for cut in 0..text.len() {
            let mut lines = SseParser::default();
            lines.take(&text[..cut]);
            lines.take(&text[cut..]);
            assert_eq!(
                lines.ready,
                [event("a", "{\"x\":\n1}"), event("b", "y")],
                "cut at {cut}"
            );
        }
    }
}
