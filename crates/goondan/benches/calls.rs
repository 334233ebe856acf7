//! What one tool call costs: built in, from a library in this process, from one in a child process, and from a module in
//! JavaScript and in Python; with next to no arguments and with 10 KB of them. The handlers do next to nothing. It takes
//! `node` and `python3`.
//!
//! Each call takes the whole road of a model's call: name, arguments against the schema, permissions, time-out, limits and
//! events. `cargo bench -p goondan --bench calls`

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;

use criterion::{Criterion, criterion_group, criterion_main};
use goondan::ports::tool::ToolCallStatus;
use goondan::spec::Environment;
use goondan::{HostCommand, Swarm};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

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
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  permissions: {default: allow}
  tools: [{ref: Tool/text-transform}, {ref: Tool/here}, {ref: Tool/hosted}, {ref: Tool/javascript}, {ref: Tool/python}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: s}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

/// Builds with the profile of this program, and gives the one file that came of it.
fn build(arguments: &[&str]) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--message-format=json-render-diagnostics"]).args(arguments);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.stderr(std::process::Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{arguments:?} is not built");
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut artifacts = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = artifacts.rfind(|message| message["reason"] == "compiler-artifact").unwrap();
    PathBuf::from(last["filenames"][0].as_str().unwrap())
}

fn start(runtime: &Runtime, folder: &Path) -> Swarm {
    let project = folder.join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("goondan.yaml"), PROJECT).unwrap();
    std::fs::write(project.join("tool.mjs"), "export const handlers = { current: () => 1 };\n").unwrap();
    std::fs::write(project.join("tool.py"), "handlers = {\"current\": lambda ctx, input: 1}\n").unwrap();
    let library = build(&["-p", "counter"]);
    std::fs::copy(&library, project.join(library.file_name().unwrap())).unwrap();
    let program = build(&["-p", "goondan-dylib", "--example", "tool-host"]);
    let loaded = goondan::load(&project);
    let bundle = loaded.bundle.unwrap_or_else(|| panic!("{:#?}", loaded.diagnostics));
    let builder = Swarm::builder(bundle).environment(Environment::default()).state_root(folder.join("state"));
    let builder = builder.tool_host(HostCommand { program, args: Vec::new() });
    runtime.block_on(builder.start()).unwrap()
}

fn calls(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let swarm = start(&runtime, folder.path());
    let large = "x".repeat(10 * 1024);
    let mut group = criterion.benchmark_group("call");
    let places = [
        ("built-in", "text-transform__slice"),
        ("library", "here__current"),
        ("child-process", "hosted__current"),
        ("javascript", "javascript__current"),
        ("python", "python__current"),
    ];
    for (place, tool) in places {
        for (size, text) in [("small", "x"), ("10-kb", large.as_str())] {
            // `current` does not know these; it ignores them.
            let arguments = json!({ "text": text, "start": 0, "end": 0 });
            group.bench_function(format!("{place}/{size}"), |bencher| {
                bencher.iter(|| {
                    let result = runtime.block_on(swarm.call_tool(None, None, tool, arguments.clone())).unwrap();
                    assert_eq!(result.status, ToolCallStatus::Ok, "{:?}", result.error);
                });
            });
        }
    }
    group.finish();
    runtime.block_on(swarm.shutdown());
}

criterion_group!(benches, calls);
criterion_main!(benches);
