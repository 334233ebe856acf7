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

use crate::failure::Failure;
use crate::hosted::protocol::{Up, read_line, to_line};
use crate::image;
use crate::lane::{Lane, LaneStart};
use crate::limits::Limits;
use crate::link::{Down, Event, Outcome, Upcalls};
use crate::staging::file_name;

/// Maximum number of requests without an answer. Further ones are refused, so that a library cannot
/// exhaust the memory.
const MOST_QUESTIONS: usize = 1_024;

/// Interval of checking if a closing thread has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Serves the library at `path` over standard input and output, until the input ends.
///
/// Output that the library prints goes to standard error, because standard output carries the
/// protocol.
///
/// # Errors
///
/// The same as [`serve`].
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
    let limits = Limits::default();
    let (lines, queue) = channel();
    let writer = std::thread::Builder::new()
        .name("output".to_owned())
        .spawn(move || write_all(output, &queue))?;
    let pipe = Arc::new(Pipe {
        lines,
        calls: Mutex::default(),
        questions: AtomicUsize::new(0),
    });
    let served = match open(path, &pipe, &limits) {
        Ok((lane, manifest)) => {
            pipe.put(Up::Opened(manifest));
            let read = pass_down(input, &pipe, &lane, &limits);
            close(lane, limits.close_grace);
            read
        }
        Err(failure) => {
            pipe.put(Up::Failed(failure.told()));
            Ok(())
        }
    };
    let _ = pipe.lines.send(None);
    let _ = writer.join();
    served
}

fn open(
    path: &Path,
    pipe: &Arc<Pipe>,
    limits: &Limits,
) -> Result<(Running, wire::Manifest), Failure> {
    let name = file_name(path);
    image::check(&name, path)?;
    let start = LaneStart {
        path: path.to_owned(),
        name: name.clone(),
        up: Arc::clone(pipe) as _,
        limits: limits.clone(),
        counters: Arc::default(),
    };
    let Lane {
        down,
        opened,
        thread,
    } = start.spawn().map_err(|cause| Failure::NoThread {
        name: name.clone(),
        cause,
    })?;
    // The parent has its own timeout and then ends this process.
    let said = opened
        .blocking_recv()
        .map_err(|_| Failure::GivenUp { name })??;
    Ok((Running { down, thread }, said.manifest))
}

struct Running {
    down: tokio::sync::mpsc::UnboundedSender<Down>,
    thread: JoinHandle<()>,
}

fn pass_down(
    mut input: impl BufRead,
    pipe: &Pipe,
    lane: &Running,
    limits: &Limits,
) -> io::Result<()> {
    while let Some(down) = read_line::<Down>(&mut input, limits.max_line())? {
        match &down {
            Down::Start { call, .. } | Down::Extend { call, .. } => {
                pipe.calls().insert(*call, false);
            }
            Down::Cancel { call } => {
                if let Some(cancelled) = pipe.calls().get_mut(call) {
                    *cancelled = true;
                }
            }
            Down::Reply { .. } => pipe.answered(),
            Down::Close => break,
        }
        if lane.down.send(down).is_err() {
            break;
        }
    }
    Ok(())
}

/// Closes the library, and waits slightly longer than its grace period. Remaining threads end with
/// the process.
fn close(lane: Running, grace: Duration) {
    let _ = lane.down.send(Down::Close);
    let deadline = Instant::now() + grace + grace / 2;
    while !lane.thread.is_finished() && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

fn write_all(mut output: impl Write, queue: &Receiver<Option<Up>>) {
    while let Ok(Some(up)) = queue.recv() {
        // The parent is gone, so the input is about to end as well.
        let written = to_line(&up)
            .and_then(|line| output.write_all(&line))
            .and_then(|()| output.flush());
        if written.is_err() {
            return;
        }
    }
}

struct Pipe {
    /// `None` marks the end.
    lines: Sender<Option<Up>>,
    /// Open calls; true if the call is cancelled.
    calls: Mutex<HashMap<u64, bool>>,
    /// Number of requests without an answer.
    questions: AtomicUsize,
}

impl Pipe {
    /// Counts a request; returns false if there are too many.
    fn asks(&self) -> bool {
        let more = |count| (count < MOST_QUESTIONS).then_some(count + 1);
        self.questions
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn answered(&self) {
        let fewer = |count: usize| Some(count.saturating_sub(1));
        let _ = self
            .questions
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    fn put(&self, up: Up) -> Status {
        if self.lines.send(Some(up)).is_ok() {
            Status::OK
        } else {
            Status::CLOSED
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<u64, bool>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upcalls for Pipe {
    fn complete(&self, call: u64, outcome: Outcome<wire::ToolOutput>) -> Status {
        match self.calls().remove(&call) {
            Some(_) => self.put(Up::Complete { call, outcome }),
            None => Status::UNKNOWN_CALL,
        }
    }

    fn event(&self, call: u64, event: Event) -> Status {
        if call != NO_CALL && !self.calls().contains_key(&call) {
            return Status::UNKNOWN_CALL;
        }
        if matches!(event, Event::Request { .. }) && !self.asks() {
            return Status::BUSY;
        }
        self.put(Up::Event { call, event })
    }

    fn is_cancelled(&self, call: u64) -> bool {
        self.calls().get(&call).copied().unwrap_or(true)
    }

    fn is_wanted(&self, call: u64) -> bool {
        self.calls().contains_key(&call)
    }

    fn close(&self, _why: &wire::ToolError) {
        // The parent detects the closed pipe and answers the open calls.
        self.calls().clear();
    }
}
