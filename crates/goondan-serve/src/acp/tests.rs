//! An editor whose session manager misses events.

use std::path::Path;

use goondan::gateway::SwarmGateway;
use goondan::spec::Environment;
use goondan::{ApprovalBroker, Swarm};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, ReadHalf, WriteHalf};

use super::*;

/// Number of text deltas; exceeds the gateway buffer of the test.
const PIECES: usize = 400;

fn project(text: &str) -> String {
    format!(
        "
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec: {{provider: scripted, model: any, options: {{default: {{text: {text}, chunks: {PIECES}}}}}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: a}}
spec: {{modelConfig: {{modelRef: Model/m}}}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: default}}
spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}]}}
"
    )
}

/// Starts a swarm whose gateway buffers one event.
async fn start_service(text: &str, directory: &Path) -> (Service, crate::ServiceGuard) {
    std::fs::write(directory.join("goondan.yaml"), project(text)).unwrap();
    let builder = Swarm::builder(goondan::load(directory).bundle.unwrap())
        .state_root(directory)
        .environment(Environment::default());
    let (swarm, broker) = (builder.start().await.unwrap(), ApprovalBroker::default());
    Service::begin_with(swarm, broker, String::new(), |swarm, broker| {
        SwarmGateway::with_buffer(swarm, broker, 1)
    })
}

/// An ACP client that is connected by an in-memory pipe.
struct TestEditor {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    /// Id and text of the latest message.
    message: (Value, String),
    /// Number of received text deltas.
    pieces: usize,
}

impl TestEditor {
    /// Sends a request, reads up to its response, and returns the result.
    async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let line = format!("{line}\n");
        self.write.write_all(line.as_bytes()).await.unwrap();
        loop {
            let line = self.lines.next_line().await.unwrap().unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            let update = &line["params"]["update"];
            if update["sessionUpdate"] == "agent_message_chunk" {
                if update["messageId"] != self.message.0 {
                    self.message = (update["messageId"].clone(), String::new());
                }
                let piece = update["content"]["text"].as_str().unwrap();
                self.message.1.push_str(piece);
                self.pieces += 1;
            }
            if line["id"] == id {
                return line["result"].clone();
            }
        }
    }
}

#[tokio::test]
async fn a_lagging_editor_receives_the_whole_answer() {
    let answer = "abcdefghij".repeat(PIECES / 10);
    let directory = tempfile::tempdir().unwrap();
    let (service, _guard) = start_service(&answer, directory.path()).await;
    let (editor, agent) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(agent);
    let (read, write) = tokio::io::split(editor);
    let mut editor = TestEditor {
        lines: BufReader::new(read).lines(),
        write,
        message: (Value::Null, String::new()),
        pieces: 0,
    };
    let session_test = async {
        let version = json!({"protocolVersion": 1});
        editor.request(0, "initialize", version).await;
        let session = json!({"cwd": directory.path(), "mcpServers": []});
        let session = editor.request(1, "session/new", session).await;
        let text = json!([{"type": "text", "text": "go"}]);
        let prompt = json!({"sessionId": session["sessionId"], "prompt": text});
        let ended = editor.request(2, "session/prompt", prompt).await;
        assert_eq!(ended["stopReason"], "end_turn");
        assert_eq!(editor.message.1, answer);
        let pieces = editor.pieces;
        assert!(pieces < PIECES, "no event was missed: {pieces} deltas");
    };
    tokio::select! {
        ended = serve(&service, None, input, output) => panic!("the server ended early: {ended:?}"),
        () = session_test => {}
        () = tokio::time::sleep(std::time::Duration::from_secs(60)) => panic!("the test timed out"),
    }
}
