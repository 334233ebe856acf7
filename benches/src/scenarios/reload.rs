//! One resource of many changes while the swarm runs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;

use super::Setup;
use crate::figures::{Run, median};
use crate::gdn::BenchSwarm;
use crate::projects;

const EDITS: usize = 20;
const TOOLS: usize = 1_000;
/// Nobody saves a file sooner than that after the last one. A watch looks that long whether more files follow.
const BETWEEN: Duration = Duration::from_millis(100);

/// What the swarm tells on a line; the rest of it is no matter here.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    duration: u64,
    #[serde(rename = "finishReason", default)]
    finish_reason: String,
}

/// From the request to reload, and from the saved file with a watch, each to the new generation.
pub(super) fn idle(setup: &Setup) -> anyhow::Result<Run> {
    let asked = edits(setup, &[], 0)?;
    let watched = edits(setup, &["--watch"], 0)?;
    Ok(Run::default()
        .millis("asked_to_served", asked.median())
        .millis("told_by_the_swarm", asked.told())
        .millis("saved_to_served_with_watch", watched.median()))
}

/// The same, while turns begin and end.
pub(super) fn busy(setup: &Setup) -> anyhow::Result<Run> {
    let asked = edits(setup, &[], 16)?;
    Ok(Run::default()
        .millis("asked_to_served", asked.median())
        .millis("told_by_the_swarm", asked.told())
        .with("turns", asked.turns as f64))
}

/// What came of some edits.
#[derive(Default)]
struct Edits {
    served: Vec<Duration>,
    told: Vec<Duration>,
    /// Turns that ended meanwhile, all of them well.
    turns: usize,
}

impl Edits {
    fn median(&self) -> Duration {
        median(self.served.clone())
    }

    fn told(&self) -> Duration {
        median(self.told.clone())
    }
}

/// Edits one tool again and again, with `under_way` turns open at all times.
fn edits(setup: &Setup, options: &[&str], under_way: usize) -> anyhow::Result<Edits> {
    projects::many_resources(&setup.project, TOOLS)?;
    let options = [&["--output-format", "stream-json"], options].concat();
    let mut swarm = setup.gdn.serve_with(&setup.project, &options)?;
    swarm.send("warm-up", "go")?;
    wait_for(&mut swarm, "result", &mut Edits::default(), false)?;
    for number in 0..under_way {
        swarm.send(&format!("i{number}"), "go")?;
    }
    let mut edits = Edits::default();
    for number in 0..EDITS {
        std::thread::sleep(BETWEEN);
        save(&setup.project, number)?;
        let began = Instant::now();
        if !options.contains(&"--watch") {
            swarm.hang_up()?;
        }
        let told = wait_for(&mut swarm, "reload.completed", &mut edits, under_way > 0)?;
        edits.served.push(began.elapsed());
        edits.told.push(Duration::from_millis(told.duration));
    }
    swarm.end()?;
    Ok(edits)
}

/// Reads lines until one of `kind`. Each turn that ends meanwhile is followed by another one where `again`.
fn wait_for(
    swarm: &mut BenchSwarm,
    kind: &str,
    edits: &mut Edits,
    again: bool,
) -> anyhow::Result<Line> {
    loop {
        let line: Line = serde_json::from_str(swarm.next_line()?).context("a line is JSON")?;
        if line.kind == "result" {
            anyhow::ensure!(line.finish_reason == "text_response", "a turn failed");
            edits.turns += 1;
            if again {
                swarm.send(&format!("i{}", edits.turns % 64), "go")?;
            }
        }
        anyhow::ensure!(line.kind != "reload.failed", "a reload failed");
        if line.kind == kind {
            return Ok(line);
        }
    }
}

/// Saves another description of the first tool, as an editor does: a new file in the place of the old one.
fn save(project: &Path, number: usize) -> anyhow::Result<()> {
    let file = project.join("tools/0.yaml");
    let text = std::fs::read_to_string(&file)?;
    let (first, rest) = text
        .split_once("description: ")
        .context("the tool has a description")?;
    let (_, rest) = rest.split_once('\n').context("the description is a line")?;
    let fresh = project.join("tools/.0.yaml.new");
    std::fs::write(
        &fresh,
        format!("{first}description: Waits, says edit {number}.\n{rest}"),
    )?;
    std::fs::rename(fresh, file)?;
    Ok(())
}
