//! Start time of a workspace with many past turns: `trials starts target/debug/gdn 10000 100000 9`.
//!
//! Fills a workspace with conversations and turns. Then runs `gdn run` in it and in a workspace with
//! one conversation, in turn, each time with a new key. Prints the median time from the start of the
//! process until its first model request, the ratio of both, and the time of `gdn conversation list`.

#![allow(clippy::print_stdout, reason = "output of the program")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use goondan::ids::InstanceId;
use goondan::ports::store::{BaseChange, ConversationStore as _, InstanceMeta, WorkspaceLog as _};
use goondan_store::jsonl::{JsonlStore, layout};
use goondan_store::suite::samples::{accepted, event, finished, messages, meta};

/// Name of the workspace.
const WORKSPACE: &str = "starts";

/// Time limit until a started process sends its first model request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

const ANSWER: &str = "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":\
    {\"role\":\"assistant\",\"content\":\"fine\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Runs the trial of the command line.
#[tokio::main]
pub async fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [program, conversations, turns, rounds] = arguments else {
        anyhow::bail!("usage: trials starts GDN CONVERSATIONS TURNS ROUNDS")
    };
    let program = std::path::absolute(program)?;
    let (conversations, turns): (usize, usize) = (conversations.parse()?, turns.parse()?);
    let folder = tempfile::tempdir()?;
    let (requests, received) = channel();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let project = folder.path().join("project");
    write_project(&project, listener.local_addr()?.port())?;
    std::thread::spawn(move || answer(&listener, &requests));
    let (old, fresh) = (folder.path().join("old"), folder.path().join("fresh"));
    let begin = Instant::now();
    fill(
        &layout::workspace_dir(&old, WORKSPACE),
        conversations,
        turns,
    )
    .await?;
    println!("filled in {:.0} s", begin.elapsed().as_secs_f64());
    let trial = StartTrial {
        program,
        project,
        received,
    };
    // The first start in each workspace creates files.
    for (number, state) in [&fresh, &old, &old].into_iter().enumerate() {
        trial.start(state, &format!("first{number}"))?;
    }
    let (mut with_past, mut without) = (Vec::new(), Vec::new());
    for round in 0..rounds.parse()? {
        without.push(trial.start(&fresh, &format!("r{round}"))?);
        with_past.push(trial.start(&old, &format!("r{round}"))?);
    }
    let (with_past, without) = (median(with_past), median(without));
    println!("first request, fresh workspace: {:.1} ms", millis(without));
    println!(
        "first request, {conversations} conversations and {turns} turns: {:.1} ms",
        millis(with_past)
    );
    println!(
        "ratio: {:.2}",
        with_past.as_secs_f64() / without.as_secs_f64()
    );
    let lists: Vec<Duration> = (0..5)
        .map(|_| trial.list(&old))
        .collect::<anyhow::Result<_>>()?;
    println!("conversation list: {:.1} ms", millis(median(lists)));
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Writes a project whose model is at this port.
fn write_project(project: &Path, port: u16) -> anyhow::Result<()> {
    std::fs::create_dir_all(project)?;
    let text = format!(
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: m}}\nspec:\n  provider: openai-compatible\n  \
         endpoint: http://127.0.0.1:{port}\n  model: mock\n---\n\
         apiVersion: goondan.ai/v1\nkind: Agent\nmetadata: {{name: a}}\nspec: {{modelConfig: {{modelRef: Model/m}}}}\n---\n\
         apiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: {{name: default}}\nspec:\n  instanceKey: {WORKSPACE}\n  \
         entryAgent: Agent/a\n  agents: [{{ref: Agent/a}}]\n  policy: {{maxInstances: 1000000}}\n"
    );
    std::fs::write(project.join("goondan.yaml"), text)?;
    Ok(())
}

/// Answers each model request, and reports the time of its arrival.
fn answer(listener: &TcpListener, requests: &Sender<Instant>) {
    for stream in listener.incoming().flatten() {
        if requests.send(Instant::now()).is_err() {
            return;
        }
        let mut reader = BufReader::new(&stream);
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
            let header = line.to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or_default();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        let _ = reader.read_exact(&mut body);
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let _ = (&stream).write_all(format!("{head}{ANSWER}").as_bytes());
    }
}

/// Runs turns with one message each, spread over the conversations, and ends the process.
async fn fill(workspace: &Path, conversations: usize, turns: usize) -> anyhow::Result<()> {
    let store = JsonlStore::open(workspace)?;
    for turn in 0..turns {
        let id = InstanceId::new("a", format!("k{}", turn % conversations));
        let name = format!("turn{turn}");
        let event = event(&name, &id);
        let accepted = store.append(accepted(&event));
        let lease = store.claim(&id).await?;
        let mut conversation = store.open(lease).await?;
        let meta: InstanceMeta = meta(&id);
        let change = messages(&[&name]);
        accepted.await?;
        let end = conversation.end_turn(finished(&event), BaseChange::Append(&change), meta);
        ensure!(end.await?, "a turn did not end");
    }
    drop(store);
    Ok(())
}

/// Starts of a program in a project whose model reports its requests.
struct StartTrial {
    program: PathBuf,
    project: PathBuf,
    /// Times of the received model requests.
    received: Receiver<Instant>,
}

impl StartTrial {
    fn command(&self, state: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.project)
            .env_clear()
            .env("HOME", state)
            .env("PATH", "/usr/bin:/bin")
            .env("GOONDAN_TRUST", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Returns the time from the start of a process until its first model request.
    fn start(&self, state: &Path, key: &str) -> anyhow::Result<Duration> {
        let mut command = self.command(state);
        command.args(["run", "--input", "hello", "--instance-key", key]);
        command.arg("--state-root").arg(state);
        let begin = Instant::now();
        let child = command.spawn()?;
        let arrival = self.received.recv_timeout(REQUEST_TIMEOUT);
        let output = child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{errors}");
        Ok(arrival.with_context(|| errors)? - begin)
    }

    fn list(&self, state: &Path) -> anyhow::Result<Duration> {
        let mut command = self.command(state);
        command.args(["conversation", "list"]);
        command.arg("--state-root").arg(state);
        let begin = Instant::now();
        let output = command.output()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{errors}");
        Ok(begin.elapsed())
    }
}
