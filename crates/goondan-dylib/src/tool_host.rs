//! The host process of `isolation: process`, which `gdn tool-host PATH` runs.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use goondan_abi::raw::{NO_CALL, Status};
use goondan_abi::wire;
use goondan_core::plugin_session::RunningMessage;
use goondan_core::ports::tool::HandlerError;

use crate::failure::LibraryFailure;
use crate::hosted::protocol::{ToolHostMessage, read_line, to_line};
use crate::image;
use crate::library_messages::{LibraryCallbacks, LibraryCommand, Outcome};
use crate::library_thread::{LibraryThread, LibraryThreadStart};
use crate::limits::LibraryLimits;
use crate::staging::file_name;

/// Maximum number of requests without an answer. Further ones are refused, so that a library cannot
/// exhaust the memory.
const MAX_OPEN_REQUESTS: usize = 1_024;

/// Interval of checking if a closing thread has ended.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Serves the library at `path` over standard input and output, until the input ends.
///
/// Output that the library prints goes to standard error, because standard output carries the
/// protocol.
///
/// # Errors
///
/// Fails like [`serve`].
pub fn run(path: &Path) -> io::Result<()> {
    let output = take_stdout()?;
    serve(path, io::stdin().lock(), output)
}

#[cfg(unix)]
fn take_stdout() -> io::Result<impl Write + Send + 'static> {
    use std::os::fd::AsFd;
    let output = std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(output)
}

#[cfg(not(unix))]
fn take_stdout() -> io::Result<impl Write + Send + 'static> {
    Ok(io::stdout())
}

/// Serves the library at `path`: one JSON value per line, from `input` and to `output`, until
/// `input` ends.
///
/// Loads the file directly: the parent process has already made a private copy.
///
/// # Errors
///
/// Fails on invalid input or broken pipes. If the library cannot be opened, `output` reports that.
pub fn serve(
    path: &Path,
    input: impl BufRead,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let limits = LibraryLimits::default();
    let (lines, queue) = channel();
    let writer = std::thread::Builder::new()
        .name("output".to_owned())
        .spawn(move || write_all(output, &queue))?;
    let pipe = Arc::new(ToolHostPipe {
        lines,
        calls: Mutex::default(),
        open_requests: AtomicUsize::new(0),
    });
    let served = match open(path, &pipe, &limits) {
        Ok((library, manifest)) => {
            pipe.put(ToolHostMessage::Opened(manifest));
            let read = pass_down(input, &pipe, &library, &limits);
            close(library, limits.close_grace);
            read
        }
        Err(failure) => {
            pipe.put(ToolHostMessage::Failed(failure.report()));
            Ok(())
        }
    };
    let _ = pipe.lines.send(None);
    let _ = writer.join();
    served
}

/// Opens the library at `path` on its own thread, and waits for its manifest.
fn open(
    path: &Path,
    pipe: &Arc<ToolHostPipe>,
    limits: &LibraryLimits,
) -> Result<(LibraryThreadHandle, wire::Manifest), LibraryFailure> {
    let name = file_name(path);
    image::check(&name, path)?;
    let start = LibraryThreadStart {
        path: path.to_owned(),
        name: name.clone(),
        callbacks: Arc::clone(pipe) as _,
        limits: limits.clone(),
        counters: Arc::default(),
    };
    let LibraryThread {
        command_sender,
        opened,
        thread,
    } = start.spawn().map_err(|cause| LibraryFailure::NoThread {
        name: name.clone(),
        cause,
    })?;
    // The parent has its own timeout and then ends this process.
    let description = opened
        .blocking_recv()
        .map_err(|_| LibraryFailure::Cancelled { name })??;
    Ok((
        LibraryThreadHandle {
            command_sender,
            thread,
        },
        description.manifest,
    ))
}

struct LibraryThreadHandle {
    command_sender: tokio::sync::mpsc::UnboundedSender<LibraryCommand>,
    thread: JoinHandle<()>,
}

