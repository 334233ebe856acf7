//! One runtime process: its messages, and its end.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan_core::extension_protocol::SessionRegistry;
use goondan_core::plugin_session::wire::LogLine;
use goondan_core::plugin_session::{
    DeliveryStatus, FinalMessage, LivenessPing, OpenCalls, RunningMessage,
};
use goondan_core::ports::tool::{HandlerError, LogLevel, ToolOutput};
use goondan_core::utf8_cut::{take_text, without_cut_start};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::errors;
use crate::programs::{RunningHost, RuntimeStreams};
use crate::result_type_errors::InvalidMessageAction;
use crate::transport::call_rules;
use crate::wire::{MAX_LINE_BYTES, OperationAnswer, ResultExtras, ShimCommand, ShimMessage};

/// Maximum time until the process reports that it is ready.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// Time that a process has to exit after its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time to answer a ping.
const PONG_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size in bytes of the retained printed output.
const MAX_PRINTED_BYTES: usize = 4 << 10;
/// Maximum number of queued events for a process; further events are dropped.
const MAX_QUEUED_EVENTS: usize = 1_024;
/// Maximum length of a logged line, in bytes. Longer lines are divided.
const MAX_LOGGED: u64 = 10_000;

/// A process that accepts calls. Dropping the last handle ends it.
pub(crate) struct RuntimeProcess {
    name: String,
    calls: Arc<OpenCalls>,
    sessions: Arc<SessionRegistry>,
    line_sender: mpsc::UnboundedSender<OutgoingLine>,
    /// Number of events that wait to be written.
    events: Arc<AtomicUsize>,
    /// Fires when the process must be killed.
    kill: CancellationToken,
    pings: AtomicU64,
    /// Number of answered pings. Pings are answered in order.
    pongs: watch::Receiver<u64>,
    /// Set if the process accepts no further calls and ends after its last one.
    is_retired: AtomicBool,
    /// Set if the process has run out of memory and accepts no further calls.
    is_out_of_memory: Arc<AtomicBool>,
    /// Description of the end, once the process has ended.
    ended: watch::Receiver<Option<String>>,
    /// Makes the process exit when this is dropped, with some time to do so itself.
    _leave: DropGuard,
}

impl RuntimeProcess {
    /// Waits until the process reports that it is ready.
    pub(crate) async fn wait_until_ready(
        name: &str,
        streams: RuntimeStreams,
    ) -> Result<RuntimeProcess, HandlerError> {
        let RuntimeStreams {
            input,
            output,
            printed,
            program,
        } = streams;
        let (calls, notes) = (
            Arc::new(OpenCalls::new(call_rules(name))),
            Arc::<ProcessExitNotes>::default(),
        );
        let (kill, leave) = (CancellationToken::new(), CancellationToken::new());
        let (pong, pongs) = watch::channel(0);
        let (line_sender, lines) = mpsc::unbounded_channel();
        let (hello, hello_received) = oneshot::channel();
        let is_out_of_memory = Arc::<AtomicBool>::default();
        let (end_sender, ended) = watch::channel(None);
        let events = Arc::<AtomicUsize>::default();
        tokio::spawn(write(lines, output, Arc::clone(&events)));
        let printer = tokio::spawn(
            PrintedOutputReader {
                calls: Arc::clone(&calls),
                notes: Arc::clone(&notes),
                name: name.to_owned(),
            }
            .read(printed),
        );
        let reader = ShimMessageReader {
            name: name.to_owned(),
            calls: Arc::clone(&calls),
            notes: Arc::clone(&notes),
            pong,
            line_sender: line_sender.downgrade(),
            is_out_of_memory: Arc::clone(&is_out_of_memory),
            hello: Some(hello),
        };
        let reading = tokio::spawn(reader.read(input));
        let exit_watcher = ProcessExitWatcher {
            name: name.to_owned(),
            calls: Arc::clone(&calls),
            notes,
            kill: kill.clone(),
            leave: leave.clone(),
            end_sender,
        };
        tokio::spawn(exit_watcher.watch(program, reading, printer));
        let process = RuntimeProcess {
            name: name.to_owned(),
            calls,
            sessions: Arc::default(),
            line_sender,
            events,
            kill,
            pings: AtomicU64::new(0),
            pongs,
            is_retired: AtomicBool::new(false),
            is_out_of_memory,
            ended,
            _leave: leave.drop_guard(),
        };
        match timeout(HELLO_TIMEOUT, hello_received).await {
            Ok(Ok(version)) => {
                tracing::debug!(host = name, version, "runtime process started");
                Ok(process)
            }
            Ok(Err(_)) => {
                let ending = process.wait_for_end().await;
                Err(errors::start(name, ending))
            }
            Err(_) => {
                process.kill.cancel();
                Err(errors::start(
                    name,
                    format_args!("it did not answer within {} s", HELLO_TIMEOUT.as_secs()),
                ))
            }
        }
    }

