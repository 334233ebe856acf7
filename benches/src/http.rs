//! A swarm that is served over HTTP, and clients of it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::gdn::{Gdn, Usage};

/// What the clients have to know.
pub(crate) const TOKEN: &str = "a-token-for-the-benchmarks-alone";

/// A served swarm.
pub struct Served {
    child: Child,
    address: SocketAddr,
}

impl Served {
    /// Starts it, and waits until it listens.
    pub fn start(gdn: &Gdn, project: &Path) -> anyhow::Result<Self> {
        let mut command: Command = gdn.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command
            .arg(project)
            .env("GOONDAN_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
        let listening: Value = serde_json::from_str(&line).context("the server does not listen")?;
        let url = listening["url"]
            .as_str()
            .context("the server tells no address")?;
        let address = url.trim_start_matches("http://").parse()?;
        Ok(Served { child, address })
    }

    /// Memory and time that the process has used so far.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.child.id())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client with a connection of its own.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Client::connect(self.address).await
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has ended already, or nobody wants it any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with one connection.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Connects to a server.
    pub async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Client { sender })
    }

    /// Sends a request, and waits for the head of the response.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Value>,
        stream: bool,
    ) -> anyhow::Result<Response<Incoming>> {
        self.sender.ready().await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .header(
                "accept",
                if stream {
                    "text/event-stream"
                } else {
                    "application/json"
                },
            )
            .body(
                body.map(|body| Full::new(Bytes::from(body.to_string())))
                    .unwrap_or_default(),
            )?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Hands in an input for a conversation, and waits for the end of its turn, which must be a good one.
    pub async fn turn(&mut self, key: &str) -> anyhow::Result<()> {
        let input = serde_json::json!({"text": "go", "instanceKey": key});
        let response = self
            .send(Method::POST, "/api/inputs?wait=true", Some(input), false)
            .await?;
        let body = response.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        anyhow::ensure!(
            answer["result"]["finishReason"] == "text_response",
            "a turn failed: {answer}"
        );
        Ok(())
    }
}
