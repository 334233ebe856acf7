//! What becomes of the host of a module when its file changes. These tests need Node.js, and say so where it is missing.

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

/// `hold` says that it has begun on one pipe, and goes on when something comes from another.
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

#[allow(clippy::print_stderr, reason = "it says why a test is skipped")]
fn has_node() -> bool {
    let is_there = Command::new("node").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: there is no node");
    }
    is_there
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
        lay_out(&root, 1);
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

fn lay_out(root: &Path, version: u64) {
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
async fn a_call_ends_in_the_process_in_which_it_began() {
    if !has_node() {
        return;
    }
    let project = Project::start().await;
    let held = tokio::spawn({
        let swarm = project.swarm.clone();
        async move { call(&swarm, "hold").await }
    });
    let begun = project.root.join("begun");
    tokio::task::spawn_blocking(move || std::fs::read(begun).unwrap())
        .await
        .unwrap();
    let old = project.call("process").await;
    lay_out(&project.root, 2);
    project.swarm.reload().await.result.unwrap();
    assert_eq!(project.call("version").await, 2);
    assert_ne!(project.call("process").await, old);
    let go = project.root.join("go");
    tokio::task::spawn_blocking(move || std::fs::write(go, "x").unwrap())
        .await
        .unwrap();
    assert_eq!(held.await.unwrap(), 1);
    project.swarm.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_changes_no_file_keeps_the_process() {
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
async fn no_call_fails_while_the_file_changes() {
    if !has_node() {
        return;
    }
    let project = Project::start().await;
    // A process reads its files at the first call. It must not read those of a later version.
    assert_eq!(project.call("version").await, 1);
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (swarm, is_over) = (project.swarm.clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                let (mut last, mut calls) = (0, 0_u32);
                while !is_over.load(Ordering::Relaxed) {
                    let version = call(&swarm, "version").await.as_u64().unwrap();
                    assert!(version >= last, "{version} came after {last}");
                    (last, calls) = (version, calls + 1);
                }
                calls
            })
        })
        .collect();
    for version in 2..=8 {
        lay_out(&project.root, version);
        project.swarm.reload().await.result.unwrap();
        assert_eq!(project.call("version").await, version);
    }
    is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
    project.swarm.shutdown().await;
}
