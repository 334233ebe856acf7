//! Mocked MCP servers, in the process of the test case. Their requests and replies survive `kill`
//! and `restart`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goondan::mcp::{ProgramStreams, ServerMocks};
use goondan::ports::tool::HandlerError;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, split,
};

use crate::case::{McpFixture, McpReply, McpStart, McpToolFixture};

/// Buffer size of a connection, in bytes.
const PIPE_BUFFER_BYTES: usize = 64 << 10;

/// Mocked servers by Tool name.
#[derive(Debug, Default)]
pub(crate) struct McpServers(BTreeMap<String, Arc<McpMock>>);

/// A mocked server across all of its starts.
#[derive(Debug)]
struct McpMock {
    fixture: McpFixture,
    state: Mutex<McpMockState>,
}

#[derive(Debug)]
struct McpMockState {
    starts: usize,
    tools: Vec<McpToolFixture>,
    replied: BTreeMap<String, usize>,
    /// Received messages that a test case can check.
    received: Vec<Value>,
}

impl McpServers {
    pub(crate) fn new(fixtures: &BTreeMap<String, McpFixture>) -> Self {
        let player = |fixture: &McpFixture| {
            let tools = fixture.tools.clone();
            let state = McpMockState {
                starts: 0,
                tools,
                replied: BTreeMap::new(),
                received: Vec::new(),
            };
            Arc::new(McpMock {
                fixture: fixture.clone(),
                state: Mutex::new(state),
            })
        };
        McpServers(
            fixtures
                .iter()
                .map(|(name, fixture)| (name.clone(), player(fixture)))
                .collect(),
        )
    }

    /// Returns the messages that a server received.
    pub(crate) fn received_messages(&self, name: &str) -> Option<Value> {
        self.0
            .get(name)
            .map(|player| Value::Array(player.state().received.clone()))
    }
}

#[async_trait]
impl ServerMocks for McpServers {
    async fn mock(&self, tool: &str) -> Option<Result<ProgramStreams, HandlerError>> {
        let player = Arc::clone(self.0.get(tool)?);
        let (near, far) = tokio::io::duplex(PIPE_BUFFER_BYTES);
        tokio::spawn(player.run_next_start(far));
        let (input, output) = split(near);
        Some(Ok(ProgramStreams {
            input: Box::new(input),
            output: Box::new(output),
            errors: None,
            program: None,
        }))
    }
}

/// One connection to a mocked server.
struct McpMockConnection {
    player: Arc<McpMock>,
    output: Arc<tokio::sync::Mutex<Option<WriteHalf<DuplexStream>>>>,
}

impl McpMock {
    fn state(&self) -> MutexGuard<'_, McpMockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the server speaks the stateless protocol revision.
    fn is_modern(&self) -> bool {
        self.fixture.protocol.as_deref() == Some("2026-07-28")
    }

    /// Plays the next start of the server, such as an immediate exit.
    async fn run_next_start(self: Arc<Self>, stream: DuplexStream) {
        let start = {
            let mut state = self.state();
            state.starts += 1;
            let starts = &self.fixture.starts;
            starts
                .get(state.starts - 1)
                .or(starts.last())
                .copied()
                .unwrap_or_default()
        };
        let (input, mut output) = split(stream);
        match start {
            McpStart::Answers => {
                let output = Arc::new(tokio::sync::Mutex::new(Some(output)));
                McpMockConnection {
                    player: self,
                    output,
                }
                .receive_messages(input)
                .await;
            }
            McpStart::Dies => {}
            McpStart::Hangs => drain(input).await,
            McpStart::Chatters => while output.write_all(b"loading\n").await.is_ok() {},
            McpStart::Floods => while output.write_all(&[b'x'; 4096]).await.is_ok() {},
        }
    }

    /// Returns the next reply to a call of a tool.
    fn reply(&self, tool: &str, arguments: &Value) -> McpReply {
        let Some(replies) = self.fixture.replies.get(tool) else {
            return McpReply {
                text: Some(arguments.to_string()),
                ..McpReply::default()
            };
        };
        let mut state = self.state();
        let reply_count = state.replied.entry(tool.to_owned()).or_default();
        *reply_count += 1;
        replies
            .get(*reply_count - 1)
            .cloned()
            .unwrap_or_else(|| McpReply {
                text: Some(format!(
                    "the case has no reply for call {reply_count} of {tool}"
                )),
                is_error: true,
                ..McpReply::default()
            })
    }
}

/// Reads and ignores all input.
async fn drain(input: ReadHalf<DuplexStream>) {
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(_)) = lines.next_line().await {}
}

