//! Runs a build command in its own process group and terminates the whole group at the end.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

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

/// Runs a build in the project at `root`.
pub(super) async fn run(
    root: &Path,
    build: &BuildSettings,
    cancellation: &CancellationToken,
    heard: &mut (dyn FnMut(&str) + Send),
) -> (BuildEnd, String) {
    let mut kept = TruncatedOutput::default();
    let mut child = match start(root, build) {
        Ok(child) => child,
        Err(why) => return (BuildEnd::NotStarted(why), String::new()),
    };
    let (sender, mut lines) = mpsc::channel(64);
    forward(child.stdout().take(), sender.clone());
    forward(child.stderr().take(), sender);
    let end = {
        let mut ending = std::pin::pin!(end_of(&mut *child, build.timeout, cancellation));
        loop {
            tokio::select! {
                Some(line) = lines.recv() => kept.take(&line, heard),
                end = &mut ending => break end,
            }
        }
    };
    let rest = async {
        while let Some(line) = lines.recv().await {
            kept.take(&line, heard);
        }
    };
    let _ = timeout(OUTPUT_DRAIN_TIMEOUT, rest).await;
    (end, kept.text())
}

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

#[cfg(unix)]
fn shell(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line);
    command
}

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
        status = child.wait() => return status.map_or_else(|error| BuildEnd::NotStarted(error.to_string()), ended),
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

fn ended(status: ExitStatus) -> BuildEnd {
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
            let text = String::from_utf8_lossy(&line).into_owned();
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
    let mut any = false;
    loop {
        let piece = stream.fill_buf().await.ok()?;
        if piece.is_empty() {
            return any.then_some(());
        }
        any = true;
        let end = piece.iter().position(|byte| *byte == b'\n');
        let text = &piece[..end.unwrap_or(piece.len())];
        line.extend_from_slice(&text[..text.len().min(MAX_OUTPUT_LINE_BYTES - line.len())]);
        let used = end.map_or(piece.len(), |end| end + 1);
        stream.consume(used);
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
    fn take(&mut self, line: &str, heard: &mut (dyn FnMut(&str) + Send)) {
        heard(line);
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
