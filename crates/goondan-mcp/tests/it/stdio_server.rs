//! A mock stdio server in this process, controlled by a script.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::HandlerError;
use goondan_mcp::{
    McpServerProgram, McpSession, McpTools, ProgramStreams, RunningProgram, ServerMocks,
    ServerSpawner,
};
use goondan_spec::kinds::{ElicitationMode, McpOauth, McpServer, McpTransport, Tool, ToolEntry};
use goondan_spec::value::Environment;
use goondan_spec::{Kind, Resource, ResourceId};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::Semaphore;

/// Time limit of a call. A longer call counts as hanging.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// A message that a server receives.
pub(crate) struct ReceivedRequest<'m> {
    /// Number of earlier starts of the server program.
    pub(crate) start: usize,
    /// Messages received before in this connection.
    pub(crate) past: &'m [Value],
    pub(crate) message: &'m Value,
}

/// An action of the mock server.
pub(crate) enum ServerAction {
    /// Sends a JSON-RPC message.
    Send(Value),
    /// Prints text without a line end.
    Print(String),
    /// Closes the connection.
    Exit,
}

/// Returns the server actions for a message; `None` for the actions of a correct server.
pub(crate) type Script = fn(&ReceivedRequest<'_>) -> Option<Vec<ServerAction>>;

impl ReceivedRequest<'_> {
    pub(crate) fn is(&self, method: &str) -> bool {
        self.message["method"] == method
    }

    /// Returns the number of earlier messages with this method.
    pub(crate) fn before(&self, method: &str) -> usize {
        self.past
            .iter()
            .filter(|message| message["method"] == method)
            .count()
    }

    pub(crate) fn answer(&self, result: Value) -> ServerAction {
        ServerAction::Send(json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}))
    }

    pub(crate) fn text(&self, text: &str) -> ServerAction {
        self.answer(json!({"content": [{"type": "text", "text": text}]}))
    }

    /// Returns the correct answer to a call, which repeats its argument.
    pub(crate) fn echo(&self) -> ServerAction {
        self.text(&self.message["params"]["arguments"]["n"].to_string())
    }

    pub(crate) fn refuse(&self, code: i64, message: &str) -> ServerAction {
        ServerAction::Send(
            json!({"jsonrpc": "2.0", "id": self.message["id"], "error": {"code": code, "message": message}}),
        )
    }

    /// Returns the actions of a correct server.
    fn default_actions(&self) -> Vec<ServerAction> {
        let Some(method) = self.message["method"]
            .as_str()
            .filter(|_| self.message.get("id").is_some())
        else {
            return Vec::new();
        };
        vec![match method {
            "initialize" => self.answer(initialize_result("2025-11-25")),
            "tools/list" => self.answer(json!({"tools": [tool("add")]})),
            "tools/call" => self.echo(),
            "ping" => self.answer(json!({})),
            _ => self.refuse(-32601, "no such method"),
        }]
    }
}

pub(crate) fn initialize_result(revision: &str) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "played", "version": "1"},
    })
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does something.", "inputSchema": {"type": "object"}})
}

/// A mock server that follows a script.
pub(crate) struct MockServer {
    script: Script,
    starts: AtomicUsize,
    received: Mutex<Vec<Value>>,
    /// Gets a permit for each ended server program.
    pub(crate) ended: Arc<Semaphore>,
    /// Number of bytes that the server writes to standard error.
    stderr_bytes: u64,
}

impl MockServer {
    pub(crate) fn new(script: Script, stderr_bytes: u64) -> Arc<Self> {
        let ended = Arc::new(Semaphore::new(0));
        Arc::new(MockServer {
            script,
            starts: AtomicUsize::new(0),
            received: Mutex::default(),
            ended,
            stderr_bytes,
        })
    }

    /// Returns the total number of messages with this method.
    pub(crate) fn count_received(&self, method: &str) -> usize {
        self.received
            .lock()
            .unwrap()
            .iter()
            .filter(|message| message["method"] == method)
            .count()
    }

    async fn serve(self: Arc<Self>, stream: tokio::io::DuplexStream, start: usize) {
        let (input, mut output) = tokio::io::split(stream);
        let (mut lines, mut past) = (BufReader::new(input).lines(), Vec::new());
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            self.received.lock().unwrap().push(message.clone());
            let request = ReceivedRequest {
                start,
                past: &past,
                message: &message,
            };
            for action in (self.script)(&request).unwrap_or_else(|| request.default_actions()) {
                let text = match action {
                    ServerAction::Send(message) => format!("{message}\n"),
                    ServerAction::Print(text) => text,
                    ServerAction::Exit => return,
                };
                // The client may already be disconnected.
                let _ = output.write_all(text.as_bytes()).await;
            }
            past.push(message);
        }
    }
}

