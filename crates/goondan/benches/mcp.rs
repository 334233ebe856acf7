//! What MCP servers cost: a call to a program over the raw round trip to it, a start with ten servers over one with none, and a
//! step with 500 tools that are deferred over one with five.
//!
//! `cargo bench -p goondan --bench mcp`

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may panic")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use criterion::{Criterion, criterion_group, criterion_main};
use goondan::mcp::{ProgramStreams, ServerMocks};
use goondan::ports::tool::{HandlerError, ToolCallStatus};
use goondan::spec::Environment;
use goondan::{Input, Swarm};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

/// Builds the example server with the profile of this program.
fn server() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "--message-format=json-render-diagnostics",
        "-p",
        "notes-server",
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.stderr(Stdio::inherit()).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut artifacts = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = artifacts.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.expect("the server is built")
}

/// A project with these servers, each a `spec.mcp`.
fn project(folder: &Path, servers: &[String]) {
    let mut text = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\n\
                    spec: {provider: scripted, model: any, options: {default: {calls: [{tool: text-transform__slice, \
                    args: {text: hi, start: 0, end: 1}}]}}}\n"
        .to_owned();
    let mut uses: Vec<String> = (0..servers.len())
        .map(|number| format!("{{ref: Tool/t{number}}}"))
        .collect();
    uses.push("{ref: Tool/text-transform}".to_owned());
    for (number, server) in servers.iter().enumerate() {
        text.push_str(&format!(
            "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t{number}}}\nspec: {{mcp: {server}}}\n"
        ));
    }
    text.push_str(&format!(
        "---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: a}}\nspec: {{modelConfig: {{modelRef: Model/m}}, \
         permissions: {{default: allow}}, tools: [{}]}}\n---\napiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: s}}\n\
         spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}], policy: {{maxStepsPerTurn: 20, repetition: {{limit: 0}}}}}}\n",
        uses.join(", ")
    ));
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("goondan.yaml"), text).unwrap();
}

async fn start(folder: &Path, mocks: Option<Arc<dyn ServerMocks>>) -> Swarm {
    let bundle = goondan::load(folder).bundle.unwrap();
    let mut builder = Swarm::builder(bundle)
        .state_root(folder.join("state"))
        .environment(Environment::default());
    if let Some(mocks) = mocks {
        builder = builder.mcp_mocks(mocks);
    }
    builder
        .start()
        .await
        .map_err(|error| error.to_string())
        .unwrap()
}

fn round_trip(stdin: &mut ChildStdin, stdout: &mut BufReader<ChildStdout>, message: &Value) {
    writeln!(stdin, "{message}").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
}

fn calls(criterion: &mut Criterion) {
    let (program, folder, runtime) = (
        server(),
        tempfile::tempdir().unwrap(),
        Runtime::new().unwrap(),
    );
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (
        child.stdin.take().unwrap(),
        BufReader::new(child.stdout.take().unwrap()),
    );
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list", "arguments": {}}});
    let mut group = criterion.benchmark_group("mcp call");
    group.bench_function("raw round trip", |bench| {
        bench.iter(|| round_trip(&mut stdin, &mut stdout, &call))
    });
    project(
        folder.path(),
        &[format!("{{command: '{}'}}", program.display())],
    );
    let swarm = runtime.block_on(start(folder.path(), None));
    group.bench_function("through a swarm", |bench| {
        bench.iter(|| {
            let result = runtime
                .block_on(swarm.call_tool(None, None, "t0__list", json!({})))
                .unwrap();
            assert_eq!(result.status, ToolCallStatus::Ok);
        });
    });
    group.finish();
    drop(stdin);
    child.wait().unwrap();
    runtime.block_on(swarm.shutdown());
}