/// Passes commands from `input` to the library until `Close` or the end of the input.
fn pass_down(
    mut input: impl BufRead,
    pipe: &ToolHostPipe,
    library: &LibraryThreadHandle,
    limits: &LibraryLimits,
) -> io::Result<()> {
    while let Some(command) = read_line::<LibraryCommand>(&mut input, limits.max_line())? {
        match &command {
            LibraryCommand::Start { call, .. } | LibraryCommand::Extend { call, .. } => {
                pipe.calls().insert(*call, false);
            }
            LibraryCommand::Cancel { call } => {
                if let Some(cancelled) = pipe.calls().get_mut(call) {
                    *cancelled = true;
                }
            }
            LibraryCommand::Reply { .. } => pipe.count_reply(),
            LibraryCommand::Close => break,
        }
        if library.command_sender.send(command).is_err() {
            break;
        }
    }
    Ok(())
}

/// Closes the library, and waits slightly longer than its grace period. Remaining threads end with
/// the process.
fn close(library: LibraryThreadHandle, grace: Duration) {
    let _ = library.command_sender.send(LibraryCommand::Close);
    let deadline = Instant::now() + grace + grace / 2;
    while !library.thread.is_finished() && Instant::now() < deadline {
        std::thread::sleep(EXIT_POLL_INTERVAL);
    }
}

/// Writes messages until the end mark, or until the parent closes the pipe.
fn write_all(mut output: impl Write, queue: &Receiver<Option<ToolHostMessage>>) {
    while let Ok(Some(message)) = queue.recv() {
        // The parent is gone, so the input is about to end as well.
        let written = to_line(&message)
            .and_then(|line| output.write_all(&line))
            .and_then(|()| output.flush());
        if written.is_err() {
            return;
        }
    }
}

struct ToolHostPipe {
    /// `None` marks the end.
    lines: Sender<Option<ToolHostMessage>>,
    /// Open calls; true if the call is cancelled.
    calls: Mutex<HashMap<u64, bool>>,
    /// Number of requests without an answer.
    open_requests: AtomicUsize,
}

impl ToolHostPipe {
    /// Counts a request; returns false if there are too many.
    fn try_count_request(&self) -> bool {
        let incremented = |count| (count < MAX_OPEN_REQUESTS).then_some(count + 1);
        self.open_requests
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, incremented)
            .is_ok()
    }

    /// Counts the reply to a request.
    fn count_reply(&self) {
        let decremented = |count: usize| Some(count.saturating_sub(1));
        let _ = self
            .open_requests
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, decremented);
    }

    /// Queues a message for the parent.
    fn put(&self, message: ToolHostMessage) -> Status {
        if self.lines.send(Some(message)).is_ok() {
            Status::OK
        } else {
            Status::CLOSED
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<u64, bool>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LibraryCallbacks for ToolHostPipe {
    fn complete(&self, call: u64, outcome: Outcome) -> Status {
        match self.calls().remove(&call) {
            Some(_) => self.put(ToolHostMessage::Complete { call, outcome }),
            None => Status::UNKNOWN_CALL,
        }
    }

    fn event(&self, call: u64, event: RunningMessage) -> Status {
        if call != NO_CALL && !self.calls().contains_key(&call) {
            return Status::UNKNOWN_CALL;
        }
        if matches!(event, RunningMessage::Request { .. }) && !self.try_count_request() {
            return Status::BUSY;
        }
        self.put(ToolHostMessage::Event { call, event })
    }

    fn is_cancelled(&self, call: u64) -> bool {
        self.calls().get(&call).copied().unwrap_or(true)
    }

    fn must_start(&self, call: u64) -> bool {
        self.calls().contains_key(&call)
    }

    fn close(&self, _why: &HandlerError) {
        // The parent detects the closed pipe and answers the open calls.
        self.calls().clear();
    }
}
