//! A process that runs the swarm, or would.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;

use anyhow::Context;

use super::swarm::{Job, Said};

/// What all processes write to standard error.
const COMPLAINTS: &str = "stderr.txt";

/// What a process says, with its number.
pub(crate) type Word = (u32, Said);

/// What a process is to run.
pub(crate) struct Start<'a> {
    pub(crate) root: &'a Path,
    /// The folder of its state.
    pub(crate) state: String,
    /// The folder of its project.
    pub(crate) project: &'static str,
    pub(crate) store: &'a str,
    /// By way of which the database is reached.
    pub(crate) proxy: Option<SocketAddr>,
    /// So many turns at a time, unless it is to find out by itself.
    pub(crate) turns: Option<usize>,
}

/// A process that runs the swarm, or would.
pub(crate) struct Process {
    pub(crate) child: Child,
    /// `None` where it was told to end.
    stdin: Option<ChildStdin>,
    pub(crate) given: BTreeSet<String>,
}

impl Process {
    pub(crate) fn start(start: &Start<'_>, heard: Sender<Word>) -> anyhow::Result<Self> {
        let proxy = start
            .proxy
            .map(|proxy| proxy.to_string())
            .unwrap_or_default();
        let turns = start
            .turns
            .map(|turns| turns.to_string())
            .unwrap_or_default();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["chaos", "--child"])
            .arg(start.root)
            .args([&start.state, start.project, start.store, &proxy, &turns])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A node that can't start while its database is away says so each time.
            .stderr(
                File::options()
                    .create(true)
                    .append(true)
                    .open(start.root.join(COMPLAINTS))?,
            )
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("a pipe from the swarm")?);
        let process = child.id();
        std::thread::spawn(move || {
            // A line that was cut off by the kill was not said.
            for line in stdout.lines().map_while(Result::ok) {
                if serde_json::from_str(&line)
                    .is_ok_and(|word: Said| heard.send((process, word)).is_err())
                {
                    return;
                }
            }
        });
        Ok(Process {
            child,
            stdin,
            given: BTreeSet::new(),
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Hands in a job, once.
    pub(crate) fn give(&mut self, job: &Job) {
        let Some(stdin) = &mut self.stdin else { return };
        if self.given.insert(job.id.clone()) {
            let line = serde_json::to_string(job).expect("a job is plain data");
            // A swarm that has just ended does not read; its end shows when we listen.
            let _ = writeln!(stdin, "{line}");
        }
    }

    /// Tells it to end.
    pub(crate) fn dismiss(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let sent = Command::new("kill")
            .args([format!("-{signal}"), self.id().to_string()])
            .status()?;
        anyhow::ensure!(sent.success(), "the signal {signal} could not be sent");
        Ok(())
    }

    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
