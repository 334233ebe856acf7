//! Running programs and command lines, with all their child processes.

use std::io::{self, PipeReader, PipeWriter};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::CommandLineRunner;
use super::standard_streams::{StandardStreams, StreamTarget};
use crate::mutex_lock::lock;
use crate::process::{
    ProgramGroup, TERMINATION_GRACE_PERIOD, exit_status_of_code, reading_end, writing_end,
};
use crate::process_signal::ProcessSignal;
use crate::sandbox::SandboxedCommand;

pub(crate) enum PreparedCommand {
    Program(Box<SandboxedCommand>),
    /// A command line without a shell.
    Line(Arc<CommandLineRunner>),
}

/// Running work. Dropping it kills all its processes.
pub(crate) enum RunningCommand {
    Program(ProgramGroup),
    Line(CommandLineJob),
}

impl PreparedCommand {
    /// Starts the work. With `input`, the caller can write to its standard input, which all
    /// commands of a line share.
    pub(crate) async fn start(self, input: bool) -> io::Result<RunningCommand> {
        match self {
            PreparedCommand::Program(mut program) => {
                if input {
                    program.command.stdin(std::process::Stdio::piped());
                }
                ProgramGroup::spawn_patiently(*program)
                    .await
                    .map(RunningCommand::Program)
            }
            PreparedCommand::Line(line) => {
                CommandLineJob::start(line, input).map(RunningCommand::Line)
            }
        }
    }
}

impl RunningCommand {
    /// Takes the output streams.
    pub(crate) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        match self {
            RunningCommand::Program(group) => {
                let output = group.pipes().stdout().take();
                (output, group.pipes().stderr().take())
            }
            RunningCommand::Line(job) => (job.output.take(), job.errors.take()),
        }
    }

    /// Takes the input stream, if it was requested.
    pub(crate) fn take_input(&mut self) -> Option<ChildStdin> {
        match self {
            RunningCommand::Program(group) => group.pipes().stdin().take(),
            RunningCommand::Line(job) => job.input.take(),
        }
    }

    /// Waits for the end. Cancel safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            RunningCommand::Program(group) => group.wait().await,
            RunningCommand::Line(job) => job.wait().await,
        }
    }

    /// Requests the end of all processes, and kills them after a grace period.
    pub(crate) async fn end(&mut self) -> io::Result<ExitStatus> {
        match self {
            RunningCommand::Program(group) => group.end().await,
            RunningCommand::Line(job) => job.end().await,
        }
    }

    pub(crate) fn signal(&self, signal: ProcessSignal) {
        match self {
            RunningCommand::Program(group) => group.signal(signal),
            RunningCommand::Line(job) => job.running.signal(signal),
        }
    }
}

pub(crate) struct CommandLineJob {
    /// The future that runs the commands one after another; `None` once it is over.
    commands: Option<BoxFuture<'static, io::Result<ExitStatus>>>,
    status: ExitStatus,
    running: Arc<RunningGroups>,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
}

impl CommandLineJob {
    /// Connects the command line to new pipes and prepares its run. With `input`, the caller gets a
    /// pipe to its standard input.
    fn start(line: Arc<CommandLineRunner>, input: bool) -> io::Result<CommandLineJob> {
        let (output, output_end) = io::pipe()?;
        let (errors, errors_end) = io::pipe()?;
        let (input_end, input) = if input {
            io::pipe().map(|(end, input): (PipeReader, PipeWriter)| {
                (StreamTarget::Reader(Arc::new(end)), Some(input))
            })?
        } else {
            (StreamTarget::Null, None)
        };
        let writer = |end| StreamTarget::Writer(Arc::new(end));
        let streams = StandardStreams::new(input_end, writer(output_end), writer(errors_end));
        let running = Arc::new(RunningGroups::default());
        Ok(CommandLineJob {
            commands: Some(line.run(streams, Arc::clone(&running)).boxed()),
            status: exit_status_of_code(0),
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
        self.running.signal(ProcessSignal::TERMINATE);
        match timeout(TERMINATION_GRACE_PERIOD * 2, self.wait()).await {
            Ok(status) => status,
            Err(_) => {
                // Dropping the commands kills the remaining processes.
                self.commands = None;
                self.status = exit_status_of_code(1);
                Ok(self.status)
            }
        }
    }
}

#[derive(Default)]
pub(super) struct RunningGroups {
    groups: Mutex<Vec<u32>>,
    is_stopping: AtomicBool,
}

impl RunningGroups {
    /// Returns true if no further command may start.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Waits for a command. Leftover processes end with it; during stopping, after a grace period.
    pub(super) async fn wait_for(&self, mut group: ProgramGroup) -> io::Result<ExitStatus> {
        let _listed = RegisteredGroup::new(self, group.id());
        if self.is_stopping() {
            return group.end().await;
        }
        let status = group.wait().await;
        if self.is_stopping() {
            group.wait_for_group_end(TERMINATION_GRACE_PERIOD).await;
        }
        status
    }

    fn signal(&self, signal: ProcessSignal) {
        for group in lock(&self.groups).iter() {
            signal.send_to(*group);
        }
    }
}

/// A process group that receives signals.
struct RegisteredGroup<'r> {
    running: &'r RunningGroups,
    group: u32,
}

impl<'r> RegisteredGroup<'r> {
    fn new(running: &'r RunningGroups, group: Option<u32>) -> Option<Self> {
        let group = group?;
        lock(&running.groups).push(group);
        Some(RegisteredGroup { running, group })
    }
}

impl Drop for RegisteredGroup<'_> {
    fn drop(&mut self) {
        lock(&self.running.groups).retain(|group| *group != self.group);
    }
}