fn starts(criterion: &mut Criterion) {
    let (program, runtime) = (server(), Runtime::new().unwrap());
    let mut group = criterion.benchmark_group("mcp start");
    group.sample_size(10);
    let one = format!("{{command: '{}'}}", program.display());
    let mut ten = vec![one; 9];
    ten.push("{command: sleep, args: [600]}".to_owned());
    for (name, servers) in [
        ("without servers", Vec::new()),
        ("ten servers, one of which hangs", ten),
    ] {
        let folder = tempfile::tempdir().unwrap();
        project(folder.path(), &servers);
        // Here they are met for the first time.
        runtime.block_on(async { start(folder.path(), None).await.shutdown().await });
        std::thread::sleep(Duration::from_millis(50));
        group.bench_function(name, |bench| {
            bench.iter_custom(|times| {
                let mut took = Duration::ZERO;
                for _ in 0..times {
                    let begun = Instant::now();
                    let swarm = runtime.block_on(start(folder.path(), None));
                    took += begun.elapsed();
                    runtime.block_on(swarm.shutdown());
                    drop(swarm);
                    // The workspace is free once the last task of it has ended.
                    std::thread::sleep(Duration::from_millis(50));
                }
                took
            });
        });
    }
    group.finish();
}

/// A server with so many tools.
struct Many(usize);

#[async_trait]
impl ServerMocks for Many {
    async fn mock(&self, _tool: &str) -> Option<Result<ProgramStreams, HandlerError>> {
        let (near, far) = tokio::io::duplex(1 << 16);
        let count = self.0;
        tokio::spawn(async move {
            let (input, mut output) = tokio::io::split(far);
            let mut lines = tokio::io::BufReader::new(input).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let Some(id) = message.get("id") else {
                    continue;
                };
                let answer = match message["method"].as_str().unwrap() {
                    "initialize" => json!({"id": id, "jsonrpc": "2.0", "result": {
                        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "many", "version": "1"},
                    }}),
                    "tools/list" => {
                        json!({"id": id, "jsonrpc": "2.0", "result": {"tools": tools(count)}})
                    }
                    _ => {
                        json!({"id": id, "jsonrpc": "2.0", "error": {"code": -32601, "message": "no"}})
                    }
                };
                output
                    .write_all(format!("{answer}\n").as_bytes())
                    .await
                    .unwrap();
            }
        });
        let (input, output) = tokio::io::split(near);
        Some(Ok(ProgramStreams {
            input: Box::new(input),
            output: Box::new(output),
            errors: None,
            program: None,
        }))
    }
}

fn tools(count: usize) -> Vec<Value> {
    let tool = |number| {
        json!({
            "name": format!("tool_{number}"),
            "description": "Does something to a record that somebody has written down somewhere, and says what came of it.",
            "inputSchema": {"type": "object", "properties": {
                "record": {"type": "string", "description": "Which record it is done to."},
                "how": {"type": "string", "enum": ["gently", "thoroughly"], "description": "How it is done."},
            }, "required": ["record"]},
        })
    };
    (0..count).map(tool).collect()
}

fn steps(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("mcp turn of 20 steps");
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500));
    // Both stay to the end: a file system takes longer to make files where many were removed a moment ago.
    let swarms = [5, 500].map(|count| {
        let folder = tempfile::tempdir().unwrap();
        project(folder.path(), &["{command: played}".to_owned()]);
        let swarm = runtime.block_on(start(folder.path(), Some(Arc::new(Many(count)))));
        (count, folder, swarm)
    });
    for (count, _, swarm) in &swarms {
        let mut number = 0;
        group.bench_function(format!("{count} tools"), |bench| {
            bench.iter(|| {
                number += 1;
                let input = Input {
                    instance_key: Some(format!("k{number}")),
                    ..Input::text("hi")
                };
                runtime.block_on(async { swarm.send(input).await.unwrap().result().await.unwrap() })
            });
        });
    }
    for (_, _, swarm) in &swarms {
        runtime.block_on(swarm.shutdown());
    }
    group.finish();
}

criterion_group!(benches, calls, starts, steps);
criterion_main!(benches);
