//! Runs a build command in its own process group and terminates the whole group at the end.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use goondan_core::utf8_cut::without_cut_end;
use goondan_spec::kinds::{BuildCommand, BuildSettings};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::BuildEnd;

/// Time between the termination request and the kill of the process group.
const TERMINATION_GRACE: Duration = Duration::from_millis(500);
/// Time to wait for output after the program exits. A process that left the group can keep the pipe
/// open.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);
/// `SIGTERM`, which has this number on all platforms.
#[cfg(unix)]
const TERMINATE_SIGNAL: i32 = 15;
/// Number of output bytes kept from the start, and also from the end.
const KEPT_OUTPUT_BYTES: usize = 32 * 1024;
/// Maximum length of an output line, in bytes; longer lines are truncated.
const MAX_OUTPUT_LINE_BYTES: usize = 8 * 1024;

/// Runs a build in the project at `root`. Returns how the build ended, and its output; `on_line` is
/// called with each output line.
pub(super) async fn run(
    root: &Path,
    build: &BuildSettings,
    cancellation: &CancellationToken,
    on_line: &mut (dyn FnMut(&str) + Send),
) -> (BuildEnd, String) {
    let mut output = TruncatedOutput::default();
    let mut child = match start(root, build) {
        Ok(child) => child,
        Err(reason) => return (BuildEnd::NotStarted(reason), String::new()),
    };
    let (sender, mut lines) = mpsc::channel(64);
    forward(child.stdout().take(), sender.clone());
    forward(child.stderr().take(), sender);
    let end = {
        let mut ending = std::pin::pin!(end_of(&mut *child, build.timeout, cancellation));
        loop {
            tokio::select! {
                Some(line) = lines.recv() => output.add_line(&line, on_line),
                end = &mut ending => break end,
            }
        }
    };
    let rest = async {
        while let Some(line) = lines.recv().await {
            output.add_line(&line, on_line);
        }
    };
    let _ = timeout(OUTPUT_DRAIN_TIMEOUT, rest).await;
    (end, output.text())
}

/// Starts the build command in its own process group.
fn start(root: &Path, build: &BuildSettings) -> Result<Box<dyn ChildWrapper>, String> {
    let folder = build
        .cwd
        .as_ref()
        .map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
    let mut command = match &build.command {
        BuildCommand::Shell(line) => shell(line),
        BuildCommand::Program { program, arguments } => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
    };
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut group = CommandWrap::from(command);
    #[cfg(unix)]
    group.wrap(process_wrap::tokio::ProcessGroup::leader());
    group.wrap(KillOnDrop);
    group
        .spawn()
        .map_err(|error| match (&build.command, error.kind()) {
            (BuildCommand::Program { program, .. }, std::io::ErrorKind::NotFound) => {
                format!("there is no program `{program}`")
            }
            _ => error.to_string(),
        })
}

/// Returns the command that runs the line in a shell.
#[cfg(unix)]
fn shell(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    command
}

/// Returns the command that runs the line in the command interpreter.
#[cfg(not(unix))]
fn shell(line: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").arg(line);
    command
}

/// Waits for the process to exit. Terminates it at the time limit or on cancellation.
async fn end_of(
    child: &mut dyn ChildWrapper,
    limit: Duration,
    cancellation: &CancellationToken,
) -> BuildEnd {
    let end = tokio::select! {
        status = child.wait() => return status.map_or_else(|error| BuildEnd::NotStarted(error.to_string()), end_of_status),
        () = tokio::time::sleep(limit) => BuildEnd::TimedOut(limit),
        () = cancellation.cancelled() => BuildEnd::Cancelled,
    };
    // The process can already have exited.
    #[cfg(unix)]
    let _ = child.signal(TERMINATE_SIGNAL);
    let _ = timeout(TERMINATION_GRACE, child.wait()).await;
    let _ = child.start_kill();
    let _ = child.wait().await;
    end
}

/// Converts the exit status of the command.
fn end_of_status(status: ExitStatus) -> BuildEnd {
    if status.success() {
        BuildEnd::Built
    } else {
        BuildEnd::Failed(status.code())
    }
}

/// Forwards the output lines of a stream until it ends or the receiver is dropped.
fn forward(stream: Option<impl AsyncRead + Unpin + Send + 'static>, lines: mpsc::Sender<String>) {
    let Some(stream) = stream else { return };
    tokio::spawn(async move {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while let Some(()) = next_line(&mut stream, &mut line).await {
            // A line above the limit ends anywhere.
            let text = String::from_utf8_lossy(without_cut_end(&line)).into_owned();
            if lines.send(text).await.is_err() {
                return;
            }
        }
    });
}

/// Reads the next line into `line`, truncated and without its line break. A read error counts as
/// the end of the stream.
async fn next_line(stream: &mut (impl AsyncBufReadExt + Unpin), line: &mut Vec<u8>) -> Option<()> {
    line.clear();
    let mut has_bytes = false;
    loop {
        let buffered = stream.fill_buf().await.ok()?;
        if buffered.is_empty() {
            return has_bytes.then_some(());
        }
        has_bytes = true;
        let end = buffered.iter().position(|byte| *byte == b'\n');
        let text = &buffered[..end.unwrap_or(buffered.len())];
        line.extend_from_slice(&text[..text.len().min(MAX_OUTPUT_LINE_BYTES - line.len())]);
        let consumed_bytes = end.map_or(buffered.len(), |end| end + 1);
        stream.consume(consumed_bytes);
        if end.is_some() {
            line.pop_if(|last| *last == b'\r');
            return Some(());
        }
    }
}

/// First and last lines of an output.
#[derive(Default)]
struct TruncatedOutput {
    head: String,
    tail: std::collections::VecDeque<String>,
    tail_bytes: usize,
    left_out: usize,
}

impl TruncatedOutput {
    /// Passes the line to `on_line`, and keeps it if it is among the first or last lines.
    fn add_line(&mut self, line: &str, on_line: &mut (dyn FnMut(&str) + Send)) {
        on_line(line);
        if self.tail.is_empty() && self.head.len() + line.len() < KEPT_OUTPUT_BYTES {
            self.head.push_str(line);
            self.head.push('\n');
            return;
        }
        self.tail_bytes += line.len();
        self.tail.push_back(line.to_owned());
        while self.tail_bytes > KEPT_OUTPUT_BYTES
            && let Some(oldest) = self.tail.pop_front()
        {
            self.tail_bytes -= oldest.len();
            self.left_out += 1;
        }
    }

    /// Returns the kept lines, with a notice about the omitted ones.
    fn text(self) -> String {
        let mut text = self.head;
        if self.left_out > 0 {
            text.push_str(&format!("[... {} lines left out ...]\n", self.left_out));
        }
        for line in self.tail {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}
