//! One process of a host: what is told it, what it says, and its end.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goondan_core::layering::Sessions;
use goondan_core::ports::tool::{LogLevel, ToolError, ToolOutput};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::calls::{Calls, Ended, Event};
use crate::errors;
use crate::misfits::Misfit;
use crate::programs::{RunningHost, Streams};
use crate::wire::{Down, MAX_LINE, More, Up};

/// How long a host may take to say that it is there.
const HELLO: Duration = Duration::from_secs(20);
/// How long a host has to end by itself once nobody speaks to it any more.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a host that is asked whether it is there may take to say so.
const PONG: Duration = Duration::from_secs(1);
/// What is kept of what was printed, in bytes.
const MAX_PRINTED: usize = 4 << 10;
/// Events that may wait for a host; it does not hear of those beyond that.
const MOST_EVENTS: usize = 1_024;
/// The longest line that was printed and is logged as one, in bytes.
const MAX_LOGGED: u64 = 10_000;

/// A process that takes calls. Dropping the last handle to it ends it.
pub(crate) struct Process {
    name: String,
    calls: Arc<Calls>,
    /// The extensions that have registered in it.
    sessions: Sessions,
    down: mpsc::UnboundedSender<Line>,
    /// So many events wait to be written.
    events: Arc<AtomicUsize>,
    /// Fires when it shall be killed.
    kill: CancellationToken,
    /// The number of the last ping.
    pings: AtomicU64,
    /// How many of them it has answered. It answers in order.
    pongs: watch::Receiver<u64>,
    /// It takes no further calls and ends with the last that it has.
    is_retired: AtomicBool,
    /// It has run out of memory, and takes no further calls.
    is_spent: Arc<AtomicBool>,
    /// How it ended, once it has.
    ended: watch::Receiver<Option<String>>,
    /// Has it end when this is dropped: it is left a moment to do so by itself.
    _leave: DropGuard,
}

impl Process {
    /// Waits until the process behind `streams` says that it is there.
    pub(crate) async fn greet(name: &str, streams: Streams) -> Result<Process, ToolError> {
        let Streams {
            input,
            output,
            printed,
            program,
        } = streams;
        let (calls, notes) = (Arc::<Calls>::default(), Arc::<Notes>::default());
        let (kill, leave) = (CancellationToken::new(), CancellationToken::new());
        let (pong, pongs) = watch::channel(0);
        let (down, lines) = mpsc::unbounded_channel();
        let (hello, greeted) = oneshot::channel();
        let is_spent = Arc::<AtomicBool>::default();
        let (told, ended) = watch::channel(None);
        let events = Arc::<AtomicUsize>::default();
        tokio::spawn(write(lines, output, Arc::clone(&events)));
        let printer = tokio::spawn(
            Printer {
                calls: Arc::clone(&calls),
                notes: Arc::clone(&notes),
                name: name.to_owned(),
            }
            .read(printed),
        );
        let reader = Reader {
            name: name.to_owned(),
            calls: Arc::clone(&calls),
            notes: Arc::clone(&notes),
            pong,
            down: down.downgrade(),
            is_spent: Arc::clone(&is_spent),
            hello: Some(hello),
        };
        let reading = tokio::spawn(reader.read(input));
        let calls_left = Arc::clone(&calls);
        let end = End {
            name: name.to_owned(),
            calls: calls_left,
            notes,
            kill: kill.clone(),
            leave: leave.clone(),
            told,
        };
        tokio::spawn(end.watch(program, reading, printer));
        let (name_of, is_retired, _leave) =
            (name.to_owned(), AtomicBool::new(false), leave.drop_guard());
        let process = Process {
            name: name_of,
            calls,
            sessions: Sessions::default(),
            down,
            events,
            kill,
            pings: AtomicU64::new(0),
            pongs,
            is_retired,
            is_spent,
            ended,
            _leave,
        };
        match timeout(HELLO, greeted).await {
            Ok(Ok(version)) => {
                tracing::debug!(host = name, version, "a host was started");
                Ok(process)
            }
            Ok(Err(_)) => {
                let how = process.end_told().await;
                Err(errors::start(name, how))
            }
            Err(_) => {
                process.kill.cancel();
                Err(errors::start(
                    name,
                    format_args!("it did not answer within {} s", HELLO.as_secs()),
                ))
            }
        }
    }

