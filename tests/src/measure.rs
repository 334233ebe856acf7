//! Figures of a running swarm that cost minutes, not a benchmark run: `trials measure steps 5000`, `trials measure instances
//! 10000`.
//!
//! `steps` runs one turn of that many tool steps and compares the time per step at its start and at its end, for an agent
//! without extensions and for one with all of them; `turns` does the same with turns of one step. `instances` makes that many
//! instances with ten messages each, starts the swarm again on them, and tells memory and time. The model answers at once,
//! and looks at nothing but the last message: what is measured is the engine. `reload` edits a prompt of a watched project
//! with three resources, and of one with that many more, and tells how long the parts of a reload take.

#![allow(clippy::print_stdout, reason = "figures are a program's result")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use async_trait::async_trait;
use futures::StreamExt;
use goondan::event::{RuntimeEventKind, SwarmEvent};
use goondan::message::{MessagePart, MessageRole, ToolCall};
use goondan::ports::model::{
    ModelChunk, ModelClient, ModelError, ModelFactory, ModelRequest, ModelStream,
};
use goondan::spec::kinds::Model;
use goondan::spec::{Environment, Resource};
use goondan::{Input, Swarm};
use serde_json::json;

const BUNDLE: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: script}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  tools: [{ref: Tool/json-query}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/a
  agents: [{ref: Agent/a}]
  policy: {maxStepsPerTurn: 1000000, repetition: {limit: 0}, maxInstances: 1000000}
"#;

/// Those that look at each step or turn. What shortens conversations is left out: here they shall grow.
const EXTENSIONS: &str = "  extensions:
    - {ref: Extension/logging}
    - {ref: Extension/tool-search}
    - {ref: Extension/required-tools-guard}
    - {ref: Extension/context-message}
    - {ref: Extension/inter-agent-response-format}
";

/// Answers at once, whatever was said before: with a call while an input says `steps`, else with text.
struct ConstantModel;

impl ModelFactory for ConstantModel {
    fn client(
        &self,
        _: &Resource<Model>,
        _: &Path,
        _: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        Ok(Arc::new(ConstantModel))
    }
}

#[async_trait]
impl ModelClient for ConstantModel {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let last = request.messages.last();
        let calls =
            last.is_some_and(|last| last.data.role == MessageRole::Tool || last.text() == "steps");
        let part = if calls {
            let arguments = json!({"data": "[1, 2]"});
            MessagePart::ToolCall(ToolCall::new("c", "json-query__count", arguments))
        } else {
            MessagePart::text("fine")
        };
        let answer = ModelChunk::finish(vec![part], None);
        Ok(futures::stream::iter([Ok(answer)]).boxed())
    }
}

/// Measures what the command line names.
#[tokio::main]
pub async fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [what, count] = arguments else {
        anyhow::bail!("usage: trials measure steps|turns|instances|reload COUNT")
    };
    let count: usize = count.parse().context("the count")?;
    let folder = tempfile::tempdir()?;
    match what.as_str() {
        "steps" => {
            steps(&folder.path().join("plain"), "", count).await?;
            steps(&folder.path().join("extended"), EXTENSIONS, count).await
        }
        "turns" => {
            turns(&folder.path().join("plain"), "", count).await?;
            turns(&folder.path().join("extended"), EXTENSIONS, count).await
        }
        "instances" => instances(folder.path(), count).await,
        "reload" => {
            println!("{:#}", crate::latency::measure(folder.path(), count).await?);
            Ok(())
        }
        other => Err(anyhow!("there is no scenario {other}")),
    }
}

async fn start(folder: &Path, bundle: String) -> anyhow::Result<Swarm> {
    let project = folder.join("project");
    std::fs::create_dir_all(&project)?;
    std::fs::write(project.join("goondan.yaml"), bundle)?;
    let loaded = goondan::load(&project);
    let bundle = loaded
        .bundle
        .ok_or_else(|| anyhow!("{:?}", loaded.diagnostics))?;
    let builder = Swarm::builder(Arc::clone(&bundle))
        .state_root(folder.join("state"))
        .models(Arc::new(ConstantModel));
    builder
        .environment(Environment::default())
        .start()
        .await
        .map_err(|error| anyhow!("{error:?}"))
}

async fn steps(folder: &Path, extensions: &str, count: usize) -> anyhow::Result<()> {
    let bundle = with_extensions(extensions).replace(
        "maxStepsPerTurn: 1000000",
        &format!("maxStepsPerTurn: {count}"),
    );
    let swarm = start(folder, bundle).await?;
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
    compare("steps", extensions, began, &ends);
    swarm.shutdown().await;
    Ok(())
}

async fn turns(folder: &Path, extensions: &str, count: usize) -> anyhow::Result<()> {
    let swarm = start(folder, with_extensions(extensions)).await?;
    let began = Instant::now();
    let mut ends = Vec::with_capacity(count);
    for _ in 0..count {
        swarm
            .send(Input::text("hello"))
            .await?
            .result()
            .await
            .context("a result")?;
        ends.push(Instant::now());
    }
    compare("turns", extensions, began, &ends);
    swarm.shutdown().await;
    Ok(())
}

fn with_extensions(extensions: &str) -> String {
    BUNDLE.replace(
        "  tools: [{ref: Tool/json-query}]\n",
        &format!("  tools: [{{ref: Tool/json-query}}]\n{extensions}"),
    )
}

/// Tells how long each of them took at the start, behind the first 20, and at the end.
fn compare(what: &str, extensions: &str, began: Instant, ends: &[Instant]) {
    let count = ends.len();
    let each = |from: usize, to: usize| {
        (ends[to - 1] - ends[from]) / u32::try_from(to - 1 - from).unwrap_or(1)
    };
    let window = 500.min(count / 4);
    let (first, last) = (each(20, 20 + window), each(count - window, count));
    let extensions = extensions.lines().count().saturating_sub(1);
    println!(
        "{count} {what} with {extensions} extensions in {:?}; each of the first {window} {first:?}, of the last {window} \
         {last:?}, ratio {:.2}",
        began.elapsed(),
        last.as_secs_f64() / first.as_secs_f64()
    );
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
    println!(
        "{count} instances with 10 messages each in {:?}",
        began.elapsed()
    );
    report("idle, with the instances of this run", before, count);
    swarm.shutdown().await;
    drop(swarm);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (before, began) = (resident(), Instant::now());
    let swarm = start(folder, BUNDLE.to_owned()).await?;
    let known = swarm.instances().await.len();
    println!(
        "started again in {:?} with {known} instances",
        began.elapsed()
    );
    report("after the start", before, count);
    let began = Instant::now();
    ask(&swarm, count / 2).await?;
    println!(
        "the first turn of a cold instance took {:?}",
        began.elapsed()
    );
    Ok(())
}

async fn ask(swarm: &Swarm, number: usize) -> anyhow::Result<()> {
    let input = Input {
        instance_key: Some(format!("i{number}")),
        ..Input::text("hello")
    };
    swarm
        .send(input)
        .await?
        .result()
        .await
        .context("a result")
        .map(drop)
}

fn report(what: &str, before: usize, count: usize) {
    let now = resident();
    let each = now.saturating_sub(before) / count.max(1);
    println!(
        "{what}: {} KiB resident, {each} bytes more per instance",
        now / 1024
    );
}

/// Resident bytes of this process; 0 where the system does not tell.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages * 4096
}
