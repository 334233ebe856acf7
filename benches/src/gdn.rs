//! The process that is measured.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

/// Where the command is, and where it keeps its state.
#[derive(Debug, Clone)]
pub struct Gdn {
    /// The binary.
    pub program: PathBuf,
    /// `--state-root`.
    pub state: PathBuf,
    /// More environment variables.
    pub variables: Vec<(String, String)>,
}

impl Gdn {
    /// The command, with its state and without a question of trust.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .arg("--state-root")
            .arg(&self.state)
            .stderr(Stdio::inherit());
        // The projects are the benchmark's own.
        command
            .env("GOONDAN_TRUST", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs to the end. Gives back when it began, and how long it took.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<(Instant, Duration)> {
        let began = Instant::now();
        let status = self
            .command(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        let took = began.elapsed();
        anyhow::ensure!(status.success(), "gdn {arguments:?} ended with {status}");
        Ok((began, took))
    }

    /// Runs to the end, and gives back what it prints.
    pub(crate) fn output(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self
            .command(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .output()?;
        anyhow::ensure!(
            output.status.success(),
            "gdn {arguments:?} ended with {}",
            output.status
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A swarm that takes one input a line, and gives one result a line.
    pub fn serve(&self, project: &Path) -> anyhow::Result<BenchSwarm> {
        self.serve_with(project, &["--output-format", "json"])
    }

    /// A swarm that takes one input a line, run with `options`.
    pub fn serve_with(&self, project: &Path, options: &[&str]) -> anyhow::Result<BenchSwarm> {
        let project = project.to_str().context("the project's path is no text")?;
        let arguments = [
            &[
                "run",
                project,
                "--input-format",
                "stream-json",
                "--yes",
                "-q",
            ],
            options,
        ]
        .concat();
        let mut child = self
            .command(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let results = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(BenchSwarm {
            child,
            input: Some(input),
            results,
            line: String::new(),
        })
    }
}

/// A running swarm.
pub struct BenchSwarm {
    child: Child,
    input: Option<ChildStdin>,
    results: BufReader<ChildStdout>,
    line: String,
}

impl BenchSwarm {
    /// Hands in one input for a conversation.
    pub fn send(&mut self, key: &str, text: &str) -> anyhow::Result<()> {
        let line = serde_json::json!({"input": text, "instanceKey": key});
        let input = self.input.as_mut().context("the input was closed")?;
        writeln!(input, "{line}").context("the swarm takes no more inputs")
    }

    /// Waits for the next result; it must be a good one.
    pub fn result(&mut self) -> anyhow::Result<()> {
        let line = self.next_line()?;
        let result: serde_json::Value = serde_json::from_str(line).context("a result is JSON")?;
        anyhow::ensure!(
            result["finishReason"] == "text_response",
            "a turn failed: {line}"
        );
        Ok(())
    }

    /// Waits for the next line of output. Lines that only confirm an input are skipped.
    pub fn next_line(&mut self) -> anyhow::Result<&str> {
        loop {
            self.line.clear();
            let read = self.results.read_line(&mut self.line)?;
            anyhow::ensure!(read > 0, "the swarm ended before its last result");
            if !self.line.starts_with(r#"{"type":"accepted""#) {
                return Ok(&self.line);
            }
        }
    }

    /// Tells it to look at its project anew, as `gdn reload` does.
    pub fn hang_up(&self) -> anyhow::Result<()> {
        let process = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(
            process.context("no process")?,
            rustix::process::Signal::HUP,
        )?;
        Ok(())
    }

    /// Hands in many inputs, one for each key, with at most `ahead` of them unanswered, and waits for all results.
    pub fn flood(
        &mut self,
        keys: impl Iterator<Item = String>,
        ahead: usize,
    ) -> anyhow::Result<()> {
        let mut open = 0;
        for key in keys {
            self.send(&key, "go")?;
            open += 1;
            if open == ahead {
                self.result()?;
                open -= 1;
            }
        }
        (0..open).try_for_each(|_| self.result())
    }

    /// Memory and time that the process has used so far.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.child.id())
    }

    /// Closes the input and waits for the end.
    pub fn end(mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the swarm ended with {status}");
        Ok(())
    }
}

impl Drop for BenchSwarm {
    fn drop(&mut self) {
        // It has ended already, or nobody wants it any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process has used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Resident memory, in bytes.
    pub resident: u64,
    /// Time of all its threads.
    pub cpu: Duration,
}

impl Usage {
    /// Of a process, as Linux tells it.
    pub fn of(process: u32) -> anyhow::Result<Self> {
        const PAGE: u64 = 4096;
        let field = Self::fields(process)?;
        Ok(Usage {
            resident: field(24) * PAGE,
            cpu: Self::time(field(14) + field(15)),
        })
    }

    /// The time of a process and of its children that have ended.
    pub fn with_ended(process: u32) -> anyhow::Result<Duration> {
        let field = Self::fields(process)?;
        Ok(Self::time((14..=17).map(field).sum()))
    }

    fn time(ticks: u64) -> Duration {
        const TICKS_A_SECOND: f64 = 100.0;
        Duration::from_secs_f64(ticks as f64 / TICKS_A_SECOND)
    }

    /// The numbers that Linux tells of a process, as proc(5) counts them.
    fn fields(process: u32) -> anyhow::Result<impl Fn(usize) -> u64> {
        let stat =
            std::fs::read_to_string(format!("/proc/{process}/stat")).context("only Linux tells")?;
        // The name before the last bracket may hold anything.
        let fields = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let fields: Vec<u64> = fields
            .map(|field| field.parse().unwrap_or_default())
            .collect();
        Ok(move |number: usize| fields.get(number - 3).copied().unwrap_or_default())
    }
}
