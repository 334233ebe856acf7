//! A local HTTP server that sends prepared responses and records the requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A prepared response, after which the server closes the connection.
#[derive(Clone)]
pub(crate) struct MockResponse {
    head: String,
    body: Vec<Piece>,
}

#[derive(Clone)]
enum Piece {
    Bytes(Vec<u8>),
    /// The same bytes until the client disconnects.
    Endless(String),
    /// The same bytes, this number of times, with a pause after each.
    Paced(String, usize, Duration),
    /// No bytes until the client disconnects.
    Open,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct MockRequest {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// Returns the response to a request and the number of POST requests before it.
type Handler = dyn Fn(&MockRequest, usize) -> MockResponse + Send + Sync;

pub(crate) struct MockServer {
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<MockRequest>>>,
}

impl MockResponse {
    pub(crate) fn new(status: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\n");
        MockResponse {
            head,
            body: vec![Piece::Bytes(body.into())],
        }
    }

    /// A stream of server-sent events.
    pub(crate) fn events(body: impl Into<Vec<u8>>) -> Self {
        MockResponse::new("200 OK", "text/event-stream", body)
    }

    pub(crate) fn json(status: &str, body: Value) -> Self {
        MockResponse::new(status, "application/json", body.to_string())
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// A stream that repeats `piece`.
    pub(crate) fn endless(piece: impl Into<String>) -> Self {
        MockResponse::events("").then(Piece::Endless(piece.into()))
    }

    /// A stream that begins with `begin` and stays open.
    pub(crate) fn stalled(begin: impl Into<Vec<u8>>) -> Self {
        MockResponse::events(begin).then(Piece::Open)
    }

    /// Adds `piece`, `count` times with a pause after each.
    pub(crate) fn paced(self, piece: impl Into<String>, count: usize, pause: Duration) -> Self {
        self.then(Piece::Paced(piece.into(), count, pause))
    }

    pub(crate) fn bytes(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.then(Piece::Bytes(bytes.into()))
    }

    fn then(mut self, piece: Piece) -> Self {
        self.body.push(piece);
        self
    }
}

impl MockServer {
    /// Starts a server that answers POST requests with `answers`, in order. The last response also
    /// answers all other requests.
    pub(crate) async fn start(answers: Vec<MockResponse>) -> MockServer {
        MockServer::with_handler(move |request, before| {
            let at = match request.line.starts_with("POST") {
                true => before.min(answers.len() - 1),
                false => answers.len() - 1,
            };
            answers[at].clone()
        })
        .await
    }

    /// Starts a server that answers requests with `handler`.
    pub(crate) async fn with_handler(
        handler: impl Fn(&MockRequest, usize) -> MockResponse + Send + Sync + 'static,
    ) -> MockServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, handler): (_, Arc<Handler>) = (Arc::clone(&requests), Arc::new(handler));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&handler), Arc::clone(&log)));
            }
        });
        MockServer { address, requests }
    }

    /// Returns the base URL with `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the POST requests so far.
    pub(crate) fn requests(&self) -> Vec<MockRequest> {
        self.requests.lock().expect("an unpoisoned log").clone()
    }
}

async fn serve(mut stream: TcpStream, handler: Arc<Handler>, log: Arc<Mutex<Vec<MockRequest>>>) {
    let Some(request) = read(&mut stream).await else {
        return;
    };
    let answer = {
        let mut log = log.lock().expect("an unpoisoned log");
        let answer = handler(&request, log.len());
        if request.line.starts_with("POST") {
            log.push(request);
        }
        answer
    };
    // A client that disconnects early ends the response.
    let _ = send(&mut stream, &answer).await;
    let _ = stream.shutdown().await;
}

async fn send(stream: &mut TcpStream, answer: &MockResponse) -> std::io::Result<()> {
    stream
        .write_all(format!("{}\r\n", answer.head).as_bytes())
        .await?;
    for piece in &answer.body {
        match piece {
            Piece::Bytes(bytes) => stream.write_all(bytes).await?,
            Piece::Endless(bytes) => loop {
                stream.write_all(bytes.as_bytes()).await?;
            },
            Piece::Paced(bytes, count, pause) => {
                for _ in 0..*count {
                    stream.write_all(bytes.as_bytes()).await?;
                    tokio::time::sleep(*pause).await;
                }
            }
            Piece::Open => {
                let _: usize = stream.read(&mut [0; 16]).await?;
            }
        }
    }
    Ok(())
}

async fn read(stream: &mut TcpStream) -> Option<MockRequest> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let count = stream
            .read(&mut buffer)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let (head, body) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 4..]);
        let length = head.lines().find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        });
        if body.len() >= length.unwrap_or(0usize) {
            return Some(MockRequest {
                line: head.lines().next()?.to_owned(),
                head: head.clone().into_owned(),
                body: serde_json::from_slice(body).unwrap_or_default(),
            });
        }
    }
}
