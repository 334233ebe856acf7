//! The child process. It reads commands from standard input and reports acceptance and completion of each job on standard
//! output, one JSON object per line. SIGTERM stops it in order.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use goondan::ports::approval::{ApprovalAnswer, ApprovalRequest, Approver};
use goondan::ports::clock::{Clock, SystemClock};
use goondan::spec::Environment;
use goondan::{Input, Swarm};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};

use super::project;

/// Longest time until an approval request is answered. Most processes of a run on files end earlier.
const MAX_ANSWER_DELAY: Duration = Duration::from_millis(600);

/// An input for the swarm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) text: String,
}

/// A command of the parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ProcessCommand {
    /// Submit a job.
    Job(Job),
    /// Set the clock to the system time plus this number of seconds.
    ClockOffset(i64),
}

/// A report to the parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SwarmReport {
    /// The swarm runs, and this process leads it.
    Ready,
    /// The job with this id is durable.
    Accepted(String),
    /// The job with this id was refused.
    Refused(String),
    /// The turn of the job with this id ended with this finish reason.
    Done(String, String),
}

/// Exit code of a node after another node took the swarm over.
pub(crate) const TAKEN_OVER: i32 = 75;

/// Arguments of the child process.
pub(crate) struct ServeOptions<'a> {
    pub(crate) root: &'a Path,
    /// Name of the state directory.
    pub(crate) state: &'a str,
    /// Name of the project directory.
    pub(crate) project: &'a str,
    pub(crate) store: Option<&'a str>,
    /// Address of the proxy in front of the database.
    pub(crate) proxy: Option<SocketAddr>,
    /// Maximum number of concurrent turns. `None` for the default.
    pub(crate) turns: Option<usize>,
}

/// A user who approves every call after a random delay.
struct DelayedApprover;

#[async_trait]
impl Approver for DelayedApprover {
    async fn ask(&self, _request: ApprovalRequest) -> ApprovalAnswer {
        tokio::time::sleep(MAX_ANSWER_DELAY.mul_f64(rand::random::<f64>().powi(2))).await;
        ApprovalAnswer::ONCE
    }
}

/// A clock that the parent can set.
#[derive(Debug, Default)]
struct SettableClock {
    offset_seconds: AtomicI64,
}

impl Clock for SettableClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + TimeDelta::seconds(self.offset_seconds.load(Ordering::Relaxed))
    }

    fn random_hex(&self, digits: usize) -> String {
        SystemClock.random_hex(digits)
    }
}

/// Runs the swarm of the project until SIGTERM or the end of standard input. Each node has a separate state root, as on a
/// separate machine.
pub(crate) fn serve(options: &ServeOptions<'_>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        let clock = Arc::new(SettableClock::default());
        let swarm = tokio::select! {
            swarm = start(options, Arc::clone(&clock)) => swarm?,
            // A standby node has no work to end.
            _ = terminated.recv() => return Ok(()),
        };
        report(&SwarmReport::Ready)?;
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let mut taken_over = std::pin::pin!(swarm.taken_over());
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Some(line) = line? else { break };
                    match serde_json::from_str(&line).context("a command")? {
                        ProcessCommand::Job(job) => drop(tokio::spawn(handle(swarm.clone(), job))),
                        ProcessCommand::ClockOffset(seconds) => {
                            clock.offset_seconds.store(seconds, Ordering::Relaxed);
                        }
                    }
                }
                _ = terminated.recv() => break,
                () = &mut taken_over => std::process::exit(TAKEN_OVER),
            }
        }
        swarm.shutdown().await;
        Ok(())
    })
}

/// Starts the swarm. With a database, waits until this node leads it.
async fn start(options: &ServeOptions<'_>, clock: Arc<SettableClock>) -> anyhow::Result<Swarm> {
    let root = options.root;
    let project = goondan::load(&root.join(options.project));
    let bundle = project
        .bundle
        .ok_or_else(|| anyhow!("{:?}", project.diagnostics))?;
    let mut builder = Swarm::builder(bundle)
        .state_root(root.join(options.state))
        .clock(clock)
        .approver(Arc::new(DelayedApprover))
        .environment(Environment::default());
    if let Some(store) = options.store {
        let mut database = project::database(store, root)?.waiting();
        if let Some(turns) = options.turns {
            database = database.turns(turns);
        }
        if let Some(proxy) = options.proxy {
            database = database.by_way_of(proxy);
        }
        builder = builder.database(database);
    }
    builder
        .start()
        .await
        .map_err(|error| anyhow!("{error}: {error:?}"))
}

async fn handle(swarm: Swarm, job: Job) -> anyhow::Result<()> {
    let input = Input {
        text: job.text,
        instance_key: Some(job.key),
        id: Some(job.id.clone()),
        ..Input::default()
    };
    let turn = match swarm.send(input).await {
        Ok(turn) => turn,
        Err(_) => return report(&SwarmReport::Refused(job.id)),
    };
    report(&SwarmReport::Accepted(job.id.clone()))?;
    if let Some(result) = turn.result().await {
        let reason = serde_json::to_value(result.finish_reason)?;
        report(&SwarmReport::Done(
            job.id,
            reason.as_str().unwrap_or_default().to_owned(),
        ))?;
    }
    Ok(())
}

fn report(report: &SwarmReport) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    Ok(stdout.flush()?)
}
