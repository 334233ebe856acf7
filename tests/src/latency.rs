//! How long it takes from the moment in which a file is written until a new generation is in force, and what of it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use goondan::spec::Environment;
use goondan::{ReloadNews, ReloadOutcome, Swarm, WatchOptions};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

/// So many edits for each figure.
const ROUNDS: usize = 30;
/// What the last reload leaves to do is done by then.
const IDLE: Duration = Duration::from_millis(500);
/// Longer than a watch takes to look although it was told nothing.
const PATIENCE: Duration = Duration::from_secs(60);

const BUNDLE: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: script}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, prompt: {systemRef: prompt.md}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

/// Edits the prompt of a small project, and of one with `resources` tools more, each in a file of its own and used by the
/// agent. Milliseconds: median and the slowest.
pub async fn measure(folder: &Path, resources: usize) -> anyhow::Result<Value> {
    let small = scenario(&folder.join("small"), 0).await?;
    let large = scenario(&folder.join("large"), resources).await?;
    Ok(
        json!({"rounds": ROUNDS, "optimised": !cfg!(debug_assertions), "resources3": small, format!("resources{}", resources + 3): large}),
    )
}

async fn scenario(folder: &Path, tools: usize) -> anyhow::Result<Value> {
    let project = folder.join("project");
    lay_out(&project, tools)?;
    let loaded = goondan::load(&project);
    let bundle = loaded
        .bundle
        .ok_or_else(|| anyhow!("{:?}", loaded.diagnostics))?;
    let builder = Swarm::builder(bundle)
        .state_root(folder.join("state"))
        .environment(Environment::default());
    let swarm = builder
        .start()
        .await
        .map_err(|error| anyhow!("{error:?}"))?;
    let mut news = swarm.reload_news();
    let watch = swarm.watch(WatchOptions::default());
    // The first edit finds folders that may not be watched yet.
    edit(&project, 0)?;
    next(&mut news).await?;
    let mut figures = Figures::default();
    for round in 1..=ROUNDS {
        tokio::time::sleep(IDLE).await;
        let written = edit(&project, round)?;
        let outcome = next(&mut news).await?;
        figures.add(written, Instant::now(), &outcome)?;
    }
    watch.end().await;
    swarm.shutdown().await;
    Ok(figures.summary())
}

fn lay_out(project: &Path, tools: usize) -> anyhow::Result<()> {
    std::fs::create_dir_all(project.join("tools"))?;
    let names: Vec<String> = (0..tools)
        .map(|number| format!("{{ref: Tool/t{number}}}"))
        .collect();
    let used = format!("prompt.md}}, tools: [{}]}}", names.join(", "));
    std::fs::write(
        project.join("goondan.yaml"),
        BUNDLE.replace("prompt.md}}", &used),
    )?;
    std::fs::write(project.join("prompt.md"), "first")?;
    for number in 0..tools {
        let tool = format!(
            "apiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t{number}}}\nspec: {{entry: 'builtin:wait'}}\n"
        );
        std::fs::write(project.join(format!("tools/t{number}.yaml")), tool)?;
    }
    Ok(())
}

/// Writes another prompt; when it was there.
fn edit(project: &Path, round: usize) -> anyhow::Result<Instant> {
    std::fs::write(project.join("prompt.md"), format!("prompt {round}"))?;
    Ok(Instant::now())
}

async fn next(news: &mut UnboundedReceiver<ReloadNews>) -> anyhow::Result<ReloadOutcome> {
    loop {
        let told = tokio::time::timeout(PATIENCE, news.recv())
            .await
            .context("no reload happened")?;
        if let ReloadNews::Reloaded(outcome) = told.context("the swarm ended")? {
            return Ok(outcome.as_ref().clone());
        }
    }
}

/// Milliseconds, by part.
#[derive(Default)]
struct Figures {
    notice: Vec<f64>,
    settle: Vec<f64>,
    load: Vec<f64>,
    plan: Vec<f64>,
    swap: Vec<f64>,
    total: Vec<f64>,
}

impl Figures {
    fn add(
        &mut self,
        written: Instant,
        told: Instant,
        outcome: &ReloadOutcome,
    ) -> anyhow::Result<()> {
        let timing = &outcome.timing;
        let noticed = timing.noticed.context("somebody asked for the reload")?;
        outcome
            .result
            .as_ref()
            .map_err(|diagnostics| anyhow!("{diagnostics:?}"))?;
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        // The system may tell of a write before it has returned.
        self.notice
            .push(ms(noticed.saturating_duration_since(written)));
        self.settle.push(ms(timing.settle));
        self.load.push(ms(timing.load));
        self.plan.push(ms(timing.plan));
        self.swap.push(ms(timing.swap));
        self.total.push(ms(told - written));
        Ok(())
    }

    fn summary(self) -> Value {
        let part = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            let rounded = |time: f64| (time * 100.0).round() / 100.0;
            let at = |index: usize| times.get(index).copied().map(rounded);
            json!({"median": at(times.len() / 2), "max": at(times.len().saturating_sub(1))})
        };
        json!({
            "noticeMs": part(self.notice), "settleMs": part(self.settle), "loadMs": part(self.load),
            "planMs": part(self.plan), "swapMs": part(self.swap), "totalMs": part(self.total),
        })
    }
}
