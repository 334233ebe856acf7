//! Background processes that outlive the call that started them.
//!
//! A process belongs to the agent instance that started it, and other instances cannot access it.
//! All processes end when their [`BackgroundProcesses`] is dropped.

use std::collections::BTreeMap;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use goondan_core::ids::derived_id;
use goondan_core::ports::tool::{HandlerError, ToolContext};
use goondan_spec::Code;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::command_runner::{PreparedCommand, RunningCommand};
use crate::instance_owner::InstanceOwner;
use crate::mutex_lock::lock;
use crate::output_capture::OutputCapture;
use crate::process::{ProgramFailure, read_until_end, wait_for_limit};
use crate::process_signal::ProcessSignal;

/// Maximum number of running processes per instance.
const MAX_RUNNING_PROCESSES: usize = 32;
/// Maximum number of remembered processes per instance, including ended ones.
const MAX_REMEMBERED_PROCESSES: usize = 64;
/// Number of bytes kept of each output between two polls.
const KEPT_POLL_BYTES: usize = 10_000;
/// Maximum time to write input to a process that does not read.
const INPUT_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct BackgroundProcesses {
    table: Mutex<BackgroundProcessTable>,
}

#[derive(Default)]
struct BackgroundProcessTable {
    started: u64,
    all: BTreeMap<(InstanceOwner, u64), Arc<BackgroundProcess>>,
}

impl BackgroundProcesses {
    /// Starts a program and returns its id. `line` is its command line. It is ended after `limit`,
    /// if any.
    pub(crate) async fn start(
        &self,
        ctx: &ToolContext,
        line: &str,
        work: PreparedCommand,
        limit: Option<Duration>,
    ) -> Result<String, HandlerError> {
        let owner = InstanceOwner::from_context(ctx);
        lock(&self.table).make_room(&owner)?;
        let process = BackgroundProcess::start(line, work, limit).await;
        let process =
            process.map_err(|error| ProgramFailure::from(error).into_error("the command"))?;
        let mut table = lock(&self.table);
        // Concurrent calls may have added processes.
        table.make_room(&owner)?;
        table.started += 1;
        let number = table.started;
        table.all.insert((owner, number), Arc::new(process));
        Ok(format!("p{number}"))
    }

    /// Ends the processes of an instance, and removes them.
    pub(crate) fn end_processes_of(&self, owner: &InstanceOwner) {
        let mut table = lock(&self.table);
        let keys: Vec<_> = table.owned_by(owner).map(|(key, _)| key.clone()).collect();
        for key in keys {
            if let Some(process) = table.all.remove(&key) {
                process.stop.cancel();
            }
        }
    }

    /// Terminates all processes, kills them after a grace period, and waits until they have ended.
    pub(crate) async fn shutdown(&self) {
        let processes = std::mem::take(&mut lock(&self.table).all);
        processes.values().for_each(|process| process.stop.cancel());
        futures::future::join_all(processes.values().map(|process| process.done.cancelled())).await;
    }

    /// Returns the caller's process with this id.
    pub(crate) fn find(
        &self,
        ctx: &ToolContext,
        id: &str,
    ) -> Result<Arc<BackgroundProcess>, HandlerError> {
        let owner = InstanceOwner::from_context(ctx);
        let table = lock(&self.table);
        let number = id.strip_prefix('p').and_then(|number| number.parse().ok());
        if let Some(process) = number.and_then(|number| table.all.get(&(owner.clone(), number))) {
            return Ok(Arc::clone(process));
        }
        let process_names: Vec<String> = table
            .owned_by(&owner)
            .map(|((_, number), _)| format!("p{number}"))
            .collect();
        let process_names = if process_names.is_empty() {
            "none".to_owned()
        } else {
            process_names.join(", ")
        };
        Err(HandlerError::new(format!("there is no process `{id}`"))
            .code(Code::TOOL_PROCESS_NOT_FOUND)
            .suggest(format!(
                "processes of this conversation: {process_names}; all processes end with the swarm"
            )))
    }
}

