//! A server on this machine that answers as it is told and remembers what it was asked.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// An answer: head and body, sent as they are, then the connection is closed.
#[derive(Clone)]
pub(crate) struct Canned {
    head: String,
    body: Body,
}

#[derive(Clone)]
enum Body {
    /// These bytes.
    Whole(String),
    /// These bytes again and again, for as long as somebody reads.
    Endless(String),
    /// These bytes, then nothing, with the connection open.
    Stuck(String),
}

/// What came in.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Value,
}

pub(crate) struct Mock {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Canned {
    pub(crate) fn new(status: &str, content_type: &str, body: impl Into<String>) -> Self {
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\n");
        Canned {
            head,
            body: Body::Whole(body.into()),
        }
    }

    /// A stream of server-sent events.
    pub(crate) fn events(body: impl Into<String>) -> Self {
        Canned::new("200 OK", "text/event-stream", body)
    }

    pub(crate) fn json(status: &str, body: Value) -> Self {
        Canned::new(status, "application/json", body.to_string())
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn endless(piece: impl Into<String>) -> Self {
        let mut canned = Canned::events("");
        canned.body = Body::Endless(piece.into());
        canned
    }

    pub(crate) fn stuck(begin: impl Into<String>) -> Self {
        let mut canned = Canned::events("");
        canned.body = Body::Stuck(begin.into());
        canned
    }
}

impl Mock {
    /// Answers POST requests with `answers`, in order, and everything else, and whatever comes after, with the last.
    pub(crate) async fn start(answers: Vec<Canned>) -> Mock {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answers.clone(), Arc::clone(&log)));
            }
        });
        Mock { address, asked }
    }

    /// The POST requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked
            .lock()
            .expect("no test panics with the log in hand")
            .clone()
    }
}

async fn serve(mut stream: TcpStream, answers: Vec<Canned>, log: Arc<Mutex<Vec<Asked>>>) {
    let Some(asked) = read(&mut stream).await else {
        return;
    };
    let at = {
        let mut log = log.lock().expect("no test panics with the log in hand");
        if asked.line.starts_with("POST") {
            log.push(asked);
            log.len() - 1
        } else {
            answers.len()
        }
    };
    let answer = answers.get(at).or(answers.last()).expect("an answer");
    let _ = stream
        .write_all(format!("{}\r\n", answer.head).as_bytes())
        .await;
    match &answer.body {
        Body::Whole(body) => {
            let _ = stream.write_all(body.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Body::Endless(piece) => while stream.write_all(piece.as_bytes()).await.is_ok() {},
        Body::Stuck(begin) => {
            let _ = stream.write_all(begin.as_bytes()).await;
            // Ends when the client hangs up.
            let _ = stream.read(&mut [0; 16]).await;
        }
    }
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
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        });
        if body.len() >= length.unwrap_or(0usize) {
            let line = head.lines().next()?.to_owned();
            return Some(Asked {
                line,
                head: head.to_owned(),
                body: serde_json::from_str(body).unwrap_or_default(),
            });
        }
    }
}
