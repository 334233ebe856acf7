//! Processes that go on after the call that started them.
//!
//! A process belongs to the agent instance that started it, and nobody else sees it. All of them end with the
//! [`Processes`] that holds them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use goondan_core::ports::tool::{ToolContext, ToolError};
use goondan_spec::Code;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::capture::Capture;
use crate::line::{Started, Work};
use crate::process::{Failure, Signal, passing, while_reading};
use crate::state::{Owner, lock};

/// How many processes an instance may have running.
const MOST_RUNNING: usize = 32;
/// How many of an instance's processes are remembered, ended ones included.
const MOST_REMEMBERED: usize = 64;
/// How much of either output is kept between two looks.
const KEEP: usize = 10_000;
/// How long input may wait for a process that does not read.
const INPUT: Duration = Duration::from_secs(5);

/// The background processes of a swarm.
#[derive(Default)]
pub(crate) struct Processes {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    started: u64,
    all: BTreeMap<(Owner, u64), Arc<Background>>,
}

impl Processes {
    /// Starts a program, which runs the command line `line`, and returns its id. It is ended after `limit`, if there is one.
    pub(crate) async fn start(
        &self,
        ctx: &ToolContext,
        line: &str,
        work: Work,
        limit: Option<Duration>,
    ) -> Result<String, ToolError> {
        let owner = Owner::of(ctx);
        lock(&self.table).make_room(&owner)?;
        let process = Background::start(line, work, limit).await;
        let process = process.map_err(|error| Failure::from(error).into_error("the command"))?;
        let mut table = lock(&self.table);
        // Others may have come meanwhile.
        table.make_room(&owner)?;
        table.started += 1;
        let number = table.started;
        table.all.insert((owner, number), Arc::new(process));
        Ok(format!("p{number}"))
    }

    /// Ends the processes of an instance, and forgets them.
    pub(crate) fn end_of(&self, owner: &Owner) {
        let mut table = lock(&self.table);
        let keys: Vec<_> = table.of(owner).map(|(key, _)| key.clone()).collect();
        for key in keys {
            if let Some(process) = table.all.remove(&key) {
                process.stop.cancel();
            }
        }
    }

    /// Ends all processes, and waits until they have ended: first they are asked to, then killed.
    pub(crate) async fn shutdown(&self) {
        let all = std::mem::take(&mut lock(&self.table).all);
        all.values().for_each(|process| process.stop.cancel());
        futures::future::join_all(all.values().map(|process| process.done.cancelled())).await;
    }

    /// The caller's process of this id.
    pub(crate) fn find(&self, ctx: &ToolContext, id: &str) -> Result<Arc<Background>, ToolError> {
        let owner = Owner::of(ctx);
        let table = lock(&self.table);
        let number = id.strip_prefix('p').and_then(|number| number.parse().ok());
        if let Some(process) = number.and_then(|number| table.all.get(&(owner.clone(), number))) {
            return Ok(Arc::clone(process));
        }
        let known: Vec<String> = table
            .of(&owner)
            .map(|((_, number), _)| format!("p{number}"))
            .collect();
        let known = if known.is_empty() {
            "there is none".to_owned()
        } else {
            known.join(", ")
        };
        Err(ToolError::new(format!("there is no process `{id}`"))
            .code(Code::TOOL_PROCESS_NOT_FOUND)
            .suggest(format!(
                "processes of this conversation: {known}; they end when the swarm ends"
            )))
    }
}

impl Table {
    fn of(&self, owner: &Owner) -> impl Iterator<Item = (&(Owner, u64), &Arc<Background>)> {
        let from = (owner.clone(), 0);
        self.all
            .range(from..)
            .take_while(move |((other, _), _)| other == owner)
    }

    /// Refuses a process too many, and forgets the oldest that have ended.
    fn make_room(&mut self, owner: &Owner) -> Result<(), ToolError> {
        let ended: Vec<_> = self
            .of(owner)
            .filter(|(_, process)| process.end().is_some())
            .map(|(key, _)| key.clone())
            .collect();
        let all = self.of(owner).count();
        if all - ended.len() >= MOST_RUNNING {
            return Err(
                ToolError::new(format!("{MOST_RUNNING} processes are running already"))
                    .code(Code::TOOL_TOO_MANY_PROCESSES)
                    .suggest("end one with action `signal` first"),
            );
        }
        for key in ended.iter().take((all + 1).saturating_sub(MOST_REMEMBERED)) {
            self.all.remove(key);
        }
        Ok(())
    }
}

/// One process. It is killed, with all that it has started, when this is dropped.
pub(crate) struct Background {
    /// The command line.
    pub(crate) line: String,
    started: Instant,
    state: Arc<Mutex<State>>,
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    signals: mpsc::UnboundedSender<Signal>,
    /// Fires when it shall end.
    stop: CancellationToken,
    /// Fires when it has ended, with all that it has started.
    done: CancellationToken,
    /// Owns the process group.
    _watcher: AbortOnDropHandle<()>,
}

