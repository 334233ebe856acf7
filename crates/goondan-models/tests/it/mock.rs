//! A server on this machine that sends prepared responses and keeps the requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A response. The connection is closed after it.
#[derive(Clone)]
pub(crate) struct Canned {
    head: String,
    body: Vec<Piece>,
}

#[derive(Clone)]
enum Piece {
    Bytes(Vec<u8>),
    /// The same bytes until the client disconnects.
    Endless(String),
    /// The same bytes this many times, with a pause after each.
    Paced(String, usize, Duration),
    /// No bytes until the client disconnects.
    Open,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// Returns the response to a request and the number of POST requests before it.
type Handler = dyn Fn(&Asked, usize) -> Canned + Send + Sync;

pub(crate) struct Mock {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Canned {
    pub(crate) fn new(status: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\n");
        Canned {
            head,
            body: vec![Piece::Bytes(body.into())],
        }
    }

    /// A stream of server-sent events.
    pub(crate) fn events(body: impl Into<Vec<u8>>) -> Self {
        Canned::new("200 OK", "text/event-stream", body)
    }

    pub(crate) fn json(status: &str, body: Value) -> Self {
        Canned::new(status, "application/json", body.to_string())
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// A stream that repeats `piece`.
    pub(crate) fn endless(piece: impl Into<String>) -> Self {
        Canned::events("").then(Piece::Endless(piece.into()))
    }

    /// A stream that begins with `begin` and stays open.
    pub(crate) fn stuck(begin: impl Into<Vec<u8>>) -> Self {
        Canned::events(begin).then(Piece::Open)
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

impl Mock {
    /// Starts a server that answers POST requests with `answers`, in order. The last one answers all other requests.
    pub(crate) async fn start(answers: Vec<Canned>) -> Mock {
        Mock::with(move |asked, before| {
            let at = match asked.line.starts_with("POST") {
                true => before.min(answers.len() - 1),
                false => answers.len() - 1,
            };
            answers[at].clone()
        })
        .await
    }

    /// Starts a server that answers requests with `handler`.
    pub(crate) async fn with(
        handler: impl Fn(&Asked, usize) -> Canned + Send + Sync + 'static,
    ) -> Mock {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, handler): (_, Arc<Handler>) = (Arc::clone(&asked), Arc::new(handler));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&handler), Arc::clone(&log)));
            }
        });
        Mock { address, asked }
    }

    /// Returns the base URL with `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the POST requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("an unpoisoned log").clone()
    }
}

async fn serve(mut stream: TcpStream, handler: Arc<Handler>, log: Arc<Mutex<Vec<Asked>>>) {
    let Some(asked) = read(&mut stream).await else {
        return;
    };
    let answer = {
        let mut log = log.lock().expect("an unpoisoned log");
        let answer = handler(&asked, log.len());
        if asked.line.starts_with("POST") {
            log.push(asked);
        }
        answer
    };
    // A client that disconnects early ends the response.
    let _ = send(&mut stream, &answer).await;
    let _ = stream.shutdown().await;
}

async fn send(stream: &mut TcpStream, answer: &Canned) -> std::io::Result<()> {
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

async fn read(stream: &mut TcpStream) -> Option<Asked> {
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
            return Some(Asked {
                line: head.lines().next()?.to_owned(),
                head: head.clone().into_owned(),
                body: serde_json::from_slice(body).unwrap_or_default(),
            });
        }
    }
}
