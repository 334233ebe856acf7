//! The connections of a running swarm: started with it, restarted where a reload changes them, ended with it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State as Extracted};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use goondan::connectors::{Bound, Unusable};
use goondan::ports::clock::{Clock, SystemClock};
use goondan::spec::kinds::Reply as ReplyMode;
use goondan::{Broker, ReloadNews, Swarm};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::asking::Asking;
use crate::console::Console;
use crate::desk::{Desk, Owed, Shared};
use crate::live::Live;
use crate::outbox::Outbox;
use crate::platforms;
use crate::shelf::Shelf;
use crate::status::{State, Status};
use crate::supervise::{self, Abort};

/// How long answers may take that are not sent yet when all ends.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Where the connections run.
#[derive(Clone)]
pub struct Options {
    /// Whether there is a server that [`Connections::router`] is part of.
    pub has_server: bool,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where people type, for connections that read that.
    pub console: Option<Arc<Console>>,
    /// Whom the swarm asks for approvals; without it nobody is asked in a channel.
    pub broker: Option<Broker>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            has_server: false,
            clock: Arc::new(SystemClock),
            console: None,
            broker: None,
        }
    }
}

/// The connections of a running swarm. Dropping it ends them at once.
pub struct Connections {
    inner: Arc<Inner>,
    following: Mutex<Option<Abort<()>>>,
    _asking: Option<Abort<()>>,
}

struct Inner {
    swarm: Swarm,
    options: Options,
    shared: Shared,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Nothing is taken any more.
    is_stopped: bool,
    running: HashMap<String, Running>,
    /// Of all that ran in this process: answers may be owed by one that was changed or taken out.
    owed: HashMap<String, Arc<Owed>>,
    problems: Vec<Unusable>,
}

/// A connection that runs. It ends when it is dropped; what it owes is sent all the same.
struct Running {
    desk: Arc<Desk>,
    _receiving: Abort<()>,
}

impl Connections {
    /// Starts the connections that feed `swarm`. One that can't be started keeps the others from nothing.
    pub async fn begin(swarm: Swarm, options: Options) -> Connections {
        let news = swarm.reload_news();
        let asking = Asking::new(options.broker.clone());
        let (live, clock) = (Live::default(), Arc::clone(&options.clock));
        let shared = Shared {
            swarm: swarm.clone(),
            clock,
            asking,
            live,
        };
        let inner = Arc::new(Inner {
            swarm,
            options,
            shared,
            table: Mutex::default(),
        });
        let asking = inner.shared.asking.begin();
        inner.apply().await;
        let following = Abort(tokio::spawn(follow(Arc::clone(&inner), news)));
        Connections {
            inner,
            following: Mutex::new(Some(following)),
            _asking: asking,
        }
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        let table = self.inner.table();
        table.running.is_empty() && table.problems.is_empty()
    }

    /// The names of those that run, sorted.
    pub fn running(&self) -> Vec<String> {
        let mut names: Vec<String> = self.inner.table().running.keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Those that do not run, and why.
    pub fn problems(&self) -> Vec<Unusable> {
        self.inner.table().problems.clone()
    }

    /// Where platforms deliver events: `/connect/NAME`. Each connection checks the signatures itself.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/connect/{connection}", any(deliver))
            .with_state(Arc::clone(&self.inner))
    }

