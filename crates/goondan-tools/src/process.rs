//! Runs programs in their own process groups, and ensures that the groups end (rule S4).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{self, Either};
use goondan_core::ports::tool::{HandlerError, OutputStream, ToolContext};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::command_runner::{PreparedCommand, RunningCommand};
use crate::errors;
use crate::output_capture::OutputCapture;
use crate::process_signal::ProcessSignal;
use crate::running_programs::{ApprovedFileError, RegisteredProgram};
use crate::sandbox::{
    self, GroupWatcher, SandboxApplyError, SandboxLayer, SandboxedCommand, WatchedGroup,
    sandboxed_start,
};
use crate::tool_chains;

/// Time between the termination request and the kill of a group.
pub(crate) const TERMINATION_GRACE_PERIOD: Duration = Duration::from_millis(500);
/// Time to wait for output after the program has ended: a process outside of the group may keep the
/// pipe open.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);
/// Interval of checking if a terminating group has ended.
const GROUP_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of attempts to start a busy program file.
const MAX_BUSY_FILE_ATTEMPTS: usize = 50;

/// Environment variables that programs need, in addition to `LC_*` and the variables of tool
/// chains. They contain no keys or tokens.
const INHERITED_VARIABLES: [&str; 8] = [
    "PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL", "TZ",
];

/// Variables that name files with certificates. Without them, programs reach nothing through the
/// inspecting proxy of a company.
const CERTIFICATE_VARIABLES: [&str; 7] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
];

/// Variables for proxies, in lower or upper case. A value with a user name or password is not passed
/// on.
const PROXY_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"];

pub(crate) type Environment = BTreeMap<OsString, OsString>;

/// Returns the environment of a program: the ordinary variables of this process, those in
/// `allowed`, and `extra`.
pub(crate) fn environment(allowed: &[String], extra: BTreeMap<String, String>) -> Environment {
    let is_passed = |name: &str, value: &OsStr| {
        is_ordinary(name, value) || allowed.iter().any(|allowed| allowed == name)
    };
    let inherited = std::env::vars_os()
        .filter(|(name, value)| name.to_str().is_some_and(|name| is_passed(name, value)));
    inherited
        .chain(
            extra
                .into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        )
        .collect()
}

/// Returns true for a variable that all programs get.
fn is_ordinary(name: &str, value: &OsStr) -> bool {
    let is_proxy = || PROXY_VARIABLES.contains(&name.to_uppercase().as_str());
    INHERITED_VARIABLES.contains(&name)
        || CERTIFICATE_VARIABLES.contains(&name)
        || name.starts_with("LC_")
        || tool_chains::is_variable(name)
        || is_proxy() && !value.as_encoded_bytes().contains(&b'@')
}

/// Creates a command with exactly this environment, and without standard input.
pub(crate) fn command(
    program: impl AsRef<OsStr>,
    folder: &Path,
    environment: Environment,
) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear().envs(environment);
    pipe_outputs(&mut command);
    command
}

/// Sets an empty input, and pipes for the outputs.
pub(crate) fn pipe_outputs(command: &mut Command) {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}

/// Makes `command` the leader of a new process group that ends with its handle. It also gets its
/// own session, without a terminal, so that it can neither overwrite nor answer a prompt.
fn into_group_leader(command: Command) -> CommandWrap {
    let mut wrap = CommandWrap::from(command);
    #[cfg(unix)]
    wrap.wrap(process_wrap::tokio::ProcessSession);
    wrap.wrap(KillOnDrop);
    wrap
}

/// A running program with its child processes. Dropping it kills the whole group, and all processes of
/// its sandbox.
#[derive(Debug)]
pub(crate) struct ProgramGroup {
    child: Box<dyn ChildWrapper>,
    /// Group id, equal to the process id of the group leader.
    #[cfg(unix)]
    id: Option<nix::unistd::Pid>,
    /// Dropped after the group was killed.
    _watched: Option<WatchedGroup>,
    registered: RegisteredProgram,
}

impl ProgramGroup {
    /// Starts a program as the leader of a new group. A program file that was just written may be
    /// busy, until a concurrently forked child has closed it. In that case, tries again for a short
    /// time.
    pub(crate) async fn spawn_patiently(program: SandboxedCommand) -> io::Result<ProgramGroup> {
        program.ensure_watchers();
        let is_sandboxed = program.write_access.is_sandboxed();
        let registered =
            RegisteredProgram::begin(program.write_access, &program.approved_files).await?;
        let layers: Arc<[SandboxLayer]> = program.layers.into();
        let mut command = into_group_leader(program.command);
        let mut attempts = 0;
        loop {
            let start = move || {
                let child = command.spawn();
                Ok((command, child))
            };
            let ((returned, child), domain) =
                sandboxed_start::start_in_sandbox(is_sandboxed, Arc::clone(&layers), start)?;
            command = returned;
            match child {
                Err(error)
                    if error.kind() == io::ErrorKind::ExecutableFileBusy
                        && attempts < MAX_BUSY_FILE_ATTEMPTS =>
                {
                    attempts += 1;
                    tokio::time::sleep(GROUP_CHECK_INTERVAL).await;
                }
                child => {
                    let child = child?;
                    registered.record_start(child.id(), domain);
                    return Ok(ProgramGroup::new(child, program.watcher, registered));
                }
            }
        }
    }

