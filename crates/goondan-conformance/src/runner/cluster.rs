//! The nodes of a case that has several.

use std::collections::HashSet;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use goondan::database::NodeInfo;
use goondan::spec::Bundle;
use goondan::{Database, StartError, Swarm};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};

use super::life::{LOOK, OutOfTime, TO_ASK};
use super::models::NodeModels;
use super::node::{Led, NodeParts, Order, RunningNode};
use super::outfit::{Outfit, built};
use super::world::World;
use crate::case::{NodeName, Separation};
use crate::proxy::{Flow, Proxy};

/// Whoever stood still for longer than that was expelled meanwhile.
const EXPELLED: Duration = Duration::from_millis(11_500);

/// The same of whoever had no connection.
const CUT_OFF: Duration = Duration::from_secs(2);

/// How long it may take until a node is at work again.
const TO_COME_BACK: Duration = Duration::from_secs(20);

/// The nodes of a case that has several.
pub(crate) struct Cluster {
    /// In which steps wait.
    runtime: Runtime,
    nodes: Vec<Node>,
    leader: Arc<watch::Sender<Option<Led>>>,
    database: Database,
    outfit: Outfit,
}

/// A place for a node.
struct Node {
    proxy: Arc<Proxy>,
    running: Option<RunningNode>,
    paused: Option<Paused>,
    /// Since when it is kept from the database, and how soon that is noticed.
    parted: Option<(Instant, Duration)>,
}

/// A node that stands still. Dropped, it goes on.
struct Paused {
    since: Instant,
    _going_on: mpsc::Sender<()>,
}

/// Why a step could not be done. What it brought back is not judged here.
pub(crate) type Broken = String;

impl Cluster {
    /// Starts all nodes, and waits until the first leads and the others work for it.
    pub(super) fn start(
        world: &World<'_>,
        bundle: Arc<Bundle>,
        database: &Database,
        nodes: usize,
    ) -> Result<Result<Self, StartError>, OutOfTime> {
        let mut threads = Builder::new_multi_thread();
        threads.worker_threads(1);
        let places = (0..nodes).map(|_| {
            let proxy = Proxy::start(database.server()).map(Arc::new)?;
            Ok(Node {
                proxy,
                running: None,
                paused: None,
                parted: None,
            })
        });
        let nodes: Vec<Node> = match places.collect::<std::io::Result<_>>() {
            Ok(nodes) => nodes,
            Err(error) => return Ok(Err(error.into())),
        };
        let mut cluster = Cluster {
            runtime: built(threads, &world.logs),
            nodes,
            leader: Arc::new(watch::channel(None).0),
            database: database.clone(),
            outfit: Outfit::of(world, bundle),
        };
        let (refused, refusal) = oneshot::channel();
        cluster.spawn(world, 1, Some(refused));
        let leads = async |cluster: &Cluster| {
            tokio::select! {
                // Who leads is refused nothing more.
                Ok(error) = refusal => Err(error),
                () = cluster.is_led() => Ok(()),
            }
        };
        if let Err(error) = cluster.run(world, leads(&cluster))? {
            return Ok(Err(error));
        }
        (2..=cluster.nodes.len()).for_each(|number| cluster.spawn(world, number, None));
        cluster.run(world, cluster.all_work())?;
        Ok(Ok(cluster))
    }

    fn spawn(
        &mut self,
        world: &World<'_>,
        number: usize,
        refused: Option<oneshot::Sender<StartError>>,
    ) {
        let proxy = &self.nodes[number - 1].proxy;
        let database = self.database.clone().by_way_of(proxy.place()).waiting();
        let parts = NodeParts {
            number,
            outfit: self.outfit.clone().of_node(number),
            // The first leaves the turns to the others.
            database: if number == 1 {
                database.turns(0)
            } else {
                database
            },
            models: Arc::new(NodeModels::of(number, Arc::clone(&self.outfit.models))),
            events: world.events.clone(),
            leader: Arc::clone(&self.leader),
        };
        self.nodes[number - 1].running = Some(RunningNode::start(parts, refused));
    }