    /// Takes no more events.
    pub fn stop_receiving(&self) {
        drop(
            self.following
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let running = {
            let mut table = self.inner.table();
            table.is_stopped = true;
            std::mem::take(&mut table.running)
        };
        for connection in running.values() {
            supervise::tell(&connection.desk, State::Stopped, None);
        }
    }

    /// Takes no more events, and sends what is left to send. The swarm should have ended before.
    pub async fn end(&self) {
        self.stop_receiving();
        let owed: Vec<Arc<Owed>> = self
            .inner
            .table()
            .owed
            .drain()
            .map(|(_, owed)| owed)
            .collect();
        futures::future::join_all(owed.iter().map(|owed| owed.lanes.settle(LAST_WORDS))).await;
        self.inner.shared.asking.end();
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.inner.shared.asking.end();
        let mut table = self.inner.table();
        table.running.clear();
        table.owed.drain().for_each(|(_, owed)| owed.lanes.end());
    }
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes what runs what the swarm has.
    async fn apply(&self) {
        let (mut wanted, mut problems) = (Vec::new(), Vec::new());
        for connection in self.swarm.connections().await {
            match connection {
                Ok(bound) => wanted.push(bound),
                Err(problem) => problems.push(problem),
            }
        }
        self.table()
            .running
            .retain(|_, running| wanted.contains(&running.desk.bound));
        for bound in wanted {
            if self.table().running.contains_key(&bound.name) {
                continue;
            }
            let name = bound.name.clone();
            match self.start(bound).await {
                Ok(running) => drop(self.table().running.insert(name, running)),
                Err(problem) => problems.push(Unusable { name, problem }),
            }
        }
        for Unusable { name, problem } in &problems {
            self.tell_unusable(name, problem);
        }
        self.table().problems = problems;
    }

    async fn start(&self, bound: Bound) -> Result<Running, String> {
        let platform = platforms::make(&bound, self.options.console.as_ref())?;
        if platform.needs_server() && !self.options.has_server {
            return Err("It needs `gdn serve`, where its platform can deliver events.".to_owned());
        }
        let unusable =
            |error: io::Error| format!("Its folder in the workspace can't be used: {error}.");
        let shelf = Shelf::of(&self.swarm.workspace_dir(), &bound.name);
        let folder = shelf.prepare().map_err(unusable)?.to_owned();
        let known = self.table().owed.get(&bound.name).cloned();
        let (owed, left) = match known {
            Some(owed) => (owed, Vec::new()),
            None => {
                let (outbox, left) = Outbox::open(&folder).map_err(unusable)?;
                (
                    Arc::new(Owed {
                        outbox,
                        lanes: Default::default(),
                    }),
                    left,
                )
            }
        };
        self.table()
            .owed
            .insert(bound.name.clone(), Arc::clone(&owed));
        let answers = bound.reply != ReplyMode::None;
        let desk = Desk::open(bound, &self.shared, platform, folder, owed).map_err(unusable)?;
        let desk = Arc::new(desk);
        if answers {
            desk.resume(left).await.map_err(unusable)?;
        }
        let receiving = Abort(tokio::spawn(supervise::receive(Arc::clone(&desk))));
        Ok(Running {
            desk,
            _receiving: receiving,
        })
    }

    fn tell_unusable(&self, name: &str, problem: &str) {
        let shelf = Shelf::of(&self.swarm.workspace_dir(), name);
        if let Ok(folder) = shelf.prepare() {
            let why = Some(problem.to_owned());
            Status {
                state: State::Unusable,
                since: self.options.clock.now(),
                why,
            }
            .write(folder);
        }
    }
}

/// Each reload that took something up may have changed connections.
async fn follow(inner: Arc<Inner>, mut news: UnboundedReceiver<ReloadNews>) {
    while let Some(news) = news.recv().await {
        if let ReloadNews::Reloaded(outcome) = news
            && outcome.result.is_ok()
        {
            inner.apply().await;
            for Unusable { name, problem } in inner.table().problems.iter() {
                tracing::warn!(connection = name, "a connection does not run: {problem}");
            }
        }
    }
}

async fn deliver(
    Extracted(inner): Extracted<Arc<Inner>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let (desk, is_stopped) = {
        let table = inner.table();
        (
            table
                .running
                .get(&name)
                .map(|running| Arc::clone(&running.desk)),
            table.is_stopped,
        )
    };
    if is_stopped {
        return (StatusCode::SERVICE_UNAVAILABLE, "The swarm is stopping.\n").into_response();
    }
    match desk.filter(|desk| desk.platform.needs_server()) {
        Some(desk) => platforms::request(desk, request).await,
        None => (StatusCode::NOT_FOUND, "There is no such connection.\n").into_response(),
    }
}