/// Starts the mock server any number of times.
struct ServerStarter(Arc<MockServer>);

impl ServerStarter {
    fn streams(&self) -> ProgramStreams {
        let ServerStarter(server) = self;
        let (near, far) = tokio::io::duplex(1 << 16);
        let start = server.starts.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(Arc::clone(server).serve(far, start));
        let (input, output) = tokio::io::split(near);
        let errors = (server.stderr_bytes > 0)
            .then(|| Box::new(tokio::io::repeat(b'!').take(server.stderr_bytes)) as _);
        let program = Some(Box::new(EndCounter(Arc::clone(&server.ended))) as _);
        ProgramStreams {
            input: Box::new(input),
            output: Box::new(output),
            errors,
            program,
        }
    }
}

#[async_trait]
impl ServerMocks for ServerStarter {
    async fn mock(&self, _tool: &str) -> Option<Result<ProgramStreams, HandlerError>> {
        Some(Ok(self.streams()))
    }
}

/// Starts the mock server, and records the number of sandboxes of each start.
pub(crate) struct RecordingSpawner {
    server: ServerStarter,
    pub(crate) sandboxes: Mutex<Vec<usize>>,
}

impl RecordingSpawner {
    pub(crate) fn new(server: &Arc<MockServer>) -> Arc<Self> {
        Arc::new(RecordingSpawner {
            server: ServerStarter(Arc::clone(server)),
            sandboxes: Mutex::default(),
        })
    }
}

#[async_trait]
impl ServerSpawner for RecordingSpawner {
    async fn start(&self, program: &McpServerProgram) -> Result<ProgramStreams, HandlerError> {
        self.sandboxes.lock().unwrap().push(program.sandboxes.len());
        Ok(self.server.streams())
    }
}

/// Counts the ends of the server program.
struct EndCounter(Arc<Semaphore>);

#[async_trait]
impl RunningProgram for EndCounter {
    async fn end(&mut self) -> String {
        self.0.add_permits(1);
        "exit status 3".to_owned()
    }
}

/// Fails to start any program.
pub(crate) struct NoProgramSpawner;

#[async_trait]
impl ServerSpawner for NoProgramSpawner {
    async fn start(&self, _program: &McpServerProgram) -> Result<ProgramStreams, HandlerError> {
        Err(HandlerError::new("no program is started here"))
    }
}

/// Returns the tool resource of an MCP server with this transport.
pub(crate) fn server_tool(transport: McpTransport, timeout: Duration) -> Resource<Tool> {
    let server = McpServer {
        transport,
        protocol: None,
        connect_timeout: timeout,
        elicitation: ElicitationMode::None,
        oauth: McpOauth::default(),
    };
    Resource {
        id: ResourceId {
            package: None,
            kind: Kind::Tool,
            name: "server".to_owned(),
        },
        labels: Default::default(),
        annotations: Default::default(),
        origin: None,
        spec: Tool::new(ToolEntry::Mcp(Box::new(server))),
    }
}

pub(crate) fn session(server: &Arc<MockServer>, folder: &Path, timeout: Duration) -> McpSession {
    let mocks = Arc::new(ServerStarter(Arc::clone(server))) as Arc<dyn ServerMocks>;
    let tools = McpTools::new(folder, Arc::new(NoProgramSpawner), Environment::default())
        .mocks(Some(mocks));
    let program = McpTransport::Program {
        command: "played".to_owned(),
        args: Vec::new(),
        env: Default::default(),
        cwd: None,
    };
    tools
        .session(&server_tool(program, timeout), folder)
        .unwrap()
}

/// Calls `add` with `n`. Returns the output as text, or the error code.
pub(crate) async fn call(session: &McpSession, n: usize) -> String {
    outcome(
        session
            .call("add", JsonObject::from_iter([("n".to_owned(), json!(n))]))
            .await,
    )
}

pub(crate) fn outcome(
    result: Result<goondan_core::ports::tool::ToolOutput, HandlerError>,
) -> String {
    match result {
        Ok(output) => output
            .output
            .as_str()
            .map_or_else(|| output.output.to_string(), str::to_owned),
        Err(error) => error.code.unwrap_or(error.message),
    }
}