impl BackgroundProcessTable {
    /// Returns the processes of `owner`, with their keys.
    fn owned_by(
        &self,
        owner: &InstanceOwner,
    ) -> impl Iterator<Item = (&(InstanceOwner, u64), &Arc<BackgroundProcess>)> {
        let from = (owner.clone(), 0);
        self.all
            .range(from..)
            .take_while(move |((other, _), _)| other == owner)
    }

    /// Refuses a process above the limit, and removes the oldest ended ones.
    fn make_room(&mut self, owner: &InstanceOwner) -> Result<(), HandlerError> {
        let ended: Vec<_> = self
            .owned_by(owner)
            .filter(|(_, process)| process.end().is_some())
            .map(|(key, _)| key.clone())
            .collect();
        let owned_count = self.owned_by(owner).count();
        if owned_count - ended.len() >= MAX_RUNNING_PROCESSES {
            return Err(HandlerError::new(format!(
                "{MAX_RUNNING_PROCESSES} processes are already running"
            ))
            .code(Code::TOOL_TOO_MANY_PROCESSES)
            .suggest("first end a process with action `signal`"));
        }
        for key in ended
            .iter()
            .take((owned_count + 1).saturating_sub(MAX_REMEMBERED_PROCESSES))
        {
            self.all.remove(key);
        }
        Ok(())
    }
}

/// One process. Dropping it kills the process with its child processes.
pub(crate) struct BackgroundProcess {
    pub(crate) line: String,
    /// Id that no other process has, even after a restart.
    pub(crate) identity: String,
    started: Instant,
    state: Arc<Mutex<BackgroundProcessState>>,
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    signals: mpsc::UnboundedSender<ProcessSignal>,
    /// Fires when the process must end.
    stop: CancellationToken,
    /// Fires when the process has ended with its child processes.
    done: CancellationToken,
    /// Owns the process group.
    _watcher: AbortOnDropHandle<()>,
}

/// Returns an id from this process and the time.
fn new_identity() -> String {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let time = since_epoch.unwrap_or_default().as_nanos().to_string();
    derived_id(&[&std::process::id().to_string(), &time])
}

/// The output since the last poll, and the end of the process.
struct BackgroundProcessState {
    stdout: OutputCapture,
    stderr: OutputCapture,
    end: Option<ProcessEnd>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessEnd {
    /// The exit status; `None` if it is unknown.
    pub(crate) status: Option<ExitStatus>,
    /// Run time until the end.
    pub(crate) after: Duration,
}

impl BackgroundProcess {
    /// Starts a process whose output is collected. After `limit`, the process is killed.
    async fn start(
        line: &str,
        work: PreparedCommand,
        limit: Option<Duration>,
    ) -> std::io::Result<BackgroundProcess> {
        let mut started = work.start(true).await?;
        let stdin = started.take_input();
        let state = BackgroundProcessState {
            stdout: OutputCapture::new(KEPT_POLL_BYTES),
            stderr: OutputCapture::new(KEPT_POLL_BYTES),
            end: None,
        };
        let state = Arc::new(Mutex::new(state));
        let (signals, requests) = mpsc::unbounded_channel();
        let (stop, done) = (CancellationToken::new(), CancellationToken::new());
        let end_triggers = ProcessEndTriggers {
            limit,
            stop: stop.clone(),
            done: done.clone().drop_guard(),
        };
        let watcher = tokio::spawn(watch_process(
            started,
            requests,
            end_triggers,
            Arc::clone(&state),
        ));
        Ok(BackgroundProcess {
            line: line.to_owned(),
            identity: new_identity(),
            started: Instant::now(),
            state,
            stdin: tokio::sync::Mutex::new(stdin),
            signals,
            stop,
            done,
            _watcher: AbortOnDropHandle::new(watcher),
        })
    }

    /// Returns the end of the process; `None` while it is running.
    pub(crate) fn end(&self) -> Option<ProcessEnd> {
        lock(&self.state).end
    }