    fn new(
        child: Box<dyn ChildWrapper>,
        watcher: Option<Arc<GroupWatcher>>,
        registered: RegisteredProgram,
    ) -> ProgramGroup {
        ProgramGroup {
            registered,
            _watched: watcher
                .zip(child.id())
                .map(|(watcher, id)| watcher.watch_group(id)),
            #[cfg(unix)]
            id: child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .map(nix::unistd::Pid::from_raw),
            child,
        }
    }

    pub(crate) fn pipes(&mut self) -> &mut dyn ChildWrapper {
        &mut *self.child
    }

    /// Waits for the program itself; its child processes may continue. The wrapper of the group would
    /// also wait for them, forever if one leaves the group.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.inner_mut().wait().await
    }

    /// Requests termination of the group, and kills it after a grace period.
    pub(crate) async fn end(&mut self) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + TERMINATION_GRACE_PERIOD;
        self.signal(ProcessSignal::TERMINATE);
        if timeout(TERMINATION_GRACE_PERIOD, self.wait()).await.is_ok() {
            self.wait_for_group_end(deadline.saturating_duration_since(Instant::now()))
                .await;
        }
        self.kill();
        self.wait().await
    }

    /// Waits until no process of the group is left, at most for `limit`. The program itself has
    /// ended.
    pub(crate) async fn wait_for_group_end(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.is_alive() && Instant::now() < deadline {
            tokio::time::sleep(GROUP_CHECK_INTERVAL).await;
        }
    }

    /// Returns the process id of the program; `None` after its end.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills every process of the group, and of the sandbox. Succeeds if it has already ended.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.start_kill();
        self.registered.kill_domain();
    }

    /// Sends a signal to every process of the group. Succeeds if it has already ended.
    pub(crate) fn signal(&self, signal: ProcessSignal) {
        #[cfg(unix)]
        let _ = self.child.signal(signal.0);
        #[cfg(not(unix))]
        let ProcessSignal(_) = signal;
    }

    /// Returns true if a process of the group is left. The null signal only tests for existence.
    #[cfg(unix)]
    fn is_alive(&self) -> bool {
        use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

        self.id.is_some_and(|id| {
            // Adopted processes that have ended are removed from the process table.
            let adopted = nix::unistd::Pid::from_raw(-id.as_raw());
            while waitpid(adopted, Some(WaitPidFlag::WNOHANG))
                .is_ok_and(|status| status != WaitStatus::StillAlive)
            {}
            nix::sys::signal::killpg(id, None).is_ok()
        })
    }

    #[cfg(not(unix))]
    fn is_alive(&self) -> bool {
        false
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

#[derive(Debug)]
pub(crate) struct FinishedProgram {
    pub(crate) status: ExitStatus,
    /// True if the program was ended at the time limit.
    pub(crate) timed_out: bool,
    pub(crate) duration: Duration,
    /// Standard output, truncated in the middle if it is long.
    pub(crate) stdout: String,
    /// Standard error, truncated in the middle if it is long.
    pub(crate) stderr: String,
}

/// The reason why a program has no result.
#[derive(Debug)]
pub(crate) enum ProgramFailure {
    /// Starting or waiting failed.
    Io(io::Error),
    /// The call was cancelled; the group has ended.
    Cancelled,
}

impl ProgramFailure {
    /// Converts the failure to an error for the model; `what` is the program.
    pub(crate) fn into_error(self, what: &str) -> HandlerError {
        match self {
            ProgramFailure::Cancelled => errors::cancelled_error(),
            ProgramFailure::Io(error)
                if error
                    .get_ref()
                    .is_some_and(|inner| inner.is::<SandboxApplyError>()) =>
            {
                sandbox::sandbox_error(&error.to_string())
            }
            ProgramFailure::Io(error) => match error
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<ApprovedFileError>())
            {
                Some(cause) => errors::approved_file(cause),
                None => errors::io_error(format_args!("start {what}"), &error),
            },
        }
    }
}

impl From<io::Error> for ProgramFailure {
    fn from(error: io::Error) -> Self {
        ProgramFailure::Io(error)
    }
}

