//! Runs the turn once for each operation, and looks at what is left.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::project::{self, Language, Who};

/// A turn has at least so many; with fewer the trial would not have looked.
const FEWEST: u32 = 15;

/// Goes through all operations, in each language, for the host and for `gdn`.
#[allow(clippy::print_stdout, reason = "a program's result")]
pub(super) fn run() -> anyhow::Result<()> {
    let (languages, missing) = project::languages()?;
    missing
        .iter()
        .for_each(|name| println!("skipped: there is no {name}"));
    for language in &languages {
        let name = language.name;
        for &who in language.victims {
            let mut operations = Vec::new();
            while let Some(done) =
                once(language, who, operations.len() as u32 + 1).with_context(|| {
                    format!(
                        "{name}: {who} was killed at operation {}",
                        operations.len() + 1
                    )
                })?
            {
                operations.push(done);
            }
            let count = operations.len() as u32;
            ensure!(
                count >= FEWEST,
                "{name}: there are only {count} operations: {operations:?}"
            );
            println!(
                "{name}: {who} was killed at each of {count} operations; nothing was lost or done twice"
            );
        }
    }
    Ok(())
}

/// Kills at one operation; its name, or nothing where the turn has fewer.
fn once(language: &Language, who: Who, number: u32) -> anyhow::Result<Option<String>> {
    let folder = tempfile::tempdir()?;
    let project = project::write(folder.path(), language, who, number)?;
    let gdn = Gdn {
        program: std::env::current_exe()?.with_file_name("gdn"),
        state: folder.path().join("state"),
        project,
    };
    let mut first = gdn
        .command(&["run", "--trust", "--input", "go"])
        .spawn()
        .context("gdn is not there")?;
    std::fs::write(gdn.project.join("pid.new"), first.id().to_string())?;
    std::fs::rename(gdn.project.join("pid.new"), gdn.project.join("pid"))?;
    let has_ended_well = first.wait()?.success();
    let killed = std::fs::read_to_string(gdn.project.join("killed")).ok();
    let is_gdn_killed = killed.is_some() && matches!(who, Who::Gdn);
    ensure!(
        has_ended_well != is_gdn_killed,
        "gdn run has failed, or was not killed"
    );
    // What was cut off goes on before this.
    let again = gdn
        .command(&["run", "--trust", "--input", "again"])
        .status()?;
    ensure!(again.success(), "the next turn has failed");
    let seen = Seen::of(&gdn)?;
    seen.check(who, killed.as_deref())
        .with_context(|| format!("at the operation {killed:?}: {seen:#?}"))?;
    Ok(killed)
}

/// The command, for one project.
struct Gdn {
    program: PathBuf,
    state: PathBuf,
    project: PathBuf,
}

impl Gdn {
    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(line)
            .current_dir(&self.project)
            .env("GOONDAN_STATE_ROOT", &self.state);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn messages(&self, instance: &str) -> anyhow::Result<Vec<String>> {
        let mut command = self.command(&["instance", "show", instance, "--json"]);
        let output = command.stdout(Stdio::piped()).output()?;
        let shown: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{instance} is not shown"))?;
        let messages = shown["messages"].as_array().context("there are messages")?;
        Ok(messages.iter().map(said).collect())
    }
}

/// A message in short: whose, and its text or the kind of its first part.
fn said(message: &Value) -> String {
    let part = &message["data"]["content"][0];
    let text = part["text"]
        .as_str()
        .or(part["type"].as_str())
        .unwrap_or_default();
    format!(
        "{}: {text}",
        message["data"]["role"].as_str().unwrap_or_default()
    )
}

/// What is left in the end.
#[derive(Debug)]
struct Seen {
    conversation: Vec<String>,
    /// What the other agent was told.
    told: Vec<String>,
    /// What the tool has done.
    ledger: Vec<String>,
    /// What the extension keeps.
    state: Value,
}

impl Seen {
    fn of(gdn: &Gdn) -> anyhow::Result<Self> {
        let mut told: Vec<String> = gdn.messages("other:main")?;
        told.retain(|message| message.starts_with("user"));
        told.sort();
        let ledger = std::fs::read_to_string(gdn.project.join("ledger")).unwrap_or_default();
        let state = find(&gdn.state, "e.json")?.context("the extension keeps something")?;
        Ok(Seen {
            conversation: gdn.messages("a:main")?,
            told,
            ledger: ledger.lines().map(str::to_owned).collect(),
            state: serde_json::from_str(&std::fs::read_to_string(state)?)?,
        })
    }

    fn check(&self, who: Who, killed: Option<&str>) -> anyhow::Result<()> {
        let conversation = [
            "user: go",
            "user: begun",
            "assistant: tool-call",
            "tool: tool-result",
            "assistant: done",
            "user: ended",
            "user: again",
            "assistant: heard",
        ];
        ensure!(
            self.conversation == conversation,
            "the conversation is another one"
        );
        // A call that is not known to have done nothing is not made again: it fails.
        let (acts, asks) = match killed {
            Some("call begins" | "handler begins") => (0, 0),
            Some("handler has acted") => (1, 0),
            _ => (1, 1),
        };
        ensure!(
            self.ledger.len() == acts,
            "the tool has acted {} times, not {acts}",
            self.ledger.len()
        );
        let mut told = vec!["user: from the turn", "user: told by the turn"];
        told.extend((0..asks).map(|_| "user: from the tool"));
        told.sort_unstable();
        ensure!(self.told == told, "the other agent was told something else");
        ensure!(
            self.state["turns"] == 1,
            "the turn was counted {} times",
            self.state["turns"]
        );
        // What a layer keeps comes with the outcome of the call, or is not there.
        let has_no_outcome = match who {
            Who::Host => killed == Some("call begins"),
            Who::Gdn => {
                killed.is_some_and(|name| name.starts_with("call") || name.starts_with("handler"))
            }
        };
        let counted = self.state["calls"].as_u64().unwrap_or_default();
        ensure!(
            counted == u64::from(!has_no_outcome),
            "the call was counted {counted} times"
        );
        Ok(())
    }
}

/// A file of that name below `folder`.
fn find(folder: &Path, name: &str) -> anyhow::Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if let Some(found) = find(&path, name)? {
                return Ok(Some(found));
            }
        } else if path.file_name().is_some_and(|file| file == name) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
