//! A running swarm process, simulated: from a start to a shutdown or a kill.

use std::sync::Arc;
use std::time::Duration;

use goondan::spec::Bundle;
use goondan::workspace::database::NodeInfo;
use goondan::{
    ProjectWatch, ReloadNews, ReloadOutcome, SharedDatabase, StartError, Swarm, WatchOptions,
};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;

use super::case_context::CaseContext;
use super::cluster::CaseCluster;
use super::events::EventDrain;
use super::logs::CaseLogs;
use super::swarm_config::SwarmConfig;

/// Time limit of a graceful shutdown.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that busy threads have to finish after a kill.
pub(super) const THREAD_EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of checks for new nodes.
pub(super) const NODE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Longest time from the start of a step to its model call.
pub(super) const MODEL_CALL_DELAY: Duration = Duration::from_secs(1);

/// Running swarm of a test case.
pub(crate) enum SwarmProcess {
    /// A single swarm.
    One(Box<SingleSwarm>),
    /// Several nodes that share a database.
    Many(Box<CaseCluster>),
}

impl SwarmProcess {
    /// Starts the swarm on the current state of the test case.
    pub(crate) fn start(
        context: &CaseContext<'_>,
        bundle: Arc<Bundle>,
    ) -> Result<Result<Self, StartError>, OutOfTime> {
        Ok(match (context.case.nodes, &context.database) {
            (Some(nodes), Some(database)) => CaseCluster::start(context, bundle, database, nodes)?
                .map(|cluster| SwarmProcess::Many(Box::new(cluster))),
            _ => SingleSwarm::start(context, bundle)?.map(|one| SwarmProcess::One(Box::new(one))),
        })
    }

    /// Returns the swarm that accepts inputs.
    pub(crate) fn swarm(&self, context: &CaseContext<'_>) -> Result<Swarm, OutOfTime> {
        match self {
            SwarmProcess::One(one) => Ok(one.swarm.clone()),
            SwarmProcess::Many(cluster) => cluster.swarm(context),
        }
    }

    /// Returns the nodes, if there are several.
    pub(crate) fn cluster(&mut self) -> Option<&mut CaseCluster> {
        match self {
            SwarmProcess::One(_) => None,
            SwarmProcess::Many(cluster) => Some(cluster),
        }
    }

    /// Starts a second swarm on the same state, and ends it.
    pub(crate) fn start_second_swarm(
        &self,
        context: &CaseContext<'_>,
        bundle: Arc<Bundle>,
    ) -> Result<Result<(), StartError>, OutOfTime> {
        self.run(context, async {
            let swarm = SwarmConfig::new(context, bundle)
                .builder(context.database.clone())
                .start()
                .await?;
            swarm.shutdown().await;
            Ok(())
        })
    }

