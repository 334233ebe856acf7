//! A mock HTTP server in this process, controlled by a script.

use std::path::Path;
use std::sync::{Arc, Mutex};

use goondan_mcp::{McpSession, McpTools};
use goondan_spec::kinds::McpTransport;
use goondan_spec::value::Environment;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::stdio_server::{HANG_TIMEOUT, NoProgramSpawner, initialize_result, server_tool, tool};

#[derive(Clone)]
pub(crate) struct Request {
    /// Request line and headers in lower case.
    pub(crate) head: String,
    /// The JSON-RPC message; null without a body.
    pub(crate) message: Value,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: &'static str,
    pub(crate) body: String,
}

/// Returns the reply to a request, given all earlier requests; `None` for the reply of a correct
/// server.
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

    /// Returns the reply of a correct server.
    fn default_reply(&self) -> Reply {
        let is_request = self.message.get("id").is_some();
        match self.message["method"].as_str() {
            Some("initialize") => Reply {
                headers: "content-type: application/json\r\nmcp-session-id: first\r\n",
                ..json_reply(self.result(initialize_result("2025-11-25")))
            },
            Some("tools/list") => json_reply(self.result(json!({"tools": [tool("add")]}))),
            Some("tools/call") => json_reply(self.echo()),
            Some(_) if is_request => {
                let error = json!({"code": -32601, "message": "no such method"});
                json_reply(
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

pub(crate) fn json_reply(body: String) -> Reply {
    Reply {
        status: 200,
        headers: "content-type: application/json\r\n",
        body,
    }
}

pub(crate) fn html_reply(status: u16) -> Reply {
    Reply {
        status,
        headers: "content-type: text/html\r\n",
        body: "<h1>We will be back soon</h1>".to_owned(),
    }
}

/// Returns an event stream that ends with the connection.
pub(crate) fn event_stream_reply(body: String) -> Reply {
    Reply {
        status: 200,
        headers: "content-type: text/event-stream\r\n",
        body,
    }
}

pub(crate) struct MockHttpServer {
    url: String,
    received: Arc<Mutex<Vec<Request>>>,
}

impl MockHttpServer {
    pub(crate) async fn new(script: Script) -> MockHttpServer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let received = Arc::<Mutex<Vec<Request>>>::default();
        let past = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, script, Arc::clone(&past)));
            }
        });
        MockHttpServer { url, received }
    }

    /// Returns the number of messages with this method.
    pub(crate) fn count_received(&self, method: &str) -> usize {
        self.received
            .lock()
            .unwrap()
            .iter()
            .filter(|request| request.is(method))
            .count()
    }

    pub(crate) fn session(&self, folder: &Path) -> McpSession {
        let tools = McpTools::new(folder, Arc::new(NoProgramSpawner), Environment::default());
        let transport = McpTransport::Http {
            url: self.url.clone(),
            headers: Vec::new(),
        };
        tools
            .session(&server_tool(transport, HANG_TIMEOUT), folder)
            .unwrap()
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
        let reply = script(&request, &past).unwrap_or_else(|| request.default_reply());
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