    /// The open calls.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The extensions that have registered in it.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Whether it takes calls.
    pub(crate) fn is_fit(&self) -> bool {
        let is_given_up =
            self.is_retired.load(Ordering::Relaxed) || self.is_spent.load(Ordering::Relaxed);
        self.calls.is_open() && !is_given_up
    }

    /// Tells it something. Where it is gone, whoever waits is told so.
    pub(crate) fn tell(&self, message: &impl Serialize) {
        if let Some(text) = line(message) {
            let _ = self.down.send(Line {
                text,
                is_event: false,
            });
        }
    }

    /// Tells it of an event, unless too many wait already: a host that does not read must not fill the memory.
    pub(crate) fn mention(&self, event: &Down<'_>) {
        if self.events.load(Ordering::Relaxed) >= MOST_EVENTS {
            tracing::debug!(
                host = self.name,
                "an event was left out: {MOST_EVENTS} wait already"
            );
            return;
        }
        if let Some(text) = line(event) {
            self.events.fetch_add(1, Ordering::Relaxed);
            let _ = self.down.send(Line {
                text,
                is_event: true,
            });
        }
    }

    /// Asks it to end a call, and whether it is there.
    pub(crate) fn cancel(&self, id: u64) -> Ping {
        self.tell(&Down::Cancel { id });
        let number = self.pings.fetch_add(1, Ordering::Relaxed) + 1;
        self.tell(&Down::Ping);
        Ping {
            number,
            at: Instant::now(),
        }
    }

    /// A call in it did not end. It takes no more and is killed once those that it has are over; at once where it has not
    /// even answered the ping that came with the cancel. As long as others are in it, it has a moment more to do so.
    pub(crate) fn retire(self: &Arc<Self>, ping: Ping) {
        if self.is_retired.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            host = self.name,
            "a call did not end when it was cancelled: the host takes no more calls"
        );
        let (name, calls) = (self.name.clone(), Arc::clone(&self.calls));
        let (mut pongs, kill) = (self.pongs.clone(), self.kill.clone());
        let until = if calls.count() == 0 {
            ping.at
        } else {
            Instant::now()
        } + PONG;
        tokio::spawn(async move {
            let is_there = timeout_at(until, pongs.wait_for(|count| *count >= ping.number))
                .await
                .is_ok();
            match is_there {
                true => calls.until_idle().await,
                false => calls.close(&errors::died(
                    &name,
                    "it was killed, for another call in it never came back",
                )),
            }
            kill.cancel();
        });
    }

    /// How it ended, which it is about to do.
    async fn end_told(&self) -> String {
        let mut ended = self.ended.clone();
        let told = timeout(PATIENCE * 2, ended.wait_for(Option::is_some)).await;
        told.ok()
            .and_then(Result::ok)
            .and_then(|how| how.clone())
            .unwrap_or_else(|| "it does not end".to_owned())
    }

    /// Ends it, and waits until it has: it is left a moment to end by itself.
    pub(crate) async fn end(self: Arc<Self>) {
        let (mut ended, kill) = (self.ended.clone(), self.kill.clone());
        self.is_retired.store(true, Ordering::Relaxed);
        self.calls.close(&errors::cancelled());
        drop(self);
        if timeout(PATIENCE, ended.wait_for(Option::is_some))
            .await
            .is_err()
        {
            kill.cancel();
            let _ = ended.wait_for(Option::is_some).await;
        }
    }
}

/// A question whether a host is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ping {
    number: u64,
    at: Instant,
}

