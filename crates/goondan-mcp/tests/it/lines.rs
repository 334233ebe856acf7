//! A line-based mock server in this process, controlled by a script.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use goondan_core::JsonObject;
use goondan_core::ports::tool::HandlerError;
use goondan_mcp::{
    McpServerProgram, McpSession, McpTools, ProgramStreams, RunningProgram, ServerSpawner, StandIns,
};
use goondan_spec::kinds::{ElicitationMode, McpOauth, McpServer, McpTransport, Tool, ToolEntry};
use goondan_spec::value::Environment;
use goondan_spec::{Kind, Resource, ResourceId};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::Semaphore;

/// A longer wait counts as a hanging call.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

/// A message that a server receives.
pub(crate) struct ReceivedRequest<'m> {
    /// Number of earlier starts of the server.
    pub(crate) start: usize,
    /// Messages received before in this connection.
    pub(crate) past: &'m [Value],
    pub(crate) message: &'m Value,
}

/// An action of a server.
pub(crate) enum Does {
    Says(Value),
    Prints(String),
    Ends,
}

/// Returns the server's actions for a message; `None` for the correct behavior.
pub(crate) type Script = fn(&ReceivedRequest<'_>) -> Option<Vec<Does>>;

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

    pub(crate) fn answer(&self, result: Value) -> Does {
        Does::Says(json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}))
    }

    pub(crate) fn text(&self, text: &str) -> Does {
        self.answer(json!({"content": [{"type": "text", "text": text}]}))
    }

    /// Returns the correct answer to a call, which repeats its argument.
    pub(crate) fn echo(&self) -> Does {
        self.text(&self.message["params"]["arguments"]["n"].to_string())
    }

    pub(crate) fn refuse(&self, code: i64, message: &str) -> Does {
        Does::Says(
            json!({"jsonrpc": "2.0", "id": self.message["id"], "error": {"code": code, "message": message}}),
        )
    }

    fn right(&self) -> Vec<Does> {
        let Some(method) = self.message["method"]
            .as_str()
            .filter(|_| self.message.get("id").is_some())
        else {
            return Vec::new();
        };
        vec![match method {
            "initialize" => self.answer(hello("2025-11-25")),
            "tools/list" => self.answer(json!({"tools": [tool("add")]})),
            "tools/call" => self.echo(),
            "ping" => self.answer(json!({})),
            _ => self.refuse(-32601, "no such method"),
        }]
    }
}

pub(crate) fn hello(revision: &str) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "played", "version": "1"},
    })
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does something.", "inputSchema": {"type": "object"}})
}

pub(crate) struct Played {
    script: Script,
    starts: AtomicUsize,
    heard: Mutex<Vec<Value>>,
    /// Gets a permit for each ended connection.
    pub(crate) ended: Arc<Semaphore>,
    /// Number of bytes that the server writes to standard error.
    complaints: u64,
}

impl Played {
    pub(crate) fn new(script: Script, complaints: u64) -> Arc<Self> {
        let ended = Arc::new(Semaphore::new(0));
        Arc::new(Played {
            script,
            starts: AtomicUsize::new(0),
            heard: Mutex::default(),
            ended,
            complaints,
        })
    }

    /// Returns the total number of messages with this method.
    pub(crate) fn heard(&self, method: &str) -> usize {
        self.heard
            .lock()
            .unwrap()
            .iter()
            .filter(|message| message["method"] == method)
            .count()
    }

    async fn play(self: Arc<Self>, stream: tokio::io::DuplexStream, start: usize) {
        let (input, mut output) = tokio::io::split(stream);
        let (mut lines, mut past) = (BufReader::new(input).lines(), Vec::new());
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            self.heard.lock().unwrap().push(message.clone());
            let heard = ReceivedRequest {
                start,
                past: &past,
                message: &message,
            };
            for does in (self.script)(&heard).unwrap_or_else(|| heard.right()) {
                let text = match does {
                    Does::Says(message) => format!("{message}\n"),
                    Does::Prints(text) => text,
                    Does::Ends => return,
                };
                // The client may already be gone.
                let _ = output.write_all(text.as_bytes()).await;
            }
            past.push(message);
        }
    }
}

/// Starts the server any number of times.
struct Starts(Arc<Played>);

impl Starts {
    fn streams(&self) -> ProgramStreams {
        let Starts(server) = self;
        let (near, far) = tokio::io::duplex(1 << 16);
        let start = server.starts.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(Arc::clone(server).play(far, start));
        let (input, output) = tokio::io::split(near);
        let errors = (server.complaints > 0)
            .then(|| Box::new(tokio::io::repeat(b'!').take(server.complaints)) as _);
        let program = Some(Box::new(End(Arc::clone(&server.ended))) as _);
        ProgramStreams {
            input: Box::new(input),
            output: Box::new(output),
            errors,
            program,
        }
    }
}

#[async_trait]
impl StandIns for Starts {
    async fn stand_in(&self, _tool: &str) -> Option<Result<ProgramStreams, HandlerError>> {
        Some(Ok(self.streams()))
    }
}

/// A dialer that starts the server, and records the number of sandboxes of each start.
pub(crate) struct RecordingDialer {
    server: Starts,
    pub(crate) sandboxes: Mutex<Vec<usize>>,
}

impl RecordingDialer {
    pub(crate) fn new(server: &Arc<Played>) -> Arc<Self> {
        Arc::new(RecordingDialer {
            server: Starts(Arc::clone(server)),
            sandboxes: Mutex::default(),
        })
    }
}

#[async_trait]
impl ServerSpawner for RecordingDialer {
    async fn start(&self, program: &McpServerProgram) -> Result<ProgramStreams, HandlerError> {
        self.sandboxes.lock().unwrap().push(program.sandboxes.len());
        Ok(self.server.streams())
    }
}

struct End(Arc<Semaphore>);

#[async_trait]
impl RunningProgram for End {
    async fn end(&mut self) -> String {
        self.0.add_permits(1);
        "exit status 3".to_owned()
    }
}

/// A dialer that starts no programs.
pub(crate) struct Nobody;

#[async_trait]
impl ServerSpawner for Nobody {
    async fn start(&self, _program: &McpServerProgram) -> Result<ProgramStreams, HandlerError> {
        Err(HandlerError::new("no program is started here"))
    }
}

/// Returns the definition of a server with this transport.
pub(crate) fn defined(transport: McpTransport, patience: Duration) -> Resource<Tool> {
    let server = McpServer {
        transport,
        protocol: None,
        connect_timeout: patience,
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

pub(crate) fn session(server: &Arc<Played>, folder: &Path, patience: Duration) -> McpSession {
    let stand_ins = Arc::new(Starts(Arc::clone(server))) as Arc<dyn StandIns>;
    let tools =
        McpTools::new(folder, Arc::new(Nobody), Environment::default()).stand_ins(Some(stand_ins));
    let program = McpTransport::Program {
        command: "played".to_owned(),
        args: Vec::new(),
        env: Default::default(),
        cwd: None,
    };
    tools.session(&defined(program, patience), folder).unwrap()
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
