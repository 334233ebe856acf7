//! What one tool call costs: built in, from a library in this process, from one in a child process, and from a module in
//! JavaScript and in Python; with next to no arguments and with 10 KB of them. The handlers do next to nothing. Beside that, what
//! a line to a process of the same runtime and back costs with nothing around it (`pipe`), and a turn without a layer and with one
//! around its step (`turn`). It takes `node` and `python3`, and measures Bun where it is there.
//!
//! Each call takes the whole road of a model's call: name, arguments against the schema, permissions, time-out, limits and
//! events. `cargo bench -p goondan --bench calls`

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use goondan::ports::tool::ToolCallStatus;
use goondan::spec::Environment;
use goondan::{HostCommand, Input, Swarm};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

const PROJECT: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {default: {text: hi}}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: here}
spec: {entry: ./counter}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: hosted}
spec: {entry: ./counter, isolation: process}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: javascript}
spec: {entry: ./tool.mjs, exports: [{name: current, description: One., parameters: {type: object}}]}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: python}
spec: {entry: ./tool.py, exports: [{name: current, description: One., parameters: {type: object}}]}
---
apiVersion: goondan.ai/v1
kind: Extension
metadata: {name: javascript}
spec: {entry: ./extension.mjs}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: plain}
spec: {modelConfig: {modelRef: Model/m}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: layered}
spec: {modelConfig: {modelRef: Model/m}, extensions: [{ref: Extension/javascript}]}
BUN---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  permissions: {default: allow}
  tools: [{ref: Tool/text-transform}, {ref: Tool/here}, {ref: Tool/hosted}, {ref: Tool/javascript}, {ref: Tool/python}, BUN_TOOL]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: s}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}, {ref: Agent/plain}, {ref: Agent/layered}, BUN_AGENT]}
";

/// The tool and the layer that Bun runs.
const BUN: &str = "---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: bun}
spec: {entry: ./tool.mjs, runtime: bun, exports: [{name: current, description: One., parameters: {type: object}}]}
---
apiVersion: goondan.ai/v1
kind: Extension
metadata: {name: bun}
spec: {entry: ./extension.mjs, runtime: bun}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: layered-bun}
spec: {modelConfig: {modelRef: Model/m}, extensions: [{ref: Extension/bun}]}
";

/// A layer that does nothing.
const LAYER: &str =
    "export function register(api) {\n  api.pipeline.register('step', (ctx) => ctx.next());\n}\n";

/// Sends each line back, read and written as the program in a host does.
const ECHO: &str = "
import fs from 'node:fs';
import net from 'node:net';
const down = process.versions.bun ? fs.createReadStream('', { fd: 0 }) : new net.Socket({ fd: 0, readable: true, writable: false });
down.on('data', (chunk) => fs.writeSync(1, chunk));
";

fn has_bun() -> bool {
    Command::new("bun").arg("--version").output().is_ok()
}

/// Builds with the profile of this program, and gives the one file that came of it.
fn build(arguments: &[&str]) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "build",
            "--quiet",
            "--message-format=json-render-diagnostics",
        ])
        .args(arguments);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?} is not built");
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut artifacts = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = artifacts
        .rfind(|message| message["reason"] == "compiler-artifact")
        .unwrap();
    PathBuf::from(last["filenames"][0].as_str().unwrap())
}

fn start(runtime: &Runtime, folder: &Path) -> Swarm {
    let project = folder.join("project");
    std::fs::create_dir(&project).unwrap();
    let (bun, tool, agent) = match has_bun() {
        true => (BUN, "{ref: Tool/bun}", "{ref: Agent/layered-bun}"),
        false => ("", "", ""),
    };
    let manifest = PROJECT
        .replace("BUN_TOOL", tool)
        .replace("BUN_AGENT", agent)
        .replace("BUN", bun);
    std::fs::write(project.join("goondan.yaml"), manifest).unwrap();
    std::fs::write(project.join("extension.mjs"), LAYER).unwrap();
    std::fs::write(project.join("echo.mjs"), ECHO).unwrap();
    std::fs::write(
        project.join("tool.mjs"),
        "export const handlers = { current: () => 1 };\n",
    )
    .unwrap();
    std::fs::write(
        project.join("tool.py"),
        "handlers = {\"current\": lambda ctx, input: 1}\n",
    )
    .unwrap();
    let library = build(&["-p", "counter"]);
    std::fs::copy(&library, project.join(library.file_name().unwrap())).unwrap();
    let program = build(&["-p", "goondan-dylib", "--example", "tool-host"]);
    let loaded = goondan::load(&project);
    let bundle = loaded
        .bundle
        .unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
    let builder = Swarm::builder(bundle)
        .environment(Environment::default())
        .state_root(folder.join("state"));
    let builder = builder.tool_host(HostCommand {
        program,
        args: Vec::new(),
    });
    runtime.block_on(builder.start()).unwrap()
}