/// What a process has printed since the last look, and how it ended, if it has.
struct State {
    stdout: Capture,
    stderr: Capture,
    end: Option<End>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    /// What the operating system says; none if it would not say.
    pub(crate) status: Option<ExitStatus>,
    /// How long it had been running.
    pub(crate) after: Duration,
}

impl Background {
    async fn start(line: &str, work: Work, limit: Option<Duration>) -> std::io::Result<Background> {
        let mut started = work.start(true).await?;
        let stdin = started.take_input();
        let state = State {
            stdout: Capture::new(KEEP),
            stderr: Capture::new(KEEP),
            end: None,
        };
        let state = Arc::new(Mutex::new(state));
        let (signals, requests) = mpsc::unbounded_channel();
        let (stop, done) = (CancellationToken::new(), CancellationToken::new());
        let ends = Ends {
            limit,
            stop: stop.clone(),
            done: done.clone().drop_guard(),
        };
        let watcher = tokio::spawn(watch(started, requests, ends, Arc::clone(&state)));
        Ok(Background {
            line: line.to_owned(),
            started: Instant::now(),
            state,
            stdin: tokio::sync::Mutex::new(stdin),
            signals,
            stop,
            done,
            _watcher: AbortOnDropHandle::new(watcher),
        })
    }

    /// How it ended; none while it runs.
    pub(crate) fn end(&self) -> Option<End> {
        lock(&self.state).end
    }

    /// How long it has been running, or had been when it ended.
    pub(crate) fn age(&self) -> Duration {
        self.end()
            .map_or_else(|| self.started.elapsed(), |end| end.after)
    }

    /// What it has printed since the last time: standard output and standard error.
    pub(crate) fn take_output(&self) -> (String, String) {
        let mut state = lock(&self.state);
        let stdout = std::mem::replace(&mut state.stdout, Capture::new(KEEP));
        let stderr = std::mem::replace(&mut state.stderr, Capture::new(KEEP));
        (stdout.text(), stderr.text())
    }

    /// Gives it something to read.
    pub(crate) async fn write(&self, input: &str) -> Result<(), ToolError> {
        let failed =
            |message: &str| ToolError::new(message.to_owned()).code(Code::TOOL_PROCESS_INPUT);
        if self.end().is_some() {
            return Err(failed("the process has ended and takes no more input"));
        }
        let mut stdin = self.stdin.lock().await;
        let Some(pipe) = stdin.as_mut() else {
            return Err(failed("the process reads no input"));
        };
        let write = async {
            pipe.write_all(input.as_bytes()).await?;
            pipe.flush().await
        };
        match tokio::time::timeout(INPUT, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(failed("the process has closed its input")),
            Err(_) => Err(failed(
                "the process does not read its input, so not all of it arrived",
            )),
        }
    }

    /// Sends a signal to it and to all that it has started.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), ToolError> {
        let ended =
            || ToolError::new("the process has ended already").code(Code::TOOL_PROCESS_ENDED);
        if self.end().is_some() {
            Err(ended())
        } else {
            self.signals.send(signal).map_err(|_| ended())
        }
    }
}

/// What ends a process from outside, and who is told that it has ended.
struct Ends {
    limit: Option<Duration>,
    stop: CancellationToken,
    /// Fires when the watcher is gone, whether it came to its end or was dropped.
    #[expect(dead_code, reason = "it acts when it is dropped")]
    done: DropGuard,
}

/// Follows a process to its end.
async fn watch(
    mut started: Started,
    requests: mpsc::UnboundedReceiver<Signal>,
    ends: Ends,
    state: Arc<Mutex<State>>,
) {
    let begun = Instant::now();
    let (stdout, stderr) = started.take_output();
    let reading = async {
        tokio::join!(
            follow(stdout, |piece| lock(&state).stdout.push(piece)),
            follow(stderr, |piece| lock(&state).stderr.push(piece)),
        );
    };
    let status = while_reading(end_of(&mut started, requests, &ends), reading).await;
    // What it has left behind ends with it.
    drop(started);
    lock(&state).end = Some(End {
        status: status.ok(),
        after: begun.elapsed(),
    });
}

/// Waits for the end of a process, passes signals on to it, and ends it at the limit.
async fn end_of(
    started: &mut Started,
    mut requests: mpsc::UnboundedReceiver<Signal>,
    ends: &Ends,
) -> std::io::Result<ExitStatus> {
    let mut limit = pin!(passing(ends.limit));
    loop {
        tokio::select! {
            status = started.wait() => return status,
            () = &mut limit => return started.end().await,
            () = ends.stop.cancelled() => return started.end().await,
            Some(signal) = requests.recv() => started.signal(signal),
        }
    }
}

/// Hands on what comes from a pipe.
async fn follow(pipe: Option<impl AsyncRead + Unpin>, push: impl Fn(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        push(&buffer[..count]);
    }
}