/// A line for a host.
struct Line {
    text: Vec<u8>,
    is_event: bool,
}

fn line(message: &impl Serialize) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(message).ok()?;
    line.push(b'\n');
    Some(line)
}

/// Writes lines until nobody has any more; then the host reads its end.
async fn write(
    mut lines: mpsc::UnboundedReceiver<Line>,
    mut output: Box<dyn AsyncWrite + Send + Unpin>,
    events: Arc<AtomicUsize>,
) {
    while let Some(Line { text, is_event }) = lines.recv().await {
        if output.write_all(&text).await.is_err() || output.flush().await.is_err() {
            return;
        }
        if is_event {
            events.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What is known about the end of a host.
#[derive(Default)]
struct Notes(Mutex<(Vec<u8>, Option<String>)>);

impl Notes {
    fn print(&self, piece: &[u8]) {
        let kept = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        kept.extend_from_slice(piece);
        let over = kept.len().saturating_sub(MAX_PRINTED);
        kept.drain(..over);
    }

    fn reason(&self, reason: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .get_or_insert(reason);
    }

    /// The host's own words, as part of a sentence.
    fn words(&self, how: &str) -> String {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let printed = errors::said(&String::from_utf8_lossy(&notes.0));
        match (&notes.1, printed.is_empty()) {
            (Some(reason), _) => format!("{how}; {}", errors::said(reason)),
            (None, false) => format!("{how}; it printed: {printed}"),
            (None, true) => how.to_owned(),
        }
    }
}

/// Reads what a host says.
struct Reader {
    name: String,
    calls: Arc<Calls>,
    notes: Arc<Notes>,
    pong: watch::Sender<u64>,
    down: mpsc::WeakUnboundedSender<Line>,
    is_spent: Arc<AtomicBool>,
    hello: Option<oneshot::Sender<String>>,
}

impl Reader {
    async fn read(mut self, input: Box<dyn AsyncRead + Send + Unpin>) {
        let (mut input, mut line) = (BufReader::with_capacity(64 << 10, input), Vec::new());
        loop {
            line.clear();
            let limit = MAX_LINE as u64 + 1;
            match (&mut input).take(limit).read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) if line.len() > MAX_LINE => {
                    return self
                        .notes
                        .reason("it sent a line of more than 17 MiB".to_owned());
                }
                Ok(_) => {}
            }
            match serde_json::from_slice(&line) {
                Ok(up) => self.take(up),
                Err(_) => match Misfit::of(&line) {
                    Some(Misfit::End(id, error)) => self.calls.end(id, Err(error).into()),
                    Some(Misfit::Answer(ask, error)) => self.refuse(ask, error),
                    Some(Misfit::Drop) => {
                        tracing::debug!(host = self.name, "a line for the log can't be read")
                    }
                    None => {
                        let reason =
                            "it sent what is not a message: something wrote to descriptor 4";
                        return self.notes.reason(reason.to_owned());
                    }
                },
            }
        }
    }

    fn take(&mut self, up: Up) {
        match up {
            Up::Hello { runtime, version } => {
                if let Some(hello) = self.hello.take() {
                    let _ = hello.send(format!("{runtime} {version}"));
                }
            }
            Up::Done { id, output, more } => {
                let More {
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
                self.calls.end(
                    id,
                    Ended {
                        outcome: Ok(output),
                        changes,
                        state,
                        listens,
                    },
                );
            }
            Up::Fail {
                id,
                error,
                fault,
                state,
                listens,
                spent,
            } => {
                // Before whoever waits can call again.
                self.is_spent.fetch_or(spent, Ordering::Relaxed);
                let error = ToolError::from(error);
                let error = fault
                    .into_iter()
                    .fold(error, |error, fault| error.code(fault.code()));
                self.calls.end(
                    id,
                    Ended {
                        state,
                        listens,
                        ..Err(error).into()
                    },
                );
            }
            Up::Log {
                id,
                level,
                message,
                fields,
            } => match id.or_else(|| self.calls.only()) {
                Some(id) => drop(self.calls.event(id, Event::Log(level, message, fields))),
                None => printed(&self.name, level, &message),
            },
            Up::Progress {
                id,
                title,
                metadata,
            } => drop(self.calls.event(id, Event::Progress(title, metadata))),
            Up::Ask {
                id,
                ask,
                name,
                payload,
            } => {
                if !self.calls.event(id, Event::Ask { ask, name, payload }) {
                    self.refuse(
                        ask,
                        ToolError::new("the call is over, or asks too much at a time"),
                    );
                }
            }
            Up::Pong => self.pong.send_modify(|count| *count += 1),
            Up::Fatal { message } => self.notes.reason(format!("nobody caught: {message}")),
        }
    }

    /// A question that nobody takes.
    fn refuse(&self, ask: u64, why: ToolError) {
        let answer = Down::Answer(crate::wire::Answer {
            ask,
            value: None,
            error: Some(why.into()),
        });
        if let (Some(down), Some(text)) = (self.down.upgrade(), line(&answer)) {
            let _ = down.send(Line {
                text,
                is_event: false,
            });
        }
    }
}

/// A line that belongs to no call.
fn printed(host: &str, level: LogLevel, message: &str) {
    match level {
        LogLevel::Debug => tracing::debug!(target: "gdn::tool", host, "{message}"),
        LogLevel::Info => tracing::info!(target: "gdn::tool", host, "{message}"),
        LogLevel::Warn => tracing::warn!(target: "gdn::tool", host, "{message}"),
        LogLevel::Error => tracing::error!(target: "gdn::tool", host, "{message}"),
    }
}

/// Takes what is printed past the shim.
struct Printer {
    calls: Arc<Calls>,
    notes: Arc<Notes>,
    name: String,
}

impl Printer {
    async fn read(self, from: Box<dyn AsyncRead + Send + Unpin>) {
        let (mut from, mut line) = (BufReader::new(from), Vec::new());
        loop {
            line.clear();
            match (&mut from)
                .take(MAX_LOGGED)
                .read_until(b'\n', &mut line)
                .await
            {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            self.notes.print(&line);
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            match self.calls.only() {
                _ if text.is_empty() => {}
                Some(id) => drop(self.calls.event(
                    id,
                    Event::Log(LogLevel::Info, text.to_owned(), Default::default()),
                )),
                None => printed(&self.name, LogLevel::Info, text),
            }
        }
    }
}

/// Sees a process to its end, and answers the calls that are left.
struct End {
    name: String,
    calls: Arc<Calls>,
    notes: Arc<Notes>,
    kill: CancellationToken,
    leave: CancellationToken,
    told: watch::Sender<Option<String>>,
}

impl End {
    async fn watch(
        self,
        mut program: Box<dyn RunningHost>,
        mut reading: tokio::task::JoinHandle<()>,
        printer: tokio::task::JoinHandle<()>,
    ) {
        let how = tokio::select! {
            how = program.wait() => {
                // What it said before its end counts.
                let _ = timeout(PONG, &mut reading).await;
                how
            }
            // It says nothing any more, or nothing that makes sense.
            _ = &mut reading => match timeout(PONG / 4, program.wait()).await {
                Ok(how) => how,
                Err(_) => program.kill().await,
            },
            () = self.kill.cancelled() => program.kill().await,
            () = self.leave.cancelled() => match timeout(PATIENCE, program.wait()).await {
                Ok(how) => how,
                Err(_) => program.kill().await,
            },
        };
        reading.abort();
        let _ = timeout(PONG / 4, printer).await;
        let how = self.notes.words(&how);
        self.calls.close(&errors::died(&self.name, &how));
        // Nobody may be there any more who wants to know.
        let _ = self.told.send(Some(how));
    }
}