    /// Returns the run time until now or until its end.
    pub(crate) fn age(&self) -> Duration {
        self.end()
            .map_or_else(|| self.started.elapsed(), |end| end.after)
    }

    /// Takes the standard output and standard error since the last call. While the process runs,
    /// an unfinished character at the end waits for the next call.
    pub(crate) fn take_output(&self) -> (String, String) {
        let mut state = lock(&self.state);
        let is_running = state.end.is_none();
        let take_text = |stream: &mut OutputCapture| {
            let unfinished = if is_running {
                stream.take_unfinished()
            } else {
                Vec::new()
            };
            let output = std::mem::replace(stream, OutputCapture::new(KEPT_POLL_BYTES));
            stream.push(&unfinished);
            output.text()
        };
        (take_text(&mut state.stdout), take_text(&mut state.stderr))
    }

    /// Writes `input` to the process's standard input.
    pub(crate) async fn write(&self, input: &str) -> Result<(), HandlerError> {
        let failed =
            |message: &str| HandlerError::new(message.to_owned()).code(Code::TOOL_PROCESS_INPUT);
        if self.end().is_some() {
            return Err(failed("the process has ended and accepts no input"));
        }
        let mut stdin = self.stdin.lock().await;
        let Some(pipe) = stdin.as_mut() else {
            return Err(failed("the process does not accept input"));
        };
        let write = async {
            pipe.write_all(input.as_bytes()).await?;
            pipe.flush().await
        };
        match tokio::time::timeout(INPUT_WRITE_TIMEOUT, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(failed("the process has closed its input")),
            Err(_) => Err(failed(
                "the process stopped reading its input; only a part was written",
            )),
        }
    }

    /// Sends a signal to the process and its child processes.
    pub(crate) fn signal(&self, signal: ProcessSignal) -> Result<(), HandlerError> {
        let ended =
            || HandlerError::new("the process has already ended").code(Code::TOOL_PROCESS_ENDED);
        if self.end().is_some() {
            Err(ended())
        } else {
            self.signals.send(signal).map_err(|_| ended())
        }
    }
}

/// The triggers that end a process, and the signal of its end.
struct ProcessEndTriggers {
    limit: Option<Duration>,
    stop: CancellationToken,
    /// Fires when the watcher completes or is dropped.
    #[expect(dead_code, reason = "it acts when it is dropped")]
    done: DropGuard,
}

/// Follows a process to its end.
async fn watch_process(
    mut started: RunningCommand,
    requests: mpsc::UnboundedReceiver<ProcessSignal>,
    ends: ProcessEndTriggers,
    state: Arc<Mutex<BackgroundProcessState>>,
) {
    let begun = Instant::now();
    let (stdout, stderr) = started.take_output();
    let reading = async {
        tokio::join!(
            forward_pipe(stdout, |piece| lock(&state).stdout.push(piece)),
            forward_pipe(stderr, |piece| lock(&state).stderr.push(piece)),
        );
    };
    let status = read_until_end(wait_for_end(&mut started, requests, &ends), reading).await;
    // Dropping it kills leftover child processes.
    drop(started);
    lock(&state).end = Some(ProcessEnd {
        status: status.ok(),
        after: begun.elapsed(),
    });
}

/// Waits for the end of a process, forwards signals, and ends it at the limit.
async fn wait_for_end(
    started: &mut RunningCommand,
    mut requests: mpsc::UnboundedReceiver<ProcessSignal>,
    ends: &ProcessEndTriggers,
) -> std::io::Result<ExitStatus> {
    let mut limit = pin!(wait_for_limit(ends.limit));
    loop {
        tokio::select! {
            status = started.wait() => return status,
            () = &mut limit => return started.end().await,
            () = ends.stop.cancelled() => return started.end().await,
            Some(signal) = requests.recv() => started.signal(signal),
        }
    }
}

/// Forwards the data of a pipe.
async fn forward_pipe(pipe: Option<impl AsyncRead + Unpin>, push: impl Fn(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        push(&buffer[..count]);
    }
}
