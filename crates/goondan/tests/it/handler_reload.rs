//! Runtime processes of handler files after a file change. These tests are skipped without Node.js.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goondan::Swarm;
use serde_json::{Value, json};

const BUNDLE: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {script: script.yaml}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: t}
spec:
  entry: ./tool.mjs
  exports:
    - {name: version, description: Tells its version., parameters: {type: object}}
    - {name: process, description: Tells its process., parameters: {type: object}}
    - {name: hold, description: Waits., parameters: {type: object}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, permissions: {default: allow}, workdir: project, tools: [{ref: Tool/t}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

/// The export `hold` writes to the pipe `begun` and then waits for data on the pipe `go`.
const TOOL: &str = "
import fs from 'node:fs/promises';
import { version } from './version.mjs';
export const handlers = {
  version: () => version,
  process: () => process.pid,
  async hold(ctx) {
    await fs.writeFile(ctx.projectDir + '/begun', 'x');
    await fs.readFile(ctx.projectDir + '/go');
    return version;
  },
};
";

#[allow(clippy::print_stderr, reason = "shows why a test is skipped")]
fn has_node() -> bool {
    let is_installed = Command::new("node").arg("--version").output().is_ok();
    if !is_installed {
        eprintln!("skipped: there is no node");
    }
    is_installed
}

struct Project {
    _folder: tempfile::TempDir,
    root: PathBuf,
    swarm: Swarm,
}

impl Project {
    async fn start() -> Project {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        std::fs::create_dir(&root).unwrap();
        for (file, text) in [
            ("goondan.yaml", BUNDLE),
            ("tool.mjs", TOOL),
            ("script.yaml", "default: {text: hi}\n"),
        ] {
            std::fs::write(root.join(file), text).unwrap();
        }
        write_version(&root, 1);
        for pipe in ["begun", "go"] {
            assert!(
                Command::new("mkfifo")
                    .arg(root.join(pipe))
                    .status()
                    .unwrap()
                    .success()
            );
        }
        let bundle = goondan::load(&root).bundle.unwrap();
        let swarm = Swarm::builder(bundle)
            .state_root(folder.path().join("state"))
            .start()
            .await
            .unwrap();
        Project {
            _folder: folder,
            root,
            swarm,
        }
    }

    async fn call(&self, export: &str) -> Value {
        call(&self.swarm, export).await
    }
}

fn write_version(root: &Path, version: u64) {
    std::fs::write(
        root.join("version.mjs"),
        format!("export const version = {version};\n"),
    )
    .unwrap();
}

async fn call(swarm: &Swarm, export: &str) -> Value {
    let name = format!("t__{export}");
    let result = swarm.call_tool(None, None, &name, json!({})).await.unwrap();
    result
        .output
        .unwrap_or_else(|| panic!("{export}: {:?}", result.error))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_call_finishes_in_the_process_that_started_it() {
    if !has_node() {
        return;
    }
    let project = Project::start().await;
    let pending_call = tokio::spawn({
        let swarm = project.swarm.clone();
        async move { call(&swarm, "hold").await }
    });
    let begun_pipe = project.root.join("begun");
    tokio::task::spawn_blocking(move || std::fs::read(begun_pipe).unwrap())
        .await
        .unwrap();
    let old = project.call("process").await;
    write_version(&project.root, 2);
    project.swarm.reload().await.result.unwrap();
    assert_eq!(project.call("version").await, 2);
    assert_ne!(project.call("process").await, old);
    let go_pipe = project.root.join("go");
    tokio::task::spawn_blocking(move || std::fs::write(go_pipe, "x").unwrap())
        .await
        .unwrap();
    assert_eq!(pending_call.await.unwrap(), 1);
    project.swarm.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_without_handler_changes_keeps_the_process() {
    if !has_node() {
        return;
    }
    let project = Project::start().await;
    let process = project.call("process").await;
    std::fs::write(
        project.root.join("goondan.yaml"),
        BUNDLE.replace("Tells its version", "Says its version"),
    )
    .unwrap();
    assert_eq!(project.swarm.reload().await.result.unwrap(), 2);
    assert_eq!(project.call("process").await, process);
    project.swarm.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_calls_succeed_while_the_handler_file_changes() {
    if !has_node() {
        return;
    }
    let project = Project::start().await;
    // A process reads its files at the first call. It must not read files of a later version.
    assert_eq!(project.call("version").await, 1);
    let is_finished = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (swarm, is_finished) = (project.swarm.clone(), Arc::clone(&is_finished));
            tokio::spawn(async move {
                let (mut last, mut calls) = (0, 0_u32);
                while !is_finished.load(Ordering::Relaxed) {
                    let version = call(&swarm, "version").await.as_u64().unwrap();
                    assert!(version >= last, "version {version} after version {last}");
                    (last, calls) = (version, calls + 1);
                }
                calls
            })
        })
        .collect();
    for version in 2..=8 {
        write_version(&project.root, version);
        project.swarm.reload().await.result.unwrap();
        assert_eq!(project.call("version").await, version);
    }
    is_finished.store(true, Ordering::Relaxed);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
    project.swarm.shutdown().await;
}
