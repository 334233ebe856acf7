//! Runs command lines that a policy allows both ways, by `gdn`'s own start and by shells, and looks for a line that did
//! something else, or more, than was judged.
//!
//! Lines are made up at random of what a shell gives a meaning to. The programs in them are one and the same witness,
//! which writes down how it was called; after each line its notes, the files, what was printed and whether it succeeded are
//! held against each other.

#![allow(clippy::print_stdout, reason = "it tells what it finds")]

mod generate;
mod ground;
mod witness;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use goondan::Swarm;
use goondan::spec::Environment;
use serde_json::json;

use generate::Generator;
use ground::{Ground, Outcome};

/// The variable that tells the driver where its folders are. It is set when this program starts itself again, with a `PATH`
/// on which there is nothing but the witness.
const PLACE: &str = "GOONDAN_LINES";

/// How often a line on which the two differ is run again. Commands of a pipeline run at the same time, so one line may have
/// several outcomes.
const AGAIN: usize = 20;

/// What to run, and for how long.
#[derive(Debug, Clone)]
struct Options {
    seconds: u64,
    seed: u64,
}

/// Runs lines for a while, prints what came of it, and fails where a difference was found.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let is_well = match std::env::var_os(PLACE) {
        Some(place) => drive(&options(args)?, place.into())?,
        None => start_again(args)?,
    };
    anyhow::ensure!(is_well, "lines went another way than in a shell; see above");
    Ok(())
}

fn options(args: &[String]) -> anyhow::Result<Options> {
    let mut options = Options {
        seconds: 60,
        seed: 1,
    };
    let mut rest = args.iter();
    while let Some(name) = rest.next() {
        let value = rest
            .next()
            .with_context(|| format!("{name} needs a value"))?
            .parse()?;
        match name.as_str() {
            "--seconds" => options.seconds = value,
            "--seed" => options.seed = value,
            other => bail!("{other} is unknown; there are --seconds and --seed"),
        }
    }
    Ok(options)
}

/// Lays out the folders, and goes on in a process whose `PATH` holds the witness alone.
fn start_again(args: &[String]) -> anyhow::Result<bool> {
    let dir = tempfile::tempdir()?;
    let place = ground::lay_out(dir.path())?;
    let path = ground::programs(&place, ground::OURS);
    let mut again = Command::new(std::env::current_exe()?);
    let status = again
        .arg("lines")
        .args(args)
        .env("PATH", path)
        .env(PLACE, &place)
        .status()?;
    Ok(status.success())
}

fn drive(options: &Options, place: PathBuf) -> anyhow::Result<bool> {
    let shells = ground::shells();
    if shells.is_empty() {
        println!("skipped: there is neither dash nor bash here");
        return Ok(true);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let project = place.join(ground::OURS);
        let bundle = goondan::load(&project)
            .bundle
            .context("the project is wrong")?;
        let builder = Swarm::builder(bundle)
            .state_root(place.join("state"))
            .environment(Environment::default());
        let both = Both {
            swarm: builder.start().await?,
            ground: Ground::new(&place),
            shells,
        };
        let found = both.all(options).await;
        both.swarm.shutdown().await;
        found
    })
}

/// What a line is run by.
struct Both {
    swarm: Swarm,
    ground: Ground,
    /// The files of shells.
    shells: Vec<PathBuf>,
}

/// What was seen so far.
#[derive(Default)]
struct Count {
    made: u64,
    allowed: u64,
    commands: u64,
    uncertain: u64,
    different: u64,
}

impl Both {
    async fn all(&self, options: &Options) -> anyhow::Result<bool> {
        let mut generator = Generator::new(options.seed);
        let end = Instant::now() + Duration::from_secs(options.seconds);
        let mut count = Count::default();
        while Instant::now() < end {
            let line = generator.line();
            if Generator::is_open(&line) {
                continue;
            }
            count.made += 1;
            if let Some(ours) = self.ours(&line).await? {
                count.allowed += 1;
                count.commands += ours.notes.len() as u64;
                self.compare(&line, ours, &mut count).await?;
            }
        }
        println!(
            "{} lines, {} allowed and run both ways by {} shells, {} commands, {} with several outcomes",
            count.made,
            count.allowed,
            self.shells.len(),
            count.commands,
            count.uncertain
        );
        println!(
            "{} passed, {} failed",
            count.allowed - count.different,
            count.different
        );
        anyhow::ensure!(
            count.allowed > 0,
            "no line was allowed, so nothing was tried"
        );
        Ok(count.different == 0)
    }

    async fn compare(&self, line: &str, ours: Outcome, count: &mut Count) -> anyhow::Result<()> {
        let mut mine = vec![ours];
        for shell in &self.shells {
            let mut theirs = vec![self.ground.by_shell(shell, line)?];
            if mine.contains(&theirs[0]) {
                continue;
            }
            for _ in 0..AGAIN {
                mine.extend(self.ours(line).await?);
                theirs.push(self.ground.by_shell(shell, line)?);
            }
            if mine.iter().any(|one| theirs.contains(one)) {
                count.uncertain += 1;
                continue;
            }
            count.different += 1;
            println!(
                "different: {line:?}\n  gdn: {:?}\n  {}: {:?}",
                mine[0],
                shell.display(),
                theirs[0]
            );
            return Ok(());
        }
        Ok(())
    }

    /// What comes of a line as `gdn` runs it; nothing where the policy does not allow it.
    async fn ours(&self, line: &str) -> anyhow::Result<Option<Outcome>> {
        self.ground.reset(ground::OURS)?;
        let result = self
            .swarm
            .call_tool(Some("a"), None, "bash__exec", json!({"command": line}))
            .await?;
        if let Some(error) = result.error {
            let is_refused =
                ["E_TOOL_DENIED", "E_TOOL_INVALID_ARGS"].contains(&error.code.as_str());
            anyhow::ensure!(is_refused, "{line:?} failed: {error:?}");
            return Ok(None);
        }
        let output = result.output.unwrap_or_default();
        anyhow::ensure!(output["timedOut"] == false, "{line:?} did not end");
        let (printed, code) = (
            output["stdout"].as_str().unwrap_or_default(),
            output["exitCode"].as_i64(),
        );
        self.ground
            .outcome(ground::OURS, printed.to_owned(), code == Some(0))
            .map(Some)
    }
}
