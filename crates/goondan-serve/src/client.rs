//! A client of this crate's API, for commands that talk to the process that runs the swarm.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use goondan::event::{RuntimeEvent, SwarmEvent};
use goondan::ids::InstanceId;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::door::Door;
use crate::hub;
use crate::wire::{ErrorBody, InputState, ProblemBody, QuestionBody};

/// A client of one server of this machine. Each request has a connection of its own.
#[derive(Debug, Clone)]
pub struct Client {
    address: SocketAddr,
    token: String,
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing answers.
    #[error("the process that runs the swarm does not answer: {0}")]
    Unreachable(#[from] std::io::Error),
    /// The connection broke.
    #[error("the connection to the process that runs the swarm broke: {0}")]
    Broken(#[from] hyper::Error),
    /// The server refused.
    #[error("{}", .0.message)]
    Refused(ErrorBody),
    /// What came is not what this version expects.
    #[error("the process that runs the swarm answered with something unexpected: {0}")]
    Unexpected(String),
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEvent {
    /// What it is: the type of a runtime event, `text.delta`, `result` and so on.
    pub name: String,
    /// JSON.
    pub data: String,
}

/// What a server-sent event tells.
#[derive(Debug, Clone)]
pub enum Told {
    /// The input is accepted, or is known already.
    Accepted(InputState),
    /// Something happened in the swarm.
    Happened(SwarmEvent),
    /// Somebody is asked.
    Asked(QuestionBody),
    /// A question is answered or withdrawn.
    Closed(String),
    /// The turn of the input is over.
    Result(InputState),
}

impl ServerEvent {
    /// What it tells; an error where this version does not know it.
    pub fn told(&self) -> Result<Told, ClientError> {
        let told = match &*self.name {
            "accepted" => self.parsed().map(Told::Accepted),
            "result" => self.parsed().map(Told::Result),
            "approval.request" => self.parsed().map(Told::Asked),
            "approval.closed" => self.parsed().map(|Closed { id }| Told::Closed(id)),
            hub::TEXT | hub::RESET => self.parsed().map(|text: Text| Told::Happened(text.into())),
            hub::REASONING => self
                .parsed()
                .map(|reasoning: Reasoning| Told::Happened(reasoning.into())),
            _ => self
                .parsed()
                .map(|event: RuntimeEvent| Told::Happened(SwarmEvent::Runtime(Arc::new(event)))),
        };
        told.map_err(|error| ClientError::Unexpected(format!("`{}`: {error}", self.name)))
    }

    fn parsed<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.data)
    }
}

#[derive(Deserialize)]
struct Closed {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    agent_name: String,
    instance_key: String,
    turn_id: String,
    delta: Option<String>,
}

impl From<Text> for SwarmEvent {
    fn from(
        Text {
            agent_name,
            instance_key,
            turn_id,
            delta,
        }: Text,
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
struct Reasoning {
    agent_name: String,
    instance_key: String,
    turn_id: String,
    delta: String,
}

impl From<Reasoning> for SwarmEvent {
    fn from(reasoning: Reasoning) -> Self {
        SwarmEvent::Reasoning {
            instance: InstanceId::new(reasoning.agent_name, reasoning.instance_key),
            turn_id: reasoning.turn_id,
            delta: reasoning.delta,
        }
    }
}

/// A segment of a path that says exactly `text`.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl Client {
    /// A client that goes through that door.
    pub fn through(door: &Door) -> Client {
        Client {
            address: door.address,
            token: door.token.expose().to_owned(),
        }
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks for something.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.send(Method::GET, path, "application/json", None)
            .await?
            .read()
            .await
    }

    /// Hands something in, and gets an answer.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(Method::POST, path, "application/json", Some(encoded(body)?))
            .await?
            .read()
            .await
    }

    /// Hands something in that has no answer.
    pub async fn tell(&self, path: &str, body: &impl Serialize) -> Result<(), ClientError> {
        self.send(Method::POST, path, "application/json", Some(encoded(body)?))
            .await
            .map(drop)
    }

    /// Cancels something.
    pub async fn delete(&self, path: &str) -> Result<(), ClientError> {
        self.send(Method::DELETE, path, "application/json", None)
            .await
            .map(drop)
    }

    /// Hands something in, and follows what happens then.
    pub async fn follow(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<ServerEvents, ClientError> {
        self.send(Method::POST, path, EVENTS, Some(encoded(body)?))
            .await
            .map(ServerEvents::of)
    }

    /// Follows what happens.
    pub async fn events(&self, path: &str) -> Result<ServerEvents, ClientError> {
        self.send(Method::GET, path, EVENTS, None)
            .await
            .map(ServerEvents::of)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<Bytes>,
    ) -> Result<Answer, ClientError> {
        let stream = TcpStream::connect(self.address).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer; what fails in it, fails in the answer, too.
        let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| ClientError::Unexpected(error.to_string()))?;
        let response = sender.send_request(request).await?;
        Answer {
            response,
            connection,
        }
        .checked()
        .await
    }
}

const EVENTS: &str = "text/event-stream";

fn encoded(body: &impl Serialize) -> Result<Bytes, ClientError> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| ClientError::Unexpected(error.to_string()))
}

/// A connection that ends with its request.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Answer {
    response: Response<Incoming>,
    #[expect(dead_code, reason = "it ends when it is dropped")]
    connection: Connection,
}

impl Answer {
    async fn checked(self) -> Result<Answer, ClientError> {
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

    async fn read<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        let body = self.response.into_body().collect().await?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| ClientError::Unexpected(error.to_string()))
    }
}

/// A stream of server-sent events, as this crate's server writes them.
pub struct ServerEvents {
    answer: Option<Answer>,
    lines: Lines,
}

/// What was read and not taken yet.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    ready: VecDeque<ServerEvent>,
}

impl ServerEvents {
    fn of(answer: Answer) -> Self {
        ServerEvents {
            answer: Some(answer),
            lines: Lines::default(),
        }
    }

    /// Waits for the next event; `None` where the stream has ended.
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

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let block: Vec<u8> = self.rest.drain(..end + 2).collect();
            self.ready.extend(parse(&String::from_utf8_lossy(&block)));
        }
    }
}

/// The event of a block of lines; `None` for a comment, which only keeps the connection alive.
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
    fn events_are_read_wherever_the_bytes_are_cut() {
        let text = b"id: 1\nevent: a\ndata: {\"x\":\ndata: 1}\n\n: alive\n\nevent: b\ndata:y\n\n";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
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
