//! Running programs and command lines, with all their child processes.

use std::io::{self, PipeReader, PipeWriter};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::Line;
use super::streams::{Stream, Streams};
use crate::confine::Contained;
use crate::process::{GRACE, Group, Signal, failed_with, reading_end, writing_end};
use crate::state::lock;

pub(crate) enum Work {
    Program(Box<Contained>),
    /// A command line without a shell.
    Line(Arc<Line>),
}

/// Running work. Dropping it kills all its processes.
pub(crate) enum Started {
    Program(Group),
    Line(Job),
}

impl Work {
    /// Starts the work. With `input`, the caller can write to its standard input, which all
    /// commands of a line share.
    pub(crate) async fn start(self, input: bool) -> io::Result<Started> {
        match self {
            Work::Program(mut program) => {
                if input {
                    program.command.stdin(std::process::Stdio::piped());
                }
                Group::spawn_patiently(*program).await.map(Started::Program)
            }
            Work::Line(line) => Job::start(line, input).map(Started::Line),
        }
    }
}

impl Started {
    /// Takes the output streams.
    pub(crate) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        match self {
            Started::Program(group) => {
                let output = group.pipes().stdout().take();
                (output, group.pipes().stderr().take())
            }
            Started::Line(job) => (job.output.take(), job.errors.take()),
        }
    }

    /// Takes the input stream, if it was requested.
    pub(crate) fn take_input(&mut self) -> Option<ChildStdin> {
        match self {
            Started::Program(group) => group.pipes().stdin().take(),
            Started::Line(job) => job.input.take(),
        }
    }

    /// Waits for the end. Cancel safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Started::Program(group) => group.wait().await,
            Started::Line(job) => job.wait().await,
        }
    }

    /// Requests the end of all processes, and kills them after a grace period.
    pub(crate) async fn end(&mut self) -> io::Result<ExitStatus> {
        match self {
            Started::Program(group) => group.end().await,
            Started::Line(job) => job.end().await,
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        match self {
            Started::Program(group) => group.signal(signal),
            Started::Line(job) => job.running.signal(signal),
        }
    }
}

pub(crate) struct Job {
    /// The future that runs the commands one after another; `None` once it is over.
    commands: Option<BoxFuture<'static, io::Result<ExitStatus>>>,
    status: ExitStatus,
    running: Arc<Running>,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
}

impl Job {
    fn start(line: Arc<Line>, input: bool) -> io::Result<Job> {
        let (output, output_end) = io::pipe()?;
        let (errors, errors_end) = io::pipe()?;
        let (input_end, input) = match input {
            true => io::pipe().map(|(end, input): (PipeReader, PipeWriter)| {
                (Stream::Reader(Arc::new(end)), Some(input))
            })?,
            false => (Stream::Null, None),
        };
        let writer = |end| Stream::Writer(Arc::new(end));
        let streams = Streams::new(input_end, writer(output_end), writer(errors_end));
        let running = Arc::new(Running::default());
        Ok(Job {
            commands: Some(line.run(streams, Arc::clone(&running)).boxed()),
            status: failed_with(0),
            running,
            input: input.map(writing_end).transpose()?,
            output: Some(reading_end(output)?),
            errors: Some(reading_end(errors)?),
        })
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(commands) = &mut self.commands {
            let status = commands.await;
            self.commands = None;
            self.status = status?;
        }
        Ok(self.status)
    }

    async fn end(&mut self) -> io::Result<ExitStatus> {
        self.running.is_stopping.store(true, Ordering::SeqCst);
        self.running.signal(Signal::TERMINATE);
        match timeout(GRACE * 2, self.wait()).await {
            Ok(status) => status,
            Err(_) => {
                // Dropping the commands kills the remaining processes.
                self.commands = None;
                self.status = failed_with(1);
                Ok(self.status)
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Running {
    groups: Mutex<Vec<u32>>,
    is_stopping: AtomicBool,
}

impl Running {
    /// Returns true if no further command may start.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Waits for a command. Leftover processes end with it; during stopping, after a grace period.
    pub(super) async fn wait_for(&self, mut group: Group) -> io::Result<ExitStatus> {
        let _listed = Listed::new(self, group.id());
        if self.is_stopping() {
            return group.end().await;
        }
        let status = group.wait().await;
        if self.is_stopping() {
            group.linger(GRACE).await;
        }
        status
    }

    fn signal(&self, signal: Signal) {
        lock(&self.groups)
            .iter()
            .for_each(|group| signal.send_to(*group));
    }
}

/// A process group that receives signals.
struct Listed<'r> {
    running: &'r Running,
    group: u32,
}

impl<'r> Listed<'r> {
    fn new(running: &'r Running, group: Option<u32>) -> Option<Self> {
        let group = group?;
        lock(&running.groups).push(group);
        Some(Listed { running, group })
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        lock(&self.running.groups).retain(|group| *group != self.group);
    }
}