    /// Returns the open calls of the process.
    pub(crate) fn calls(&self) -> &OpenCalls {
        &self.calls
    }

    /// Returns the extension registrations in the process.
    pub(crate) fn sessions(&self) -> &Arc<SessionRegistry> {
        &self.sessions
    }

    /// Returns true if the process accepts calls.
    pub(crate) fn accepts_calls(&self) -> bool {
        let is_ending = self.is_retired.load(Ordering::Relaxed)
            || self.is_out_of_memory.load(Ordering::Relaxed);
        self.calls.is_healthy() && !is_ending
    }

    /// Sends a message to the process. Has no effect if the process has ended; its open calls then
    /// fail.
    pub(crate) fn send(&self, message: &impl Serialize) {
        if let Some(text) = to_line(message) {
            let _ = self.line_sender.send(OutgoingLine {
                text,
                is_event: false,
            });
        }
    }

    /// Sends an event, unless too many are queued: a process that does not read must not exhaust
    /// the memory.
    pub(crate) fn send_event(&self, event: &impl Serialize) {
        if self.events.load(Ordering::Relaxed) >= MAX_QUEUED_EVENTS {
            tracing::debug!(
                host = self.name,
                "dropped an event: {MAX_QUEUED_EVENTS} events are already queued"
            );
            return;
        }
        if let Some(text) = to_line(event) {
            self.events.fetch_add(1, Ordering::Relaxed);
            let _ = self.line_sender.send(OutgoingLine {
                text,
                is_event: true,
            });
        }
    }

    /// Cancels a call, and pings the process.
    pub(crate) fn cancel(&self, id: u64) -> LivenessPing {
        self.send(&ShimCommand::Cancel { id });
        let number = self.pings.fetch_add(1, Ordering::Relaxed) + 1;
        self.send(&ShimCommand::Ping);
        LivenessPing {
            number,
            at: Instant::now(),
        }
    }

    /// Retires the process after a call did not end. It accepts no further calls and is killed
    /// after its remaining calls. If it does not answer the ping of the cancellation, it is killed
    /// at once, or after a short delay if other calls are open.
    pub(crate) fn retire(&self, ping: LivenessPing) {
        if self.is_retired.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            host = self.name,
            "a cancelled call did not end; the runtime process accepts no more calls"
        );
        let (name, calls) = (self.name.clone(), Arc::clone(&self.calls));
        let mut pongs = self.pongs.clone();
        let kill = self.kill.clone();
        let pong_deadline = if calls.count() == 0 {
            ping.at
        } else {
            Instant::now()
        } + PONG_TIMEOUT;
        tokio::spawn(async move {
            let is_responding =
                timeout_at(pong_deadline, pongs.wait_for(|count| *count >= ping.number))
                    .await
                    .is_ok();
            if is_responding {
                calls.until_idle().await
            } else {
                calls.close(&errors::host_ended_error(
                    &name,
                    "it was killed because another of its calls did not end",
                ))
            }
            kill.cancel();
        });
    }

    /// Waits for the imminent end, and returns its description.
    async fn wait_for_end(&self) -> String {
        let mut ended = self.ended.clone();
        let end = timeout(EXIT_TIMEOUT * 2, ended.wait_for(Option::is_some)).await;
        end.ok()
            .and_then(Result::ok)
            .and_then(|how| how.clone())
            .unwrap_or_else(|| "it did not exit".to_owned())
    }

    /// Ends the process, with some time to exit itself, and waits until it has ended.
    pub(crate) async fn end(self: Arc<Self>) {
        let mut ended = self.ended.clone();
        let kill = self.kill.clone();
        self.is_retired.store(true, Ordering::Relaxed);
        self.calls.close(&errors::cancelled());
        drop(self);
        if timeout(EXIT_TIMEOUT, ended.wait_for(Option::is_some))
            .await
            .is_err()
        {
            kill.cancel();
            let _ = ended.wait_for(Option::is_some).await;
        }
    }
}

struct OutgoingLine {
    text: Vec<u8>,
    is_event: bool,
}

/// Encodes a message as a line of JSON; `None` if it cannot be encoded.
fn to_line(message: &impl Serialize) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(message).ok()?;
    line.push(b'\n');
    Some(line)
}