    /// Runs `work` in the tokio runtime of the swarm, within the time limit of the test case.
    pub(crate) fn run<T>(
        &self,
        context: &CaseContext<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, OutOfTime> {
        match self {
            SwarmProcess::One(one) => context
                .logs
                .collect(|| one.runtime.block_on(context.in_time(work))),
            SwarmProcess::Many(cluster) => cluster.run(context, work),
        }
    }

    /// Returns the next reported reload; `None` if none comes within the time.
    pub(crate) async fn next_reload(&self, within: Duration) -> Option<Arc<ReloadOutcome>> {
        match self {
            SwarmProcess::One(one) => one.next_reload(within).await,
            // Test cases with several nodes cannot wait for reloads.
            SwarmProcess::Many(_) => None,
        }
    }

    /// Ends like a crashed process: tasks are dropped at once.
    pub(crate) fn kill(self) {
        match self {
            SwarmProcess::One(one) => one.kill(),
            SwarmProcess::Many(cluster) => cluster.kill_all(),
        }
    }

    /// Shuts down gracefully. Returns false if turns were interrupted.
    pub(crate) fn shut_down(self, logs: &CaseLogs) -> bool {
        match self {
            SwarmProcess::One(one) => one.shut_down(logs),
            SwarmProcess::Many(cluster) => logs.collect(|| cluster.shut_down()),
        }
    }
}

/// A swarm in its own tokio runtime.
pub(crate) struct SingleSwarm {
    runtime: Runtime,
    swarm: Swarm,
    event_drain: EventDrain,
    news: Mutex<UnboundedReceiver<ReloadNews>>,
    _watch: Option<ProjectWatch>,
}

/// The time limit of the test case is exceeded.
#[derive(Debug)]
pub(crate) struct OutOfTime;

impl SingleSwarm {
    /// Starts a swarm on the current state of the test case.
    fn start(
        context: &CaseContext<'_>,
        bundle: Arc<Bundle>,
    ) -> Result<Result<SingleSwarm, StartError>, OutOfTime> {
        let config = SwarmConfig::new(context, bundle);
        let runtime = config.current_thread_runtime();
        let starting = async {
            // With several nodes, this one is the leader and runs no turns.
            let leading = context.database.clone().map(|database| {
                if context.nodes > 1 {
                    database.turns(0)
                } else {
                    database
                }
            });
            let started = config.builder(leading).start_watched().await;
            if let (Ok(_), Some(database)) = (&started, &context.database) {
                start_workers(context.nodes, &config, database).await;
            }
            started
        };
        let started = context
            .logs
            .collect(|| runtime.block_on(context.in_time(starting)))?;
        Ok(started.map(|(swarm, events)| {
            let event_drain = context.events.record_from(events);
            let news = Mutex::new(swarm.reload_news());
            let watch = context.case.watch.then(|| {
                let _entered = runtime.enter();
                swarm.watch(WatchOptions::default())
            });
            SingleSwarm {
                runtime,
                swarm,
                event_drain,
                news,
                _watch: watch,
            }
        }))
    }

    /// Waits for the next reload; `None` if none happens within the time or the swarm ends.
    async fn next_reload(&self, within: Duration) -> Option<Arc<ReloadOutcome>> {
        let mut events = self.news.lock().await;
        let next = async {
            loop {
                if let ReloadNews::Reloaded(outcome) = events.recv().await? {
                    return Some(outcome);
                }
            }
        };
        tokio::time::timeout(within, next).await.ok().flatten()
    }

    /// Ends the swarm like a crashed process: drops its tasks at once. Returns after its last event
    /// is recorded.
    fn kill(self) {
        self.swarm.kill();
        self.runtime.shutdown_timeout(THREAD_EXIT_TIMEOUT);
        // The recording of events ends with the last reference to the swarm.
        drop(self.swarm);
        self.event_drain.wait(THREAD_EXIT_TIMEOUT);
    }

    /// Shuts the swarm down gracefully. Returns false if turns were interrupted, or did not end
    /// within [`SHUTDOWN_TIMEOUT`].
    fn shut_down(self, logs: &CaseLogs) -> bool {
        let shutdown =
            async { tokio::time::timeout(SHUTDOWN_TIMEOUT, self.swarm.shutdown()).await };
        // After a timeout, turns are still running.
        let all_turns_ended = logs
            .collect(|| self.runtime.block_on(shutdown))
            .unwrap_or(false);
        // Frees the threads and ends the recording of events.
        self.kill();
        all_turns_ended
    }
}

/// Starts worker nodes in the same tokio runtime, and waits until they receive turns.
async fn start_workers(nodes: usize, config: &SwarmConfig, database: &SharedDatabase) {
    for _ in 1..nodes {
        let worker = config.builder(Some(database.clone().waiting()));
        tokio::spawn(async move {
            // Runs until the runtime ends or the node becomes the leader. A new leader has no more
            // work here.
            let led = worker.start().await;
            tracing::debug!(is_led = led.is_ok(), "a worker node of the case has ended");
        });
    }
    let name = database.name(&config.workspace);
    let works = |node: &NodeInfo| node.workspace == name && node.state == "worker";
    // The time limit of the test case ends this loop.
    while nodes > 1
        && database
            .nodes()
            .await
            .is_ok_and(|nodes_now| nodes_now.iter().filter(|node| works(node)).count() < nodes - 1)
    {
        tokio::time::sleep(NODE_POLL_INTERVAL).await;
    }
}
