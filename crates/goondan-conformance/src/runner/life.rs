//! One life of the runtime: from a start to a shutdown or a kill.

use std::sync::Arc;
use std::time::Duration;

use goondan::database::NodeInfo;
use goondan::spec::Bundle;
use goondan::{Database, ReloadNews, ReloadOutcome, StartError, Swarm, Watch, WatchOptions};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;

use super::cluster::Cluster;
use super::events::Followed;
use super::logs::Logs;
use super::outfit::Outfit;
use super::world::World;

/// How long a graceful end may take before the rest is cut off.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How long threads that are busy at a kill may finish what they do.
pub(super) const STRAGGLERS: Duration = Duration::from_secs(2);

/// How often is looked for nodes that have come.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// How long a step may take from its start to its question.
pub(super) const TO_ASK: Duration = Duration::from_secs(1);

/// What runs the case.
pub(crate) enum Life {
    /// A swarm.
    One(Box<One>),
    /// Several nodes that share a database.
    Many(Box<Cluster>),
}

impl Life {
    /// Starts what the case says on the state that it has by now.
    pub(crate) fn start(
        world: &World<'_>,
        bundle: Arc<Bundle>,
    ) -> Result<Result<Self, StartError>, OutOfTime> {
        Ok(match (world.case.nodes, &world.database) {
            (Some(nodes), Some(database)) => Cluster::start(world, bundle, database, nodes)?
                .map(|cluster| Life::Many(Box::new(cluster))),
            _ => One::start(world, bundle)?.map(|one| Life::One(Box::new(one))),
        })
    }

    /// The swarm that takes inputs.
    pub(crate) fn swarm(&self, world: &World<'_>) -> Result<Swarm, OutOfTime> {
        match self {
            Life::One(one) => Ok(one.swarm.clone()),
            Life::Many(cluster) => cluster.swarm(world),
        }
    }

    /// The nodes, where there are several.
    pub(crate) fn cluster(&mut self) -> Option<&mut Cluster> {
        match self {
            Life::One(_) => None,
            Life::Many(cluster) => Some(cluster),
        }
    }

    /// Starts a second swarm on the same state, and ends it.
    pub(crate) fn second(
        &self,
        world: &World<'_>,
        bundle: Arc<Bundle>,
    ) -> Result<Result<(), StartError>, OutOfTime> {
        self.run(world, async {
            let swarm = Outfit::of(world, bundle)
                .builder(world.database.clone())
                .start()
                .await?;
            swarm.shutdown().await;
            Ok(())
        })
    }

    /// Runs `work` in this life, but not longer than the case may.
    pub(crate) fn run<T>(
        &self,
        world: &World<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, OutOfTime> {
        match self {
            Life::One(one) => world
                .logs
                .hear(|| one.runtime.block_on(world.in_time(work))),
            Life::Many(cluster) => cluster.run(world, work),
        }
    }

    /// The next reload that was told; `None` where none comes within that time.
    pub(crate) async fn next_reload(&self, within: Duration) -> Option<Arc<ReloadOutcome>> {
        match self {
            Life::One(one) => one.next_reload(within).await,
            // Such a case has none.
            Life::Many(_) => None,
        }
    }

    /// Ends as if the process had died: tasks are dropped where they stand.
    pub(crate) fn kill(self) {
        match self {
            Life::One(one) => one.kill(),
            Life::Many(cluster) => cluster.kill_all(),
        }
    }

    /// Ends as a user would; false where turns had to be cut off.
    pub(crate) fn end(self, logs: &Logs) -> bool {
        match self {
            Life::One(one) => one.end(logs),
            Life::Many(cluster) => logs.hear(|| cluster.end()),
        }
    }
}

/// A swarm in a tokio runtime of its own.
pub(crate) struct One {
    runtime: Runtime,
    swarm: Swarm,
    followed: Followed,
    news: Mutex<UnboundedReceiver<ReloadNews>>,
    _watch: Option<Watch>,
}

/// Something took longer than the case may.
#[derive(Debug)]
pub(crate) struct OutOfTime;

impl One {
    /// Starts a swarm on the state that the case has by now.
    fn start(world: &World<'_>, bundle: Arc<Bundle>) -> Result<Result<One, StartError>, OutOfTime> {
        let outfit = Outfit::of(world, bundle);
        let runtime = outfit.runtime();
        let starting = async {
            // With others it only leads.
            let leading = world.database.clone().map(|database| {
                if world.nodes > 1 {
                    database.turns(0)
                } else {
                    database
                }
            });
            let started = outfit.builder(leading).start_watched().await;
            if let (Ok(_), Some(database)) = (&started, &world.database) {
                start_workers(world.nodes, &outfit, database).await;
            }
            started
        };
        let started = world
            .logs
            .hear(|| runtime.block_on(world.in_time(starting)))?;
        Ok(started.map(|(swarm, events)| {
            let followed = world.events.follow(events);
            let news = Mutex::new(swarm.reload_news());
            let watch = world.case.watch.then(|| {
                let _entered = runtime.enter();
                swarm.watch(WatchOptions::default())
            });
            One {
                runtime,
                swarm,
                followed,
                news,
                _watch: watch,
            }
        }))
    }

    async fn next_reload(&self, within: Duration) -> Option<Arc<ReloadOutcome>> {
        let mut news = self.news.lock().await;
        let next = async {
            loop {
                if let ReloadNews::Reloaded(outcome) = news.recv().await? {
                    return Some(outcome);
                }
            }
        };
        tokio::time::timeout(within, next).await.ok().flatten()
    }

    fn kill(self) {
        self.swarm.kill();
        self.runtime.shutdown_timeout(STRAGGLERS);
        drop(self.swarm);
        self.followed.wait(STRAGGLERS);
    }

    fn end(self, logs: &Logs) -> bool {
        let shutdown = async { tokio::time::timeout(GRACE, self.swarm.shutdown()).await };
        let ended = logs.hear(|| self.runtime.block_on(shutdown));
        self.kill();
        ended.is_ok()
    }
}

/// Starts the other nodes in this life, and waits until they get turns.
async fn start_workers(nodes: usize, outfit: &Outfit, database: &Database) {
    for _ in 1..nodes {
        let worker = outfit.builder(Some(database.clone().waiting()));
        tokio::spawn(async move {
            // It works until the life ends, or until it leads: nothing is left for it to do then.
            let led = worker.start().await;
            tracing::debug!(is_led = led.is_ok(), "a node of the case works no more");
        });
    }
    let name = database.name(&outfit.workspace);
    let works = |node: &NodeInfo| node.workspace == name && node.state == "works";
    // A case whose time is up waits no longer.
    while nodes > 1
        && database
            .nodes()
            .await
            .is_ok_and(|there| there.iter().filter(|node| works(node)).count() < nodes - 1)
    {
        tokio::time::sleep(LOOK).await;
    }
}