/// Runs `work` to its end, to the time limit or to a cancellation, and leaves no process behind.
/// `keep` is the number of bytes kept of standard output and of standard error. Subscribers see the
/// output while the program runs.
pub(crate) async fn run(
    work: PreparedCommand,
    limit: Option<Duration>,
    keep: (usize, usize),
    ctx: &ToolContext,
) -> Result<FinishedProgram, ProgramFailure> {
    let begun = Instant::now();
    let mut started = work.start(false).await?;
    let (stdout_pipe, stderr_pipe) = started.take_output();
    let mut stdout = OutputCapture::new(keep.0);
    let mut stderr = OutputCapture::new(keep.1);
    let reading = async {
        let output_callback = |stream| move |text: &str| ctx.progress.output(stream, text);
        tokio::join!(
            stdout.read(stdout_pipe, output_callback(OutputStream::Stdout)),
            stderr.read(stderr_pipe, output_callback(OutputStream::Stderr)),
        );
    };
    let end = read_until_end(
        wait_for_end(&mut started, limit, &ctx.cancellation),
        reading,
    )
    .await?;
    let (status, timed_out) = match end {
        ProgramEnd::Exited(status) => (status, false),
        ProgramEnd::TimedOut(status) => (status, true),
        ProgramEnd::Cancelled => return Err(ProgramFailure::Cancelled),
    };
    Ok(FinishedProgram {
        status,
        timed_out,
        duration: begun.elapsed(),
        stdout: stdout.text(),
        stderr: stderr.text(),
    })
}

/// The reason for the end of a program.
enum ProgramEnd {
    Exited(ExitStatus),
    TimedOut(ExitStatus),
    Cancelled,
}

/// Waits for the program, and ends its group at the limit or on cancellation.
async fn wait_for_end(
    started: &mut RunningCommand,
    limit: Option<Duration>,
    cancellation: &CancellationToken,
) -> io::Result<ProgramEnd> {
    let cancelled = tokio::select! {
        status = started.wait() => return status.map(ProgramEnd::Exited),
        () = wait_for_limit(limit) => false,
        () = cancellation.cancelled() => true,
    };
    let status = started.end().await?;
    Ok(if cancelled {
        ProgramEnd::Cancelled
    } else {
        ProgramEnd::TimedOut(status)
    })
}

/// Waits for an end while reading output, and then briefly for the end of the output.
pub(crate) async fn read_until_end<T>(
    end: impl Future<Output = T>,
    reading: impl Future<Output = ()>,
) -> T {
    let mut reading = pin!(reading);
    match future::select(pin!(end), &mut reading).await {
        Either::Left((end, _)) => {
            let _ = timeout(OUTPUT_DRAIN_TIMEOUT, reading).await;
            end
        }
        Either::Right(((), end)) => end.await,
    }
}

/// Waits until the limit has passed; forever without a limit.
pub(crate) async fn wait_for_limit(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => future::pending().await,
    }
}

/// Returns the exit status `code` of a command that started no program.
pub(crate) fn exit_status_of_code(code: u8) -> ExitStatus {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::from_raw(i32::from(code) << 8);
    #[cfg(windows)]
    return std::os::windows::process::ExitStatusExt::from_raw(u32::from(code));
}

/// Converts the read end of a pipe.
pub(crate) fn reading_end<E: FromPipe>(end: io::PipeReader) -> io::Result<E> {
    E::from_pipe(Handle::from(end))
}

/// Converts the write end of a pipe.
pub(crate) fn writing_end(end: io::PipeWriter) -> io::Result<ChildStdin> {
    ChildStdin::from_std(std::process::ChildStdin::from(Handle::from(end)))
}

#[cfg(unix)]
type Handle = std::os::fd::OwnedFd;
#[cfg(windows)]
type Handle = std::os::windows::io::OwnedHandle;

/// Creates a child's stream from a pipe.
pub(crate) trait FromPipe: Sized {
    fn from_pipe(end: Handle) -> io::Result<Self>;
}

impl FromPipe for ChildStdout {
    fn from_pipe(end: Handle) -> io::Result<Self> {
        ChildStdout::from_std(end.into())
    }
}

impl FromPipe for ChildStderr {
    fn from_pipe(end: Handle) -> io::Result<Self> {
        ChildStderr::from_std(end.into())
    }
}

/// Returns the exit code, or -1 for a program that a signal ended.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}

/// Returns the name of the signal that ended the program, such as `SIGKILL`.
#[cfg(unix)]
pub(crate) fn signal_name(status: ExitStatus) -> Option<String> {
    use nix::sys::signal::Signal;
    use std::os::unix::process::ExitStatusExt;
    let number = status.signal()?;
    Some(Signal::try_from(number).map_or_else(
        |_| format!("signal {number}"),
        |signal| signal.as_str().to_owned(),
    ))
}

/// Signals do not exist on this platform.
#[cfg(not(unix))]
pub(crate) fn signal_name(_status: ExitStatus) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_variables_with_passwords_are_not_passed_to_programs() {
        let passes = |name, value| is_ordinary(name, OsStr::new(value));
        assert!(passes("SSL_CERT_FILE", "/etc/company.pem"));
        assert!(passes("https_proxy", "http://proxy.company:8080"));
        assert!(!passes(
            "HTTPS_PROXY",
            "http://user:secret@proxy.company:8080"
        ));
        assert!(!passes("OPENAI_API_KEY", "sk-1"));
    }
}
