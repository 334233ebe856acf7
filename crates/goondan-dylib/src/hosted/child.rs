//! One run of a library host process, from its start to its exit.

use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use goondan_abi::wire;
use goondan_core::plugin_session::RunningMessage;
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use tokio::sync::{mpsc, oneshot};

use super::protocol::{ToolHostMessage, read_line, to_line};
use crate::calls::LibraryCalls;
use crate::connection::LibraryConnection;
use crate::counters::LibraryCounters;
use crate::failure::LibraryFailure;
use crate::library_messages::{LibraryCallbacks, LibraryCommand};
use crate::library_thread;
use crate::limits::LibraryLimits;

/// Interval of checking if a process has ended.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The command that starts a host process, with the library's path as last argument, such as `gdn
/// tool-host PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// The program, preferably as an absolute path.
    pub program: PathBuf,
    /// The arguments before the library's path.
    pub args: Vec<String>,
}

/// The handling of a request if the call's queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FullQueuePolicy {
    /// The request is dropped: calls of a process must not wait for each other.
    OrLost,
    /// Reading from the process pauses, because there is only one call.
    InTurn,
}

pub(crate) struct HostProcess {
    pub(crate) connection: Arc<LibraryConnection>,
    child: Arc<SharedChild>,
}

/// The result of a start: the process, its library's manifest, and the reader thread.
pub(crate) struct StartedHostProcess {
    pub(crate) process: HostProcess,
    pub(crate) manifest: wire::Manifest,
    pub(crate) command_sender: mpsc::WeakUnboundedSender<LibraryCommand>,
    pub(crate) reader: JoinHandle<()>,
}

struct SharedChild {
    child: Mutex<Child>,
    ended: OnceLock<Instant>,
}

impl SharedChild {
    fn lock(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first message of a host process: the manifest of its library, or the failure.
type Opened = Result<wire::Manifest, LibraryFailure>;

impl HostProcess {
    /// Starts the process and waits until it opened the library at `path`.
    pub(crate) async fn start(
        command: &HostCommand,
        path: &Path,
        name: &str,
        limits: &LibraryLimits,
        counters: &Arc<LibraryCounters>,
        queue_policy: FullQueuePolicy,
    ) -> Result<StartedHostProcess, LibraryFailure> {
        let child = spawn(command, path).map_err(|cause| LibraryFailure::NoHost {
            name: name.to_owned(),
            program: command.program.clone(),
            cause,
        })?;
        let calls = Arc::new(LibraryCalls::new(name, limits, counters));
        let (command_sender, commands) = mpsc::unbounded_channel();
        let weak = command_sender.downgrade();
        let connection = Arc::new(LibraryConnection::new(command_sender, Arc::clone(&calls)));
        let shared = Arc::new(SharedChild {
            child: Mutex::new(child),
            ended: OnceLock::new(),
        });
        let process = HostProcess {
            connection,
            child: shared,
        };

        let (ready, opened) = oneshot::channel();
        let reader = process
            .serve(name, &calls, commands, ready, limits, queue_policy)
            .map_err(|cause| {
                process.kill();
                LibraryFailure::MuteHost {
                    name: name.to_owned(),
                    cause,
                }
            })?;
        let manifest = process.handshake(opened, name, limits.open_timeout).await?;
        Ok(StartedHostProcess {
            process,
            manifest,
            command_sender: weak,
            reader,
        })
    }

    /// Starts the writer and reader threads, and returns the reader.
    fn serve(
        &self,
        name: &str,
        calls: &Arc<LibraryCalls>,
        commands: mpsc::UnboundedReceiver<LibraryCommand>,
        ready: oneshot::Sender<Opened>,
        limits: &LibraryLimits,
        queue_policy: FullQueuePolicy,
    ) -> std::io::Result<JoinHandle<()>> {
        let pipes = |child: &mut Child| child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes(&mut self.child.lock())
            .ok_or_else(|| std::io::Error::other("it has no pipes"))?;
        let writer = HostProcessWriter {
            calls: Arc::clone(calls),
            child: Arc::clone(&self.child),
            line_limit: limits.max_line(),
            time_limit: limits.close_grace * 2,
        };
        let reader = HostProcessReader {
            name: name.to_owned(),
            calls: Arc::clone(calls),
            child: Arc::clone(&self.child),
            line_limit: limits.max_line(),
            queue_policy,
        };
        thread(&format!("write {name}"), move || {
            writer.run(stdin, commands)
        })?;
        thread(&format!("read {name}"), move || reader.run(stdout, ready))
    }

    /// Waits for the first message of the process, which is killed after `time_limit`.
    async fn handshake(
        &self,
        opened: oneshot::Receiver<Opened>,
        name: &str,
        time_limit: Duration,
    ) -> Opened {
        match tokio::time::timeout(time_limit, opened).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(_)) => Err(LibraryFailure::DeadHost {
                name: name.to_owned(),
            }),
            Err(_) => {
                self.kill();
                Err(LibraryFailure::SlowHost {
                    name: name.to_owned(),
                    time_limit,
                })
            }
        }
    }

