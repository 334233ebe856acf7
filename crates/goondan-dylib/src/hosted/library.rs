//! Keeps a host process for one library running.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use goondan_abi::wire;
use goondan_core::plugin_session::{PluginTransport, RestartDelay};
use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::child::{FullQueuePolicy, HostCommand, HostProcess, StartedHostProcess};
use crate::connection::LibraryConnection;
use crate::counters::LibraryCounters;
use crate::failure::LibraryFailure;
use crate::limits::LibraryLimits;
use crate::threads::LibraryThreads;

/// Number of consecutive crashes after which the process is still restarted at once.
const IMMEDIATE_RESTARTS: u32 = 5;
const MAX_RESTART_DELAY: Duration = Duration::from_secs(5 * 60);

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

struct HostProcessHistory {
    current: Option<HostProcess>,
    restart: RestartDelay,
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
            state: Mutex::new(HostProcessHistory {
                current: None,
                restart: RestartDelay::new(IMMEDIATE_RESTARTS, MAX_RESTART_DELAY),
            }),
        }
    }

    /// Starts the process for the first time, and returns the library's manifest.
    pub(crate) async fn first_start(&self) -> Result<wire::Manifest, LibraryFailure> {
        let (_, manifest) = self.start(&mut *self.state.lock().await).await?;
        Ok(manifest)
    }

    /// Returns the connection of the running process, or starts one. Fails if the pause after a
    /// crash is not over.
    pub(crate) async fn connect(&self) -> Result<Arc<LibraryConnection>, HandlerError> {
        let mut state = self.state.lock().await;
        if let Some(process) = &state.current {
            if process.connection.calls().is_healthy() {
                return Ok(Arc::clone(&process.connection));
            }
            if self.threads.are_closed() {
                return Err(HandlerError::new(format!("{} was closed", self.name))
                    .code(Code::TOOL_UNAVAILABLE));
            }
            // The process has ended, or has too many calls that never end.
            process.kill();
            let (answered, ended) = (process.connection.calls().has_answered(), process.ended());
            state.current = None;
            self.record_crash(
                &mut state,
                answered,
                ended.map_or_else(Instant::now, Instant::from_std),
            );
        }
        let process = format!("the library host process of {}", self.name);
        state.restart.check(&process, Code::TOOL_UNAVAILABLE)?;
        let started = self.start(&mut state).await;
        started
            .map(|(connection, _)| connection)
            .map_err(|failure| {
                self.record_crash(&mut state, false, Instant::now());
                HandlerError {
                    suggestion: failure.suggestion(),
                    ..HandlerError::new(failure.to_string())
                }
                .code(Code::TOOL_UNAVAILABLE)
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
            command_sender,
            reader,
        } = started;
        self.threads.remember(&self.name, command_sender, reader);
        let connection = Arc::clone(&process.connection);
        state.current = Some(process);
        Ok((connection, manifest))
    }

    /// Counts a crash and sets the time of the next start. `answered`: whether the process had
    /// answered a call.
    fn record_crash(&self, state: &mut HostProcessHistory, answered: bool, at: Instant) {
        self.counters.crashes.fetch_add(1, Ordering::Relaxed);
        let crashes = state.restart.record_failure(answered, at);
        tracing::warn!(library = %self.name, crashes, "library host process crashed");
    }
}
