//! One life of the runtime: from a start to a shutdown or a kill.

use std::sync::Arc;
use std::time::Duration;

use goondan::database::NodeInfo;
use goondan::mcp::StandIns;
use goondan::ports::model::ModelFactory;
use goondan::spec::Bundle;
use goondan::{
    ReloadNews, ReloadOutcome, StartError, StateRoot, Swarm, SwarmBuilder, ToolStandIns, Watch, WatchOptions, Workspace,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;

use super::events::Followed;
use super::logs::Logs;
use super::world::World;

/// How long a graceful end may take before the rest is cut off.
const GRACE: Duration = Duration::from_secs(5);

/// How long threads that are busy at a kill may finish what they do.
const STRAGGLERS: Duration = Duration::from_secs(2);

/// How often is looked for nodes that have come.
const LOOK: Duration = Duration::from_millis(50);

/// A swarm in a tokio runtime of its own.
pub(crate) struct Life {
    runtime: Runtime,
    pub(crate) swarm: Swarm,
    followed: Followed,
    news: Mutex<UnboundedReceiver<ReloadNews>>,
    _watch: Option<Watch>,
}

/// Something took longer than the case may.
#[derive(Debug)]
pub(crate) struct OutOfTime;

impl Life {
    /// Starts a swarm on the state that the case has by now.
    pub(crate) fn start(world: &World<'_>, bundle: Arc<Bundle>) -> Result<Result<Life, StartError>, OutOfTime> {
        let runtime = runtime(world);
        let starting = async {
            let started = builder(world, Arc::clone(&bundle)).start_watched().await;
            if started.is_ok() && world.nodes > 1 {
                start_workers(world, &bundle).await;
            }
            started
        };
        let started = world.logs.hear(|| runtime.block_on(world.in_time(starting)))?;
        Ok(started.map(|(swarm, events)| {
            let followed = world.events.follow(events);
            let news = Mutex::new(swarm.reload_news());
            let watch = world.case.watch.then(|| {
                let _entered = runtime.enter();
                swarm.watch(WatchOptions::default())
            });
            Life { runtime, swarm, followed, news, _watch: watch }
        }))
    }

    /// Starts a second swarm on the same state, and ends it.
    pub(crate) fn second(&self, world: &World<'_>, bundle: Arc<Bundle>) -> Result<Result<(), StartError>, OutOfTime> {
        self.run(world, async {
            let swarm = builder(world, bundle).start().await?;
            swarm.shutdown().await;
            Ok(())
        })
    }

    /// Runs `work` in this life, but not longer than the case may.
    pub(crate) fn run<T>(&self, world: &World<'_>, work: impl Future<Output = T>) -> Result<T, OutOfTime> {
        world.logs.hear(|| self.runtime.block_on(world.in_time(work)))
    }

    /// The next reload that was told; `None` where none comes within that time.
    pub(crate) async fn next_reload(&self, within: Duration) -> Option<Arc<ReloadOutcome>> {
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

    /// Ends as if the process had died: tasks are dropped where they stand.
    pub(crate) fn kill(self) {
        self.swarm.kill();
        self.runtime.shutdown_timeout(STRAGGLERS);
        drop(self.swarm);
        self.followed.wait(STRAGGLERS);
    }

    /// Ends as a user would; false where turns had to be cut off.
    pub(crate) fn end(self, logs: &Logs) -> bool {
        let shutdown = async { tokio::time::timeout(GRACE, self.swarm.shutdown()).await };
        let ended = logs.hear(|| self.runtime.block_on(shutdown));
        self.kill();
        ended.is_ok()
    }
}

/// Starts the other nodes in this life, and waits until they get turns.
async fn start_workers(world: &World<'_>, bundle: &Arc<Bundle>) {
    let Some(database) = &world.database else { return };
    for _ in 1..world.nodes {
        let worker = builder(world, Arc::clone(bundle)).database(database.clone().waiting());
        tokio::spawn(async move {
            // It works until the life ends, or until it leads: nothing is left for it to do then.
            let led = worker.start().await;
            tracing::debug!(is_led = led.is_ok(), "a node of the case works no more");
        });
    }
    let name = database.name(&workspace(world, bundle).id);
    let works = |node: &NodeInfo| node.workspace == name && node.state == "works";
    // A case whose time is up waits no longer.
    while database.nodes().await.is_ok_and(|nodes| nodes.iter().filter(|node| works(node)).count() < world.nodes - 1) {
        tokio::time::sleep(LOOK).await;
    }
}

fn builder(world: &World<'_>, bundle: Arc<Bundle>) -> SwarmBuilder {
    let workspace = workspace(world, &bundle);
    let mut builder = Swarm::builder(bundle);
    if let Some(database) = &world.database {
        // With others it only leads.
        let database = database.clone();
        builder = builder.database(if world.nodes > 1 { database.turns(0) } else { database });
    }
    builder
        .state_root(world.state_root())
        .workspace(workspace)
        .environment(world.environment())
        .redactor(world.logs.redactor.clone())
        .approver(Arc::new(world.answers.clone()))
        .clock(Arc::new(world.clock.clone()))
        .mcp_stand_ins(Arc::clone(&world.mcp) as Arc<dyn StandIns>)
        .tool_stand_ins(Arc::clone(&world.tools) as Arc<dyn ToolStandIns>)
        .models(Arc::clone(&world.models) as Arc<dyn ModelFactory>)
}

/// The workspace of the swarm's name, or of the `instanceKey` that it states: a case can say what lies where in it, wherever its
/// project happens to be.
fn workspace(world: &World<'_>, bundle: &Bundle) -> Workspace {
    let swarm = bundle.choose_swarm(None).ok();
    let key = swarm.map(|swarm| swarm.spec.instance_key.as_deref().unwrap_or(&swarm.id.name));
    // A bundle without a swarm does not start.
    StateRoot(world.state_root()).workspace(key.unwrap_or_default())
}

/// Tasks run on the case's own thread, while a step waits. So nothing moves once a step has ended, and a kill drops
/// tasks where they stand: workers of their own would go on until they notice, and write down that things fail.
fn runtime(world: &World<'_>) -> Runtime {
    let dispatch = world.logs.dispatch();
    let hear = move || std::mem::forget(tracing::dispatcher::set_default(&dispatch));
    let built = Builder::new_current_thread().enable_all().on_thread_start(hear).build();
    built.expect("the system lets us open a file descriptor or two")
}