    /// Runs `work`, but not longer than the case may.
    pub(super) fn run<T>(
        &self,
        world: &World<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, OutOfTime> {
        world
            .logs
            .hear(|| self.runtime.block_on(world.in_time(work)))
    }

    /// The swarm of the node that leads, once there is one that is reached.
    pub(super) fn swarm(&self, world: &World<'_>) -> Result<Swarm, OutOfTime> {
        self.run(world, self.is_led())?;
        // It may have ended just then.
        match self.leader.borrow().clone() {
            Some(led) => Ok(led.swarm),
            None => Err(OutOfTime),
        }
    }

    async fn is_led(&self) {
        // The sender lives as long as `self`.
        let _ = self.leader.subscribe().wait_for(Option::is_some).await;
    }

    /// The nodes of the case that lead or work, also those that have gone a moment ago.
    async fn at_work(&self) -> Vec<NodeInfo> {
        let name = self.database.name(&self.outfit.workspace);
        let mut nodes = self.database.nodes().await.unwrap_or_default();
        nodes.retain(|node| node.workspace == name && node.state != "waits");
        nodes
    }

    async fn all_work(&self) {
        while self.at_work().await.len() < self.nodes.len() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Which number is meant.
    pub(super) fn number(&self, name: &NodeName) -> Result<usize, Broken> {
        match name {
            NodeName::Number(number) => Ok(*number),
            NodeName::Leader => self
                .leader
                .borrow()
                .as_ref()
                .map(|led| led.number)
                .ok_or_else(|| "no node leads".to_owned()),
            NodeName::Of(instance) => self.outfit.models.node_of(instance).ok_or_else(|| {
                format!("the model of {instance} was not asked yet: no node runs its turn")
            }),
        }
    }

    fn node(&mut self, number: usize) -> Result<&mut Node, Broken> {
        let node = &mut self.nodes[number - 1];
        if node.running.is_some() {
            Ok(node)
        } else {
            Err(format!("node {number} does not run"))
        }
    }

    /// Ends a node as if its process had died.
    pub(super) fn kill(&mut self, world: &World<'_>, number: usize) -> Result<(), Broken> {
        self.node(number)?;
        let asked = self
            .outfit
            .models
            .asked(world.events.count("step.started", None));
        let _ = self.run(world, async { tokio::time::timeout(TO_ASK, asked).await });
        self.hide(number);
        let node = self.node(number)?;
        node.paused = None;
        if let Some(running) = node.running.take() {
            running.kill();
        }
        Ok(())
    }

    /// Starts a node that was killed, or ends and starts it, and waits until it is at work.
    pub(super) fn restart(&mut self, world: &World<'_>, number: usize) -> Result<(), Broken> {
        let known = self.known(world)?;
        let node = &mut self.nodes[number - 1];
        node.paused = None;
        if let Some(running) = node.running.take() {
            let (done, ended) = oneshot::channel();
            running.order(Order::End(done));
            let _ = self.run(world, ended);
            running.kill();
        }
        self.spawn(world, number, None);
        self.await_return(world, number, &known)
    }

    /// Lets a node stand still.
    pub(super) fn pause(&mut self, number: usize) -> Result<(), Broken> {
        self.hide(number);
        let node = self.node(number)?;
        let (Some(running), None) = (&node.running, &node.paused) else {
            return Err(format!("node {number} stands still already"));
        };
        let ((going_on, until), (stands, standing)) = (mpsc::channel(), mpsc::channel());
        running.order(Order::Pause { stands, until });
        // Nothing comes where it is about to start again, and hears of it then.
        let _ = standing.recv_timeout(TO_ASK);
        node.paused = Some(Paused {
            since: Instant::now(),
            _going_on: going_on,
        });
        Ok(())
    }

    /// Lets a node go on. One that was expelled meanwhile is waited for.
    pub(super) fn resume(&mut self, world: &World<'_>, number: usize) -> Result<(), Broken> {
        let known = self.known(world)?;
        let Some(paused) = self.node(number)?.paused.take() else {
            return Err(format!("node {number} does not stand still"));
        };
        let was_expelled = paused.since.elapsed() > EXPELLED;
        drop(paused);
        if was_expelled {
            self.await_return(world, number, &known)
        } else {
            Ok(())
        }
    }

    /// Those that stand still.
    pub(super) fn paused(&self) -> Vec<usize> {
        (1..=self.nodes.len())
            .filter(|number| self.nodes[number - 1].paused.is_some())
            .collect()
    }

    /// Keeps a node from its database, for a time or until it is healed.
    pub(super) fn part(
        &mut self,
        number: usize,
        how: Separation,
        time: Option<Duration>,
    ) -> Result<(), Broken> {
        self.hide(number);
        let node = self.node(number)?;
        let (flow, noticed) = match how {
            Separation::Silent => (Flow::Silent, EXPELLED),
            Separation::Cut => (Flow::Cut, CUT_OFF),
        };
        node.proxy.set(flow);
        node.parted = Some((Instant::now(), noticed));
        if let Some(time) = time {
            node.parted = None;
            let proxy = Arc::clone(&node.proxy);
            self.runtime.spawn(async move {
                tokio::time::sleep(time).await;
                proxy.set(Flow::Open);
            });
        }
        Ok(())
    }

    /// Lets a node reach its database again. One that was expelled meanwhile is waited for.
    pub(super) fn heal(&mut self, world: &World<'_>, number: usize) -> Result<(), Broken> {
        let known = self.known(world)?;
        let node = self.node(number)?;
        let Some((since, noticed)) = node.parted.take() else {
            return Err(format!("node {number} reaches its database"));
        };
        let was_expelled = since.elapsed() > noticed;
        node.proxy.set(Flow::Open);
        if was_expelled {
            self.await_return(world, number, &known)
        } else {
            Ok(())
        }
    }

    /// Those that are kept from their database until they are healed.
    pub(super) fn parted(&self) -> Vec<usize> {
        (1..=self.nodes.len())
            .filter(|number| self.nodes[number - 1].parted.is_some())
            .collect()
    }

    /// A node that can't be reached any more leads nobody whom steps would talk to.
    fn hide(&self, number: usize) {
        self.leader.send_if_modified(|leader| {
            leader.as_ref().is_some_and(|led| led.number == number) && leader.take().is_some()
        });
    }

    fn known(&self, world: &World<'_>) -> Result<HashSet<String>, Broken> {
        let nodes = self
            .run(world, self.at_work())
            .map_err(|OutOfTime| "the nodes can't be read in time".to_owned())?;
        Ok(nodes.into_iter().map(|node| node.id).collect())
    }

    /// Waits until there is a node that was not there before.
    fn await_return(
        &self,
        world: &World<'_>,
        number: usize,
        known: &HashSet<String>,
    ) -> Result<(), Broken> {
        let back = async {
            while self
                .at_work()
                .await
                .iter()
                .all(|node| known.contains(&node.id))
            {
                tokio::time::sleep(LOOK).await;
            }
        };
        match self.run(world, async {
            tokio::time::timeout(TO_COME_BACK, back).await
        }) {
            Ok(Ok(())) => Ok(()),
            _ => Err(format!(
                "node {number} is not at work again within {} s",
                TO_COME_BACK.as_secs()
            )),
        }
    }

    /// Ends all as if the processes had died.
    pub(super) fn kill_all(self) {
        self.leader.send_replace(None);
        let Cluster { nodes, runtime, .. } = self;
        for node in nodes {
            drop(node.paused);
            node.running.into_iter().for_each(RunningNode::kill);
        }
        runtime.shutdown_background();
    }

    /// Ends all as a user would, who begins with the one that leads; false where turns had to be cut off.
    pub(super) fn end(mut self) -> bool {
        for node in &mut self.nodes {
            node.paused = None;
            node.proxy.set(Flow::Open);
        }
        let number = self.leader.borrow().as_ref().map(|led| led.number);
        let leader = number.and_then(|number| self.nodes[number - 1].running.as_ref());
        let is_done = leader.is_some_and(|leader| {
            let (done, ended) = oneshot::channel();
            leader.order(Order::End(done));
            self.runtime.block_on(ended).unwrap_or(false)
        });
        // None of them is to lead once that one is gone.
        let number = number.unwrap_or(1);
        let leader = self.nodes[number - 1].running.take();
        self.leader.send_replace(None);
        for node in &mut self.nodes {
            node.running.take().into_iter().for_each(RunningNode::kill);
        }
        leader.into_iter().for_each(RunningNode::kill);
        self.runtime.shutdown_background();
        is_done
    }
}
