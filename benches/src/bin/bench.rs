//! Runs scenarios and prints one JSON object for each: `bench start steps-200`, `bench --all --table results.md`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "figures are a program's result"
)]

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use goondan_benches::scenarios::{SCENARIOS, Scenario};

#[derive(Parser)]
struct Arguments {
    /// The scenarios; all of them are listed by --list.
    scenarios: Vec<String>,
    /// Every scenario but the long ones.
    #[arg(long, conflicts_with = "scenarios")]
    all: bool,
    /// List the scenarios.
    #[arg(long)]
    list: bool,
    /// How often each one runs.
    #[arg(long)]
    runs: Option<usize>,
    /// The command that is measured.
    #[arg(long, default_value = "target/release/gdn")]
    gdn: PathBuf,
    /// Keep projects and state below that folder, such as one in memory, to see what the disk costs.
    #[arg(long)]
    state: Option<PathBuf>,
    /// Write a Markdown table there.
    #[arg(long)]
    table: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        SCENARIOS
            .iter()
            .for_each(|scenario| println!("{:16} {}", scenario.name, scenario.about));
        return Ok(());
    }
    let program = std::path::absolute(&arguments.gdn)?;
    anyhow::ensure!(
        program.exists(),
        "{} is not there: build it with `cargo build --release`",
        program.display()
    );
    let mut rows = vec![
        "| scenario | figure | median | smallest – largest |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for scenario in chosen(&arguments)? {
        let runs = arguments.runs.unwrap_or(scenario.runs);
        let summary = scenario
            .measure(&program, arguments.state.as_deref(), runs)
            .context(scenario.name)?;
        println!("{}", serde_json::to_string(&summary)?);
        rows.extend(summary.rows());
    }
    if let Some(table) = &arguments.table {
        std::fs::write(table, rows.join("\n") + "\n")?;
    }
    Ok(())
}

fn chosen(arguments: &Arguments) -> anyhow::Result<Vec<&'static Scenario>> {
    if arguments.all {
        return Ok(SCENARIOS
            .iter()
            .filter(|scenario| scenario.runs > 1)
            .collect());
    }
    let find = |name: &String| {
        let found = SCENARIOS.iter().find(|scenario| scenario.name == *name);
        found.with_context(|| format!("there is no scenario `{name}`; --list lists them"))
    };
    arguments.scenarios.iter().map(find).collect()
}
