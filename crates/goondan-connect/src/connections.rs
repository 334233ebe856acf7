//! The connections of a running swarm: started with it, restarted when a reload changes them, and
//! stopped with it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State as Extracted};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use goondan::ReloadNews;
use goondan::adapters::connectors::{BoundConnection, UnusableConnection};
use goondan::gateway::SwarmGateway;
use goondan::spec::kinds::ReplyMode;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::connection_options::ConnectionOptions;
use crate::connection_runtime::{ConnectionRuntime, PendingReplies, SharedConnectionState};
use crate::outbox::Outbox;
use crate::platforms;
use crate::receive_supervisor::{self, AbortOnDrop};
use crate::state_dir::ConnectionStateDir;
use crate::status::{ConnectionState, ConnectionStatus};

/// Time limit for sending pending answers at shutdown.
const REPLY_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The connections of a running swarm. Dropping it stops them immediately.
pub struct Connections {
    inner: Arc<ConnectionsInner>,
    following: Mutex<Option<AbortOnDrop<()>>>,
}

struct ConnectionsInner {
    shared: SharedConnectionState,
    table: Mutex<ConnectionTable>,
}

#[derive(Default)]
struct ConnectionTable {
    /// No events are accepted.
    is_stopped: bool,
    running: HashMap<String, RunningConnection>,
    /// Pending answers of all connections of this process, including changed and removed ones.
    pending_replies: HashMap<String, Arc<PendingReplies>>,
    problems: Vec<UnusableConnection>,
}

/// A running connection. It stops when it is dropped; its pending answers are still sent.
struct RunningConnection {
    runtime: Arc<ConnectionRuntime>,
    _receiving: AbortOnDrop<()>,
}

impl Connections {
    /// Starts the connections of a swarm. A connection that fails to start does not affect the
    /// others.
    pub async fn begin(gateway: SwarmGateway, options: ConnectionOptions) -> Connections {
        let news = gateway.swarm().reload_news();
        let shared = SharedConnectionState {
            gateway,
            options,
            stopping: CancellationToken::new(),
        };
        let inner = Arc::new(ConnectionsInner {
            shared,
            table: Mutex::default(),
        });
        inner.apply().await;
        let following = AbortOnDrop(tokio::spawn(follow(Arc::clone(&inner), news)));
        Connections {
            inner,
            following: Mutex::new(Some(following)),
        }
    }

    /// Returns true if no connection runs or has failed.
    pub fn is_empty(&self) -> bool {
        let table = self.inner.table();
        table.running.is_empty() && table.problems.is_empty()
    }

    /// Returns the names of the running connections, sorted.
    pub fn running(&self) -> Vec<String> {
        let mut names: Vec<String> = self.inner.table().running.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns the connections that do not run, with reasons.
    pub fn problems(&self) -> Vec<UnusableConnection> {
        self.inner.table().problems.clone()
    }

    /// Returns the router for platform events at `/connect/NAME`. Each connection checks signatures
    /// itself.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/connect/{connection}", any(deliver))
            .with_state(Arc::clone(&self.inner))
    }

    /// Stops accepting events.
    pub fn stop_receiving(&self) {
        drop(
            self.following
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        self.inner.shared.stopping.cancel();
        let running = {
            let mut table = self.inner.table();
            table.is_stopped = true;
            std::mem::take(&mut table.running)
        };
        for connection in running.values() {
            receive_supervisor::write_connection_status(
                &connection.runtime,
                ConnectionState::Stopped,
                None,
            );
        }
    }

    /// Stops accepting events and sends pending answers. Shut down the swarm first.
    pub async fn end(&self) {
        self.stop_receiving();
        let pending_replies: Vec<Arc<PendingReplies>> = self
            .inner
            .table()
            .pending_replies
            .drain()
            .map(|(_, pending_replies)| pending_replies)
            .collect();
        futures::future::join_all(
            pending_replies
                .iter()
                .map(|pending_replies| pending_replies.queues.drain(REPLY_DRAIN_TIMEOUT)),
        )
        .await;
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.inner.shared.stopping.cancel();
        let mut table = self.inner.table();
        table.running.clear();
        for (_, pending_replies) in table.pending_replies.drain() {
            pending_replies.queues.stop_deliveries();
        }
    }
}

impl ConnectionsInner {
    /// Locks the table.
    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts and stops connections to match the configuration of the swarm.
    async fn apply(&self) {
        let mut configured = Vec::new();
        let mut problems = Vec::new();
        for connection in self.shared.gateway.swarm().connections().await {
            match connection {
                Ok(bound) => configured.push(bound),
                Err(problem) => problems.push(problem),
            }
        }
        self.table()
            .running
            .retain(|_, running| configured.contains(&running.runtime.bound));
        for bound in configured {
            if self.table().running.contains_key(&bound.name) {
                continue;
            }
            let name = bound.name.clone();
            match self.start(bound).await {
                Ok(running) => drop(self.table().running.insert(name, running)),
                Err(problem) => problems.push(UnusableConnection { name, problem }),
            }
        }
        for UnusableConnection { name, problem } in &problems {
            self.write_unusable_status(name, problem);
        }
        self.table().problems = problems;
    }

