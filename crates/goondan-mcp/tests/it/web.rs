//! A mock web server in this process, controlled by a script.

use std::path::Path;
use std::sync::{Arc, Mutex};

use goondan_mcp::{McpSession, McpTools};
use goondan_spec::kinds::McpTransport;
use goondan_spec::value::Environment;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::lines::{HANGS, Nobody, defined, hello, tool};

#[derive(Clone)]
pub(crate) struct Request {
    /// Request line and headers, in lower case.
    pub(crate) head: String,
    /// The message, or null.
    pub(crate) message: Value,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: &'static str,
    pub(crate) body: String,
}

/// Returns the answer to a request, given all earlier requests; `None` for the correct behavior.
pub(crate) type Script = fn(&Request, &[Request]) -> Option<Reply>;

impl Request {
    pub(crate) fn is(&self, method: &str) -> bool {
        self.message["method"] == method
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn result(&self, result: Value) -> String {
        json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).to_string()
    }

    pub(crate) fn echo(&self) -> String {
        let text = self.message["params"]["arguments"]["n"].to_string();
        self.result(json!({"content": [{"type": "text", "text": text}]}))
    }

    fn right(&self) -> Reply {
        let is_request = self.message.get("id").is_some();
        match self.message["method"].as_str() {
            Some("initialize") => Reply {
                headers: "content-type: application/json\r\nmcp-session-id: first\r\n",
                ..data(self.result(hello("2025-11-25")))
            },
            Some("tools/list") => data(self.result(json!({"tools": [tool("add")]}))),
            Some("tools/call") => data(self.echo()),
            Some(_) if is_request => {
                let error = json!({"code": -32601, "message": "no such method"});
                data(
                    json!({"jsonrpc": "2.0", "id": self.message["id"], "error": error}).to_string(),
                )
            }
            Some(_) => status(202),
            None => status(405),
        }
    }
}

pub(crate) fn status(status: u16) -> Reply {
    Reply {
        status,
        headers: "",
        body: String::new(),
    }
}

pub(crate) fn data(body: String) -> Reply {
    Reply {
        status: 200,
        headers: "content-type: application/json\r\n",
        body,
    }
}

pub(crate) fn page(status: u16) -> Reply {
    Reply {
        status,
        headers: "content-type: text/html\r\n",
        body: "<h1>We will be back soon</h1>".to_owned(),
    }
}

/// Returns an event stream that ends with the connection.
pub(crate) fn events(body: String) -> Reply {
    Reply {
        status: 200,
        headers: "content-type: text/event-stream\r\n",
        body,
    }
}

pub(crate) struct Served {
    url: String,
    heard: Arc<Mutex<Vec<Request>>>,
}

impl Served {
    pub(crate) async fn new(script: Script) -> Served {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let heard = Arc::<Mutex<Vec<Request>>>::default();
        let past = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, script, Arc::clone(&past)));
            }
        });
        Served { url, heard }
    }

    /// Returns the number of messages with this method.
    pub(crate) fn heard(&self, method: &str) -> usize {
        self.heard
            .lock()
            .unwrap()
            .iter()
            .filter(|request| request.is(method))
            .count()
    }

    pub(crate) fn session(&self, folder: &Path) -> McpSession {
        let tools = McpTools::new(folder, Arc::new(Nobody), Environment::default());
        let transport = McpTransport::Http {
            url: self.url.clone(),
            headers: Vec::new(),
        };
        tools.session(&defined(transport, HANGS), folder).unwrap()
    }
}

async fn answer(
    mut stream: TcpStream,
    script: Script,
    past: Arc<Mutex<Vec<Request>>>,
) -> Option<()> {
    let request = request(&mut stream).await?;
    let reply = {
        let mut past = past.lock().unwrap();
        let reply = script(&request, &past).unwrap_or_else(|| request.right());
        past.push(request);
        reply
    };
    let head = format!(
        "HTTP/1.1 {} -\r\nconnection: close\r\n{}",
        reply.status, reply.headers
    );
    let length = match reply.headers.contains("event-stream") {
        true => String::new(),
        false => format!("content-length: {}\r\n", reply.body.len()),
    };
    stream
        .write_all(format!("{head}{length}\r\n{}", reply.body).as_bytes())
        .await
        .ok()?;
    stream.shutdown().await.ok()
}

async fn request(stream: &mut TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.ok()?;
    Some(Request {
        head,
        message: serde_json::from_slice(&body).unwrap_or_default(),
    })
}
