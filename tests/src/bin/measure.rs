//! Figures of a running swarm that cost minutes, not a benchmark run: `measure steps 5000`, `measure instances 10000`.
//!
//! `steps` runs one turn of that many tool steps and compares the time per step at its start and at its end. `instances`
//! makes that many instances with ten messages each, starts the swarm again on them, and tells memory and time.

#![allow(clippy::print_stdout, reason = "figures are a program's result")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use goondan::runtime::event::{RuntimeEventKind, SwarmEvent};
use goondan::spec::Environment;
use goondan::{Input, Swarm};

const BUNDLE: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: script
  options:
    rules:
      - when: {role: user, contains: steps}
        reply: {calls: [{id: c, tool: json-query__count, args: {data: "[1, 2]"}}]}
      - when: {role: tool}
        reply: {calls: [{id: c, tool: json-query__count, args: {data: "[1, 2]"}}]}
    default: {text: fine}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/json-query}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/a
  agents: [{ref: Agent/a}]
  policy: {maxStepsPerTurn: 1000000, maxInstances: 1000000}
"#;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, count] = arguments.as_slice() else { anyhow::bail!("usage: measure steps|instances COUNT") };
    let count: usize = count.parse().context("the count")?;
    let folder = tempfile::tempdir()?;
    match what.as_str() {
        "steps" => steps(folder.path(), count).await,
        "instances" => instances(folder.path(), count).await,
        other => Err(anyhow!("there is no scenario {other}")),
    }
}

async fn start(folder: &Path, bundle: String) -> anyhow::Result<Swarm> {
    let project = folder.join("project");
    std::fs::create_dir_all(&project)?;
    std::fs::write(project.join("goondan.yaml"), bundle)?;
    let loaded = goondan::load(&project);
    let bundle = loaded.bundle.ok_or_else(|| anyhow!("{:?}", loaded.diagnostics))?;
    let builder = Swarm::builder(Arc::clone(&bundle)).state_root(folder.join("state"));
    builder.environment(Environment::default()).start().await.map_err(|error| anyhow!("{error:?}"))
}

async fn steps(folder: &Path, count: usize) -> anyhow::Result<()> {
    let swarm = start(folder, BUNDLE.replace("maxStepsPerTurn: 1000000", &format!("maxStepsPerTurn: {count}"))).await?;
    let mut events = swarm.subscribe();
    let began = Instant::now();
    let turn = swarm.send(Input::text("steps")).await?;
    let mut ends = Vec::with_capacity(count);
    while ends.len() < count {
        let event = events.recv().await.context("the swarm ended")?;
        if matches!(&event, SwarmEvent::Runtime(event) if matches!(event.kind, RuntimeEventKind::StepCompleted { .. }))
        {
            ends.push(Instant::now());
        }
    }
    turn.result().await;
    let whole = began.elapsed();
    let per_step = |from: usize, to: usize| (ends[to - 1] - ends[from]) / u32::try_from(to - 1 - from).unwrap_or(1);
    let window = 500.min(count / 4);
    let (first, last) = (per_step(20, 20 + window), per_step(count - window, count));
    println!("{count} steps in {whole:?}; per step: first {window} {first:?}, last {window} {last:?}");
    println!("ratio {:.2}", last.as_secs_f64() / first.as_secs_f64());
    swarm.shutdown().await;
    Ok(())
}

async fn instances(folder: &Path, count: usize) -> anyhow::Result<()> {
    let swarm = start(folder, BUNDLE.to_owned()).await?;
    let before = resident();
    let began = Instant::now();
    for _ in 0..5 {
        // Five turns of two messages each; a few hundred inputs are under way at a time.
        for first in (0..count).step_by(256) {
            let batch = (first..count.min(first + 256)).map(|number| ask(&swarm, number));
            futures::future::try_join_all(batch).await?;
        }
    }
    println!("{count} instances with 10 messages each in {:?}", began.elapsed());
    report("idle, with the instances of this run", before, count);
    swarm.shutdown().await;
    drop(swarm);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (before, began) = (resident(), Instant::now());
    let swarm = start(folder, BUNDLE.to_owned()).await?;
    let known = swarm.instances().await.len();
    println!("started again in {:?} with {known} instances", began.elapsed());
    report("after the start", before, count);
    let began = Instant::now();
    ask(&swarm, count / 2).await?;
    println!("the first turn of a cold instance took {:?}", began.elapsed());
    Ok(())
}

async fn ask(swarm: &Swarm, number: usize) -> anyhow::Result<()> {
    let input = Input { instance_key: Some(format!("i{number}")), ..Input::text("hello") };
    swarm.send(input).await?.result().await.context("a result").map(drop)
}

fn report(what: &str, before: usize, count: usize) {
    let now = resident();
    let each = now.saturating_sub(before) / count.max(1);
    println!("{what}: {} KiB resident, {each} bytes more per instance", now / 1024);
}

/// Resident bytes of this process; 0 where the system does not tell.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}
