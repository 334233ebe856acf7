//! A child process that runs the swarm, or waits as a standby node.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;

use anyhow::Context;

use super::swarm::{Job, ProcessCommand, SwarmReport};

/// File with the standard error of all processes.
const STDERR_FILE: &str = "stderr.txt";

/// A report with the id of the process that sent it.
pub(crate) type ProcessReport = (u32, SwarmReport);

/// Arguments of a child process.
pub(crate) struct ProcessStart<'a> {
    pub(crate) root: &'a Path,
    /// Name of the state directory.
    pub(crate) state: String,
    /// Name of the project directory.
    pub(crate) project: &'static str,
    pub(crate) store: &'a str,
    /// Address of the proxy in front of the database.
    pub(crate) proxy: Option<SocketAddr>,
    /// Maximum number of concurrent turns. `None` for the default.
    pub(crate) turns: Option<usize>,
}

/// A child process.
pub(crate) struct SwarmProcess {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    /// Ids of the jobs that the process has received.
    pub(crate) submitted: BTreeSet<String>,
}

impl SwarmProcess {
    pub(crate) fn start(
        start: &ProcessStart<'_>,
        reports: Sender<ProcessReport>,
    ) -> anyhow::Result<Self> {
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
            // A node that can't start while its database is down logs an error each time.
            .stderr(
                File::options()
                    .create(true)
                    .append(true)
                    .open(start.root.join(STDERR_FILE))?,
            )
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(
            child
                .stdout
                .take()
                .context("standard output of the swarm")?,
        );
        let process = child.id();
        std::thread::spawn(move || {
            // A kill can cut the last line off, which then counts as not sent.
            for line in stdout.lines().map_while(Result::ok) {
                if serde_json::from_str(&line)
                    .is_ok_and(|report: SwarmReport| reports.send((process, report)).is_err())
                {
                    return;
                }
            }
        });
        Ok(SwarmProcess {
            child,
            stdin,
            submitted: BTreeSet::new(),
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Submits a job, once.
    pub(crate) fn submit(&mut self, job: &Job) {
        if self.stdin.is_some() && self.submitted.insert(job.id.clone()) {
            self.send(&ProcessCommand::Job(job.clone()));
        }
    }

    /// Sends a command. A process that has just exited does not read it; its exit is noticed later.
    pub(crate) fn send(&mut self, command: &ProcessCommand) {
        let Some(stdin) = &mut self.stdin else { return };
        let line = serde_json::to_string(command).expect("commands serialize");
        let _ = writeln!(stdin, "{line}");
    }

    /// Stops the process in order: it accepts no more commands and receives SIGTERM.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.stdin = None;
        self.signal("TERM")
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

impl Drop for SwarmProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