    /// Returns the time at which the process ended, if it has.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.child.ended.get().copied()
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        // The process may already have ended.
        let _ = self.child.lock().kill();
    }
}

/// Starts the program with the library's path as last argument, in its own process group.
fn spawn(command: &HostCommand, path: &Path) -> std::io::Result<Child> {
    let mut process = Command::new(&command.program);
    process
        .args(&command.args)
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    // A separate process group: Ctrl-C in a terminal must reach only this program, which then
    // closes its host processes.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut process, 0);
    process.spawn()
}

/// Starts a thread with a name.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
}

/// Writes messages until `LibraryCommand::Close`.
struct HostProcessWriter {
    calls: Arc<LibraryCalls>,
    child: Arc<SharedChild>,
    line_limit: u64,
    /// Time that the process then has to exit.
    time_limit: Duration,
}

impl HostProcessWriter {
    /// Writes commands, then closes the input and kills the process if it does not exit in time.
    fn run(self, mut stdin: ChildStdin, mut commands: mpsc::UnboundedReceiver<LibraryCommand>) {
        while let Some(command) = library_thread::next(&mut commands) {
            if matches!(command, LibraryCommand::Close) || self.write(&mut stdin, command).is_err()
            {
                break;
            }
        }
        drop(stdin);
        let deadline = Instant::now() + self.time_limit;
        while matches!(self.child.lock().try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.child.lock().kill();
                return;
            }
            std::thread::sleep(EXIT_POLL_INTERVAL);
        }
    }

    /// Writes a command. A command that is too long is replaced by a refusal, if its sender waits
    /// for one.
    fn write(&self, stdin: &mut ChildStdin, command: LibraryCommand) -> std::io::Result<()> {
        let line = to_line(&command)?;
        if line.len() as u64 <= self.line_limit {
            return stdin.write_all(&line);
        }
        match command.or_refusal(self.line_limit, self.calls.as_ref()) {
            Some(refusal) => stdin.write_all(&to_line(&refusal)?),
            None => Ok(()),
        }
    }
}

/// Reads messages until the process ends.
struct HostProcessReader {
    name: String,
    calls: Arc<LibraryCalls>,
    child: Arc<SharedChild>,
    line_limit: u64,
    queue_policy: FullQueuePolicy,
}

impl HostProcessReader {
    /// Handles messages until the process ends, then closes its calls.
    fn run(self, stdout: ChildStdout, ready: oneshot::Sender<Opened>) {
        let mut input = BufReader::new(stdout);
        let mut ready = Some(ready);
        let problem = loop {
            match read_line(&mut input, self.line_limit) {
                Ok(Some(message)) => self.handle_message(message, &mut ready),
                Ok(None) => break None,
                Err(cause) => break Some(cause.to_string()),
            }
        };
        if problem.is_some() {
            // After a protocol error, no further message can be trusted.
            let _ = self.child.lock().kill();
        }
        let ending = self.wait();
        let reason = problem.map_or(ending, |problem| format!("it was killed: {problem}"));
        self.calls.close(
            &HandlerError::new(format!(
                "the library host process of {} ended: {reason}",
                self.name
            ))
            .code(Code::TOOL_UNAVAILABLE)
            .suggest("The next call restarts the process. Try other arguments."),
        );
    }

    /// Handles one message. `ready` receives the result of opening the library.
    fn handle_message(
        &self,
        message: ToolHostMessage,
        ready: &mut Option<oneshot::Sender<Opened>>,
    ) {
        let mut report = |opened| {
            if let Some(ready) = ready.take() {
                let _ = ready.send(opened);
            }
        };
        match message {
            ToolHostMessage::Opened(manifest) => report(Ok(manifest)),
            ToolHostMessage::Failed(failure) => report(Err(LibraryFailure::Reported(failure))),
            ToolHostMessage::Complete { call, outcome } => {
                self.calls.complete(call, outcome);
            }
            ToolHostMessage::Event {
                call,
                event: event @ RunningMessage::Request { .. },
            } if self.queue_policy == FullQueuePolicy::InTurn => {
                self.calls.forward_request(call, event);
            }
            ToolHostMessage::Event { call, event } => {
                self.calls.event(call, event);
            }
        }
    }

    /// Waits for the end of the process, and describes it.
    fn wait(&self) -> String {
        let status = loop {
            match self.child.lock().try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) => {}
                Err(cause) => break cause.to_string(),
            }
            std::thread::sleep(EXIT_POLL_INTERVAL);
        };
        let _ = self.child.ended.set(Instant::now());
        status
    }
}
