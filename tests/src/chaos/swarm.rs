//! The process that is killed. It takes inputs on standard input and tells on standard output what was accepted and what
//! is done, a JSON object a line.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use goondan::ports::approval::ApprovalAnswer;
use goondan::spec::Environment;
use goondan::{ApprovalBroker, Input, Swarm};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::project;

/// An input for the swarm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) text: String,
}

/// What the swarm says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Said {
    /// It runs.
    Ready,
    /// The job is on disk.
    Accepted(String),
    /// The job was not taken.
    Refused(String),
    /// The job is done; the turn finished for that reason.
    Done(String, String),
}

/// How a node ends that another one has taken the swarm over from.
pub(crate) const TAKEN_OVER: i32 = 75;

/// What a process was told to run.
pub(crate) struct Told<'a> {
    pub(crate) root: &'a Path,
    /// The folder of its state.
    pub(crate) state: &'a str,
    /// The folder of its project.
    pub(crate) project: &'a str,
    pub(crate) store: Option<&'a str>,
    /// By way of which the database is reached.
    pub(crate) proxy: Option<SocketAddr>,
    /// So many turns at a time, unless it is to find out by itself.
    pub(crate) turns: Option<usize>,
}

/// Runs the swarm of the project until standard input ends. Each node has a state root of its own, as if it were on a machine of
/// its own.
pub(crate) fn serve(told: &Told<'_>) -> anyhow::Result<()> {
    let root = told.root;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let project = goondan::load(&root.join(told.project));
        let bundle = project
            .bundle
            .ok_or_else(|| anyhow!("{:?}", project.diagnostics))?;
        let mut builder = Swarm::builder(bundle)
            .state_root(root.join(told.state))
            .environment(Environment::default());
        if told.store.is_none() {
            builder = builder.approver(Arc::new(approve_late()));
        }
        if let Some(store) = told.store {
            builder = builder.approve_all(true);
            let database = project::database(store, root)?.waiting();
            let database = match told.turns {
                Some(most) => database.turns(most),
                None => database,
            };
            builder = builder.database(match told.proxy {
                Some(proxy) => database.by_way_of(proxy),
                None => database,
            });
        }
        let swarm = builder
            .start()
            .await
            .map_err(|error| anyhow!("{error}: {error:?}"))?;
        say(&Said::Ready)?;
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let mut taken_over = std::pin::pin!(swarm.taken_over());
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Some(line) = line? else { break };
                    let job: Job = serde_json::from_str(&line).context("a job")?;
                    tokio::spawn(handle(swarm.clone(), job));
                }
                () = &mut taken_over => std::process::exit(TAKEN_OVER),
            }
        }
        swarm.shutdown().await;
        Ok(())
    })
}

/// Returns an approver that approves each call, some time after it was asked. So approval requests are open at almost all
/// times.
fn approve_late() -> ApprovalBroker {
    let broker = ApprovalBroker::default();
    let mut listener = broker.listen();
    tokio::spawn(async move {
        while let Some(question) = listener.next().await {
            tokio::spawn(async move {
                let thinking = rand::rng().random_range(10..300);
                tokio::time::sleep(Duration::from_millis(thinking)).await;
                question.answer(ApprovalAnswer::ONCE);
            });
        }
    });
    broker
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
        Err(_) => return say(&Said::Refused(job.id)),
    };
    say(&Said::Accepted(job.id.clone()))?;
    if let Some(result) = turn.result().await {
        let reason = serde_json::to_value(result.finish_reason)?;
        say(&Said::Done(
            job.id,
            reason.as_str().unwrap_or_default().to_owned(),
        ))?;
    }
    Ok(())
}

fn say(said: &Said) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    Ok(stdout.flush()?)
}