impl McpMockConnection {
    /// Records and answers messages until the client disconnects; ignores lines that are not JSON.
    async fn receive_messages(self, input: ReadHalf<DuplexStream>) {
        let conversation = Arc::new(self);
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(message) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            conversation.record_message(&message);
            // Each call has its own task, so that a slow call does not block others.
            let conversation = Arc::clone(&conversation);
            tokio::spawn(async move { conversation.answer(&message).await });
        }
    }

    /// Records a tool call or a cancellation for `expect.mcp`.
    fn record_message(&self, message: &Value) {
        let params = &message["params"];
        let record = match message["method"].as_str() {
            Some("tools/call") => json!({"call": params["name"], "arguments": params["arguments"]}),
            Some("notifications/cancelled") => json!({"cancelled": true}),
            _ => return,
        };
        self.player.state().received.push(record);
    }

    /// Sends a message; does nothing if the client has disconnected.
    async fn send(&self, message: &Value) {
        if let Some(output) = &mut *self.output.lock().await {
            let line = format!("{message}\n");
            // A disconnected client needs no reply.
            let _ = output.write_all(line.as_bytes()).await;
        }
    }

    /// Answers a request; ignores notifications.
    async fn answer(&self, message: &Value) {
        let Some(id) = message.get("id") else { return };
        let method = message["method"].as_str().unwrap_or_default();
        let result = match (method, self.player.is_modern()) {
            ("initialize", false) => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "played", "version": "1"},
            }),
            ("server/discover", true) => json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "private",
            }),
            ("ping", _) => json!({}),
            ("tools/list", _) => self.list_tools(),
            ("tools/call", _) => return self.call(id, &message["params"]).await,
            (other, _) => {
                let error =
                    json!({"code": -32601, "message": format!("there is no method {other}")});
                return self
                    .send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
                    .await;
            }
        };
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
            .await;
    }

    /// Returns the result of `tools/list`.
    fn list_tools(&self) -> Value {
        let tool = |tool: &McpToolFixture| {
            let schema = tool
                .input_schema
                .clone()
                .map_or_else(|| json!({"type": "object"}), Value::Object);
            let mut description = json!({"name": tool.name, "inputSchema": schema});
            description["description"] = json!(
                tool.description
                    .clone()
                    .unwrap_or_else(|| format!("Does {}.", tool.name))
            );
            if let Some(annotations) = &tool.annotations {
                description["annotations"] = json!(annotations);
            }
            description
        };
        let tools: Vec<Value> = self.player.state().tools.iter().map(tool).collect();
        if self.player.is_modern() {
            json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})
        } else {
            json!({"tools": tools})
        }
    }

    /// Answers a tool call: progress, delay, noise and then the scripted reply.
    async fn call(&self, id: &Value, params: &Value) {
        let name = params["name"].as_str().unwrap_or_default();
        if !self
            .player
            .state()
            .tools
            .iter()
            .any(|tool| tool.name == name)
        {
            let error = json!({"code": -32602, "message": format!("Unknown tool: {name}")});
            return self
                .send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
                .await;
        }
        let reply = self.player.reply(name, &params["arguments"]);
        for step in &reply.progress {
            let mut progress = json!(step);
            progress["progressToken"] = params["_meta"]["progressToken"].clone();
            self.send(
                &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}),
            )
            .await;
        }
        if let Ok(Some(delay)) = reply.wait() {
            tokio::time::sleep(delay).await;
        }
        if let Some(noise) = &reply.noise
            && let Some(output) = &mut *self.output.lock().await
        {
            let _ = output.write_all(format!("{noise}\n").as_bytes()).await;
        }
        self.player
            .state()
            .tools
            .retain(|tool| !reply.forgets.contains(&tool.name));
        // Before the result, so that the next call of the client follows the report.
        if let Some(tools) = reply.tools.clone() {
            self.player.state().tools = tools;
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
                .await;
        }
        if reply.dies {
            // Closing the output closes both directions, and the client disconnects.
            if let Some(mut output) = self.output.lock().await.take() {
                let _ = output.shutdown().await;
            }
        } else if !reply.hangs {
            self.send(&result(id, &reply, self.player.is_modern()))
                .await;
        }
    }
}

/// Converts a scripted reply to a JSON-RPC response.
fn result(id: &Value, reply: &McpReply, is_modern: bool) -> Value {
    if let Some(refusal) = &reply.error {
        let error = json!({"code": refusal.code, "message": refusal.message});
        return json!({"jsonrpc": "2.0", "id": id, "error": error});
    }
    let text = reply
        .text
        .iter()
        .map(|text| json!({"type": "text", "text": text}));
    let content: Vec<Value> = text
        .chain(reply.content.iter().flatten().cloned())
        .collect();
    let mut result = json!({"content": content});
    if let Some(structured) = &reply.structured {
        result["structuredContent"] = structured.clone();
    }
    if reply.is_error {
        result["isError"] = json!(true);
    }
    if is_modern {
        result["resultType"] = json!("complete");
    }
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}