/// The time that something takes so often in a task of the runtime, as turns run.
fn timed<F>(runtime: &Runtime, times: u64, what: impl Fn() -> F + Send + 'static) -> Duration
where
    F: Future<Output = ()> + Send,
{
    let task = runtime.spawn(async move {
        let began = Instant::now();
        for _ in 0..times {
            what().await;
        }
        began.elapsed()
    });
    runtime.block_on(task).unwrap()
}

fn calls(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let swarm = start(&runtime, folder.path());
    let large = "x".repeat(10 * 1024);
    let mut group = criterion.benchmark_group("call");
    let mut places = vec![
        ("built-in", "text-transform__slice"),
        ("library", "here__current"),
        ("child-process", "hosted__current"),
        ("javascript", "javascript__current"),
        ("python", "python__current"),
    ];
    places.extend(has_bun().then_some(("bun", "bun__current")));
    for (place, tool) in places {
        for (size, text) in [("small", "x"), ("10-kb", large.as_str())] {
            // `current` does not know these; it ignores them.
            let arguments = json!({ "text": text, "start": 0, "end": 0 });
            group.bench_function(format!("{place}/{size}"), |bencher| {
                bencher.iter_custom(|times| {
                    let (swarm, arguments) = (swarm.clone(), arguments.clone());
                    timed(&runtime, times, move || {
                        let (swarm, arguments) = (swarm.clone(), arguments.clone());
                        async move {
                            let result =
                                swarm.call_tool(None, None, tool, arguments).await.unwrap();
                            assert_eq!(result.status, ToolCallStatus::Ok, "{:?}", result.error);
                        }
                    })
                });
            });
        }
    }
    group.finish();
    turns(criterion, &runtime, &swarm);
    pipes(criterion, &runtime, &folder.path().join("project/echo.mjs"));
    runtime.block_on(swarm.shutdown());
}

/// A turn of one step, without a layer and with one: a call of the layer, in which it asks for the step, is twice to a process and back.
fn turns(criterion: &mut Criterion, runtime: &Runtime, swarm: &Swarm) {
    let mut group = criterion.benchmark_group("turn");
    let agents = ["plain", "layered"]
        .into_iter()
        .chain(has_bun().then_some("layered-bun"));
    for agent in agents {
        let mut count = 0_u32;
        let mut turn = async || {
            // Of many conversations, so that none grows long, and of no more than stay in memory.
            count += 1;
            let instance_key = Some(format!("k{}", count % 1000));
            let input = Input {
                agent: Some(agent.to_owned()),
                instance_key,
                ..Input::text("hello")
            };
            let result = swarm.send(input).await.unwrap().result().await.unwrap();
            assert!(result.error.is_none(), "{:?}", result.error);
        };
        group.bench_function(agent, |bencher| bencher.iter(|| runtime.block_on(turn())));
    }
    group.finish();
}

/// A line to a process and back.
fn pipes(criterion: &mut Criterion, runtime: &Runtime, echo: &Path) {
    let mut group = criterion.benchmark_group("pipe");
    for program in ["node", "bun"]
        .into_iter()
        .filter(|program| *program == "node" || has_bun())
    {
        let mut command = tokio::process::Command::new(program);
        command
            .arg(echo)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = runtime.block_on(async { command.spawn().unwrap() });
        let streams = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        let process = Arc::new(Mutex::new(streams));
        for (size, length) in [("small", 700), ("10-kb", 10 * 1024 + 700)] {
            // As long as the line of such a call.
            let line = format!("{}\n", "x".repeat(length));
            group.bench_function(format!("{program}/{size}"), |bencher| {
                bencher.iter_custom(|times| {
                    let (process, line) = (Arc::clone(&process), line.clone());
                    timed(runtime, times, move || {
                        let (process, line) = (Arc::clone(&process), line.clone());
                        async move {
                            let (down, up) = &mut *process.lock().await;
                            let mut back = String::new();
                            down.write_all(line.as_bytes()).await.unwrap();
                            up.read_line(&mut back).await.unwrap();
                            assert_eq!(back.len(), line.len());
                        }
                    })
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