/// Writes lines until all senders are dropped; then the process reads the end of its input.
async fn write(
    mut lines: mpsc::UnboundedReceiver<OutgoingLine>,
    mut output: Box<dyn AsyncWrite + Send + Unpin>,
    events: Arc<AtomicUsize>,
) {
    while let Some(OutgoingLine { text, is_event }) = lines.recv().await {
        if output.write_all(&text).await.is_err() || output.flush().await.is_err() {
            return;
        }
        if is_event {
            events.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Observations about the end of a process.
#[derive(Default)]
struct ProcessExitNotes(Mutex<(Vec<u8>, Option<String>)>);

impl ProcessExitNotes {
    /// Adds printed output. Only the end of all output is kept.
    fn add_output(&self, piece: &[u8]) {
        let output = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        output.extend_from_slice(piece);
        let excess = output.len().saturating_sub(MAX_PRINTED_BYTES);
        output.drain(..excess);
    }

    /// Sets the reason for the end. The first reason counts.
    fn set_reason(&self, reason: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .get_or_insert(reason);
    }

    /// Returns `how` the process ended, followed by the reason or its last output, as a part of a
    /// sentence.
    fn describe_end(&self, how: &str) -> String {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let printed = String::from_utf8_lossy(without_cut_start(&notes.0));
        let printed = errors::escaped_output_tail(&printed);
        match (&notes.1, printed.is_empty()) {
            (Some(reason), _) => format!("{how}; {}", errors::escaped_output_tail(reason)),
            (None, false) => format!("{how}; it printed: {printed}"),
            (None, true) => how.to_owned(),
        }
    }
}

struct ShimMessageReader {
    name: String,
    calls: Arc<OpenCalls>,
    notes: Arc<ProcessExitNotes>,
    pong: watch::Sender<u64>,
    line_sender: mpsc::WeakUnboundedSender<OutgoingLine>,
    is_out_of_memory: Arc<AtomicBool>,
    hello: Option<oneshot::Sender<String>>,
}

impl ShimMessageReader {
    /// Handles messages until the process ends or sends an invalid message.
    async fn read(mut self, input: Box<dyn AsyncRead + Send + Unpin>) {
        let (mut input, mut line) = (BufReader::with_capacity(64 << 10, input), Vec::new());
        loop {
            line.clear();
            let limit = MAX_LINE_BYTES as u64 + 1;
            match (&mut input).take(limit).read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) if line.len() > MAX_LINE_BYTES => {
                    return self
                        .notes
                        .set_reason("it sent a line of more than 17 MiB".to_owned());
                }
                Ok(_) => {}
            }
            match serde_json::from_slice(&line) {
                Ok(message) => self.handle_message(message),
                Err(_) => match InvalidMessageAction::of(&line) {
                    Some(InvalidMessageAction::End(id, error)) => {
                        self.calls.complete(id, Err(error).into());
                    }
                    Some(InvalidMessageAction::Answer(ask, error)) => self.refuse(ask, error),
                    Some(InvalidMessageAction::Drop) => {
                        tracing::debug!(host = self.name, "ignored an invalid log message")
                    }
                    None => {
                        // The shim sends its messages on descriptor 4.
                        let reason = "it sent an invalid message: some of its code wrote to file \
                            descriptor 4, which is reserved for gdn";
                        return self.notes.set_reason(reason.to_owned());
                    }
                },
            }
        }
    }

    fn handle_message(&mut self, message: ShimMessage) {
        match message {
            ShimMessage::Hello { runtime, version } => {
                if let Some(hello) = self.hello.take() {
                    let _ = hello.send(format!("{runtime} {version}"));
                }
            }
            ShimMessage::Done { id, output, more } => {
                let ResultExtras {
                    changes,
                    state,
                    listens,
                    title,
                    metadata,
                    attachments,
                } = more;
                let output = ToolOutput {
                    output,
                    title,
                    metadata,
                    attachments,
                };
                self.calls.complete(
                    id,
                    FinalMessage {
                        outcome: Ok(output),
                        changes,
                        state,
                        listens,
                    },
                );
            }
            ShimMessage::Fail {
                id,
                error,
                fault,
                state,
                listens,
                spent,
            } => {
                // Set this before the answer, so that the caller's next call gets a new process.
                self.is_out_of_memory.fetch_or(spent, Ordering::Relaxed);
                let error = fault
                    .into_iter()
                    .fold(error, |error, fault| error.code(fault.code()));
                self.calls.complete(
                    id,
                    FinalMessage {
                        state,
                        listens,
                        ..Err(error).into()
                    },
                );
            }
            ShimMessage::Log { id, line } => match id.or_else(|| self.calls.only()) {
                Some(id) => {
                    self.calls.event(id, RunningMessage::Log(line));
                }
                None => log_printed_line(&self.name, line.level, &line.message),
            },
            ShimMessage::Progress { id, progress } => {
                self.calls.event(id, RunningMessage::Progress(progress));
            }
            ShimMessage::Ask {
                id,
                ask,
                name,
                payload,
            } => {
                let request = RunningMessage::Request {
                    operation: ask,
                    name,
                    payload,
                };
                if self.calls.event(id, request) != DeliveryStatus::Accepted {
                    let reason = "the call is over, or has too many open requests";
                    self.refuse(ask, HandlerError::new(reason));
                }
            }
            ShimMessage::Pong => self.pong.send_modify(|count| *count += 1),
            ShimMessage::Fatal { message } => {
                self.notes.set_reason(format!("uncaught error: {message}"))
            }
        }
    }

    /// Refuses a request that no call accepts.
    fn refuse(&self, ask: u64, why: HandlerError) {
        let answer = ShimCommand::Answer(OperationAnswer::new(ask, Err(why)));
        if let (Some(line_sender), Some(text)) = (self.line_sender.upgrade(), to_line(&answer)) {
            let _ = line_sender.send(OutgoingLine {
                text,
                is_event: false,
            });
        }
    }
}

/// Logs a line that belongs to no call.
fn log_printed_line(host: &str, level: LogLevel, message: &str) {
    match level {
        LogLevel::Debug => tracing::debug!(target: "gdn::tool", host, "{message}"),
        LogLevel::Info => tracing::info!(target: "gdn::tool", host, "{message}"),
        LogLevel::Warn => tracing::warn!(target: "gdn::tool", host, "{message}"),
        LogLevel::Error => tracing::error!(target: "gdn::tool", host, "{message}"),
    }
}

/// Reads output that is printed without the shim.
struct PrintedOutputReader {
    calls: Arc<OpenCalls>,
    notes: Arc<ProcessExitNotes>,
    name: String,
}

impl PrintedOutputReader {
    /// Logs each line until the output ends.
    async fn read(self, from: Box<dyn AsyncRead + Send + Unpin>) {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            let begun = line.len();
            match (&mut from)
                .take(MAX_LOGGED)
                .read_until(b'\n', &mut line)
                .await
            {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            self.notes.add_output(&line[begun..]);
            // A line above the limit is logged in pieces.
            let text = take_text(&mut line);
            let text = text.trim_end();
            match self.calls.only() {
                _ if text.is_empty() => {}
                Some(id) => {
                    let line = LogLine {
                        level: LogLevel::Info,
                        message: text.to_owned(),
                        target: None,
                        fields: Default::default(),
                    };
                    self.calls.event(id, RunningMessage::Log(line));
                }
                None => log_printed_line(&self.name, LogLevel::Info, text),
            }
        }
    }
}

/// Waits for the end of a process, and answers the remaining calls.
struct ProcessExitWatcher {
    name: String,
    calls: Arc<OpenCalls>,
    notes: Arc<ProcessExitNotes>,
    kill: CancellationToken,
    leave: CancellationToken,
    /// Receives the description of the end.
    end_sender: watch::Sender<Option<String>>,
}

impl ProcessExitWatcher {
    /// Waits until the process ends or must be killed, then closes its calls and reports the end.
    async fn watch(
        self,
        mut program: Box<dyn RunningHost>,
        mut reading: tokio::task::JoinHandle<()>,
        printer: tokio::task::JoinHandle<()>,
    ) {
        let ending = tokio::select! {
            ending = program.wait() => {
                // Read the messages that the process sent before its end.
                let _ = timeout(PONG_TIMEOUT, &mut reading).await;
                ending
            }
            // The process sends no further valid messages.
            _ = &mut reading => match timeout(PONG_TIMEOUT / 4, program.wait()).await {
                Ok(ending) => ending,
                Err(_) => program.kill().await,
            },
            () = self.kill.cancelled() => program.kill().await,
            () = self.leave.cancelled() => match timeout(EXIT_TIMEOUT, program.wait()).await {
                Ok(ending) => ending,
                Err(_) => program.kill().await,
            },
        };
        reading.abort();
        let _ = timeout(PONG_TIMEOUT / 4, printer).await;
        let ending = self.notes.describe_end(&ending);
        self.calls
            .close(&errors::host_ended_error(&self.name, &ending));
        // The receiver may already be dropped.
        let _ = self.end_sender.send(Some(ending));
    }
}
