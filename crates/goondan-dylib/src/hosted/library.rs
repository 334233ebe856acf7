//! Keeps a host process for one library running.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use goondan_abi::wire::{self, code};
use tokio::sync::Mutex;

use super::backoff::pause_after;
use super::child::{FullQueuePolicy, HostCommand, HostProcess, StartedHostProcess};
use crate::connection::LibraryConnection;
use crate::failure::LibraryFailure;
use crate::library_messages::Outcome;
use crate::limits::LibraryLimits;
use crate::metrics::LibraryCounters;
use crate::threads::LibraryThreads;

/// A library in a host process that is restarted after a crash.
pub(crate) struct HostedLibrary {
    command: HostCommand,
    /// The private copy to load.
    path: PathBuf,
    name: String,
    limits: LibraryLimits,
    counters: Arc<LibraryCounters>,
    threads: Arc<LibraryThreads>,
    state: Mutex<HostProcessHistory>,
}

#[derive(Default)]
struct HostProcessHistory {
    current: Option<HostProcess>,
    /// Number of crashes since the last success.
    crashes: u32,
    not_before: Option<Instant>,
}

impl HostedLibrary {
    pub(crate) fn new(
        command: HostCommand,
        path: PathBuf,
        name: String,
        limits: LibraryLimits,
        counters: Arc<LibraryCounters>,
        threads: Arc<LibraryThreads>,
    ) -> Self {
        HostedLibrary {
            command,
            path,
            name,
            limits,
            counters,
            threads,
            state: Mutex::default(),
        }
    }

    /// Starts the process for the first time, and returns the library's manifest.
    pub(crate) async fn first_start(&self) -> Result<wire::Manifest, LibraryFailure> {
        let (_, manifest) = self.start(&mut *self.state.lock().await).await?;
        Ok(manifest)
    }

    /// Returns the connection of the running process, or starts one. Fails if the pause after a
    /// crash is not over.
    pub(crate) async fn connect(&self) -> Outcome<Arc<LibraryConnection>> {
        let mut state = self.state.lock().await;
        if let Some(process) = &state.current {
            if process.connection.calls().is_healthy() {
                return Ok(Arc::clone(&process.connection));
            }
            if self.threads.are_closed() {
                return Err(wire::ToolError::new(format!("{} was closed", self.name))
                    .code(code::UNAVAILABLE));
            }
            // The process has ended, or has too many calls that never end.
            process.kill();
            let (answered, ended) = (process.connection.calls().has_answered(), process.ended());
            state.current = None;
            self.note_crash(&mut state, answered, ended.unwrap_or_else(Instant::now));
        }
        if let Some(pause) = state
            .not_before
            .and_then(|at| at.checked_duration_since(Instant::now()))
        {
            return Err(self.restart_delay_error(state.crashes, pause));
        }
        let started = self.start(&mut state).await;
        started
            .map(|(connection, _)| connection)
            .map_err(|failure| {
                self.note_crash(&mut state, false, Instant::now());
                wire::ToolError {
                    suggestion: failure.suggestion(),
                    ..wire::ToolError::new(failure.to_string())
                }
                .code(code::UNAVAILABLE)
            })
    }

    /// Starts the process. Returns its connection and the library's manifest.
    async fn start(
        &self,
        state: &mut HostProcessHistory,
    ) -> Result<(Arc<LibraryConnection>, wire::Manifest), LibraryFailure> {
        let (command, queue_policy) = (&self.command, FullQueuePolicy::OrLost);
        let started = HostProcess::start(
            command,
            &self.path,
            &self.name,
            &self.limits,
            &self.counters,
            queue_policy,
        )
        .await?;
        let StartedHostProcess {
            process,
            manifest,
            down,
            reader,
        } = started;
        self.threads.remember(&self.name, down, reader);
        let connection = Arc::clone(&process.connection);
        state.current = Some(process);
        Ok((connection, manifest))
    }

    /// Counts a crash and sets the time of the next start. `answered`: whether the process had
    /// answered a call.
    fn note_crash(&self, state: &mut HostProcessHistory, answered: bool, at: Instant) {
        self.counters.crashes.fetch_add(1, Ordering::Relaxed);
        state.crashes = if answered {
            1
        } else {
            state.crashes.saturating_add(1)
        };
        state.not_before = Some(at + pause_after(state.crashes));
        tracing::warn!(library = %self.name, crashes = state.crashes, "library host process \
            crashed");
    }

    /// Returns the error of a call during the pause after a crash.
    fn restart_delay_error(&self, crashes: u32, left: Duration) -> wire::ToolError {
        let seconds = left.as_secs() + 1;
        wire::ToolError::new(format!(
            "the library host process of {} crashed {crashes} times in a row; it restarts in \
            {seconds} s",
            self.name
        ))
        .code(code::UNAVAILABLE)
        .suggest("Use another tool, or retry after the restart.")
    }
}