    /// Starts a connection. Fails with a sentence for the user.
    async fn start(&self, bound: BoundConnection) -> Result<RunningConnection, String> {
        let platform = platforms::make(&bound, self.shared.options.console.as_ref())?;
        if platform.needs_server() && !self.shared.options.has_server {
            return Err(
                "The connection needs `gdn serve`, so that its platform can deliver events."
                    .to_owned(),
            );
        }
        let unusable =
            |error: io::Error| format!("Its directory in the workspace cannot be used: {error}.");
        let state_dir = self.state_dir(&bound.name);
        let folder = state_dir.prepare().map_err(unusable)?.to_owned();
        // A stopped connection with the same name may still be sending answers.
        let known = self.table().pending_replies.get(&bound.name).cloned();
        let (pending_replies, pending) = match known {
            Some(pending_replies) => (pending_replies, Vec::new()),
            None => {
                let (outbox, pending) = Outbox::open(&folder).map_err(unusable)?;
                (
                    Arc::new(PendingReplies {
                        outbox,
                        queues: Default::default(),
                    }),
                    pending,
                )
            }
        };
        self.table()
            .pending_replies
            .insert(bound.name.clone(), Arc::clone(&pending_replies));
        let answers = bound.reply != ReplyMode::None;
        let runtime =
            ConnectionRuntime::open(bound, &self.shared, platform, folder, pending_replies)
                .map_err(unusable)?;
        let runtime = Arc::new(runtime);
        if answers {
            runtime.resume(pending).await.map_err(unusable)?;
        }
        let receiving = AbortOnDrop(tokio::spawn(receive_supervisor::receive(Arc::clone(
            &runtime,
        ))));
        Ok(RunningConnection {
            runtime,
            _receiving: receiving,
        })
    }

    /// Returns the state directory of a connection.
    fn state_dir(&self, name: &str) -> ConnectionStateDir {
        ConnectionStateDir::of(&self.shared.gateway.swarm().workspace_dir(), name)
    }

    /// Writes the status file of a connection that cannot run.
    fn write_unusable_status(&self, name: &str, problem: &str) {
        if let Ok(folder) = self.state_dir(name).prepare() {
            let reason = Some(problem.to_owned());
            ConnectionStatus {
                state: ConnectionState::Unusable,
                since: self.shared.options.clock.now(),
                why: reason,
            }
            .write(folder);
        }
    }
}

/// Applies connection changes after each successful reload.
async fn follow(inner: Arc<ConnectionsInner>, mut news: UnboundedReceiver<ReloadNews>) {
    while let Some(news) = news.recv().await {
        if let ReloadNews::Reloaded(outcome) = news
            && outcome.result.is_ok()
        {
            inner.apply().await;
            for UnusableConnection { name, problem } in inner.table().problems.iter() {
                tracing::warn!(connection = name, "a connection is not running: {problem}");
            }
        }
    }
}

/// Passes a web request to its connection.
async fn deliver(
    Extracted(inner): Extracted<Arc<ConnectionsInner>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let (runtime, is_stopped) = {
        let table = inner.table();
        (
            table
                .running
                .get(&name)
                .map(|running| Arc::clone(&running.runtime)),
            table.is_stopped,
        )
    };
    if is_stopped {
        return (StatusCode::SERVICE_UNAVAILABLE, "The swarm is stopping.\n").into_response();
    }
    match runtime.filter(|runtime| runtime.platform.needs_server()) {
        Some(runtime) => platforms::request(runtime, request).await,
        None => (StatusCode::NOT_FOUND, "There is no such connection.\n").into_response(),
    }
}
