//! Nodes of a test case: starts, pauses, partitions, kills and restarts them.

use std::collections::HashSet;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use goondan::spec::Bundle;
use goondan::workspace::database::NodeInfo;
use goondan::{SharedDatabase, StartError, Swarm};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};

use super::case_context::CaseContext;
use super::models::NodeModels;
use super::node::{LeaderHandle, NodeCommand, NodeConfig, RunningNode};
use super::swarm_config::{SwarmConfig, build_runtime};
use super::swarm_process::{MODEL_CALL_DELAY, NODE_POLL_INTERVAL, OutOfTime};
use crate::case::{NodeName, PartitionMode};
use crate::proxy::{FaultProxy, ProxyFlow};

/// A node that is suspended longer than this time is evicted.
const PAUSE_EVICTION_TIME: Duration = Duration::from_millis(11_500);

/// A node without connections for longer than this time is evicted.
const DISCONNECT_EVICTION_TIME: Duration = Duration::from_secs(2);

/// Time limit for a node to join again.
const REJOIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for the confirmation of a suspended node.
const PAUSE_CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(1);

/// State of a node that neither leads nor works, as [`NodeInfo`] reports it.
const STATE_STANDBY: &str = "standby";

/// The running nodes of a test case, with a database proxy for each node.
pub(crate) struct CaseCluster {
    /// Tokio runtime of waiting steps.
    runtime: Runtime,
    nodes: Vec<NodeSlot>,
    leader: Arc<watch::Sender<Option<LeaderHandle>>>,
    database: SharedDatabase,
    config: SwarmConfig,
}

/// A node and its faults.
struct NodeSlot {
    proxy: Arc<FaultProxy>,
    running: Option<RunningNode>,
    paused: Option<PausedNode>,
    /// Start of a partition, and the time after which the cluster evicts the node.
    parted: Option<(Instant, Duration)>,
}

/// A suspended node. Dropping this resumes the node.
struct PausedNode {
    since: Instant,
    _keep_alive: mpsc::Sender<()>,
}

/// The reason why a step could not be performed. Failed expectations are not errors of this type.
pub(crate) type StepError = String;

impl CaseCluster {
    /// Starts all nodes. Waits until node 1 is the leader and the others are workers.
    pub(super) fn start(
        context: &CaseContext<'_>,
        bundle: Arc<Bundle>,
        database: &SharedDatabase,
        nodes: usize,
    ) -> Result<Result<Self, StartError>, OutOfTime> {
        let mut threads = Builder::new_multi_thread();
        threads.worker_threads(1);
        let slots = (0..nodes).map(|_| {
            let proxy = FaultProxy::start(database.server()).map(Arc::new)?;
            Ok(NodeSlot {
                proxy,
                running: None,
                paused: None,
                parted: None,
            })
        });
        let nodes: Vec<NodeSlot> = match slots.collect::<std::io::Result<_>>() {
            Ok(nodes) => nodes,
            Err(error) => return Ok(Err(error.into())),
        };
        let mut cluster = CaseCluster {
            runtime: build_runtime(threads, &context.logs),
            nodes,
            leader: Arc::new(watch::channel(None).0),
            database: database.clone(),
            config: SwarmConfig::new(context, bundle),
        };
        let (refused, refusal) = oneshot::channel();
        cluster.spawn(context, 1, Some(refused));
        let leads = async |cluster: &CaseCluster| {
            tokio::select! {
                // After a node is the leader, its start cannot be refused any more.
                Ok(error) = refusal => Err(error),
                () = cluster.wait_for_leader() => Ok(()),
            }
        };
        if let Err(error) = cluster.run(context, leads(&cluster))? {
            return Ok(Err(error));
        }
        (2..=cluster.nodes.len()).for_each(|number| cluster.spawn(context, number, None));
        cluster.run(context, cluster.wait_until_all_work())?;
        Ok(Ok(cluster))
    }

    /// Starts node `number` (from 1). `refused` receives the error if the node cannot start.
    fn spawn(
        &mut self,
        context: &CaseContext<'_>,
        number: usize,
        refused: Option<oneshot::Sender<StartError>>,
    ) {
        let proxy = &self.nodes[number - 1].proxy;
        let database = self.database.clone().by_way_of(proxy.place()).waiting();
        let parts = NodeConfig {
            number,
            config: self.config.clone().of_node(number),
            // Node 1 leaves all turns to the other nodes.
            database: if number == 1 {
                database.turns(0)
            } else {
                database
            },
            models: Arc::new(NodeModels::new(number, Arc::clone(&self.config.models))),
            events: context.events.clone(),
            leader: Arc::clone(&self.leader),
        };
        self.nodes[number - 1].running = Some(RunningNode::start(parts, refused));
    }

    /// Runs `work` within the time limit of the test case.
    pub(super) fn run<T>(
        &self,
        context: &CaseContext<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, OutOfTime> {
        context
            .logs
            .collect(|| self.runtime.block_on(context.in_time(work)))
    }

    /// Waits for a reachable leader and returns its swarm. Fails if the time limit of the test case
    /// is exceeded, or if the leader ends at this moment.
    pub(super) fn swarm(&self, context: &CaseContext<'_>) -> Result<Swarm, OutOfTime> {
        self.run(context, self.wait_for_leader())?;
        // The leader may have ended since.
        match self.leader.borrow().clone() {
            Some(leader) => Ok(leader.swarm),
            None => Err(OutOfTime),
        }
    }

    /// Waits until a reachable node is the leader.
    async fn wait_for_leader(&self) {
        // The sender exists as long as `self`.
        let _ = self.leader.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns the leader and the workers of the test case, but no standby nodes. Includes nodes
    /// that ended recently: the database lists a node until its heartbeat expires.
    async fn leader_and_workers(&self) -> Vec<NodeInfo> {
        let name = self.database.name(&self.config.workspace);
        let mut nodes = self.database.nodes().await.unwrap_or_default();
        nodes.retain(|node| node.workspace == name && node.state != STATE_STANDBY);
        nodes
    }

    /// Waits until each node is the leader or a worker.
    async fn wait_until_all_work(&self) {
        while self.leader_and_workers().await.len() < self.nodes.len() {
            tokio::time::sleep(NODE_POLL_INTERVAL).await;
        }
    }

    /// Returns the number (from 1) of the node that a step names. Fails if there is no leader, or
    /// if no node runs a turn of the named instance.
    pub(super) fn node_number(&self, name: &NodeName) -> Result<usize, StepError> {
        match name {
            NodeName::Number(number) => Ok(*number),
            NodeName::Leader => match &*self.leader.borrow() {
                Some(leader) => Ok(leader.number),
                None => Err("there is no leader".to_owned()),
            },
            NodeName::Of(instance) => self.config.models.node_of(instance).ok_or_else(|| {
                format!("{instance} has made no model call yet: no node runs its turn")
            }),
        }
    }

    /// Returns node `number` (from 1). Fails if it is not running.
    fn node(&mut self, number: usize) -> Result<&mut NodeSlot, StepError> {
        let node = &mut self.nodes[number - 1];
        if node.running.is_some() {
            Ok(node)
        } else {
            Err(format!("node {number} is not running"))
        }
    }

    /// Kills a node like a crashed process.
    pub(super) fn kill(
        &mut self,
        context: &CaseContext<'_>,
        number: usize,
    ) -> Result<(), StepError> {
        self.node(number)?;
        let model_call = self
            .config
            .models
            .wait_for_requests(context.events.count("step.started", None));
        let _ = self.run(context, async {
            tokio::time::timeout(MODEL_CALL_DELAY, model_call).await
        });
        self.clear_leader_if(number);
        let node = self.node(number)?;
        node.paused = None;
        if let Some(running) = node.running.take() {
            running.kill();
        }
        Ok(())
    }

    /// Starts a killed node, or restarts a running one, and waits until it joins.
    pub(super) fn restart(
        &mut self,
        context: &CaseContext<'_>,
        number: usize,
    ) -> Result<(), StepError> {
        let previous_ids = self.current_node_ids(context)?;
        let node = &mut self.nodes[number - 1];
        node.paused = None;
        if let Some(running) = node.running.take() {
            let (done, ended) = oneshot::channel();
            running.send(NodeCommand::End(done));
            let _ = self.run(context, ended);
            running.kill();
        }
        self.spawn(context, number, None);
        self.await_return(context, number, &previous_ids)
    }

    /// Suspends a node until `resume`, or until the node is killed or restarted.
    pub(super) fn pause(&mut self, number: usize) -> Result<(), StepError> {
        self.clear_leader_if(number);
        let node = self.node(number)?;
        let (Some(running), None) = (&node.running, &node.paused) else {
            return Err(format!("node {number} is already paused"));
        };
        let (resume, resumed) = mpsc::channel();
        let (confirm, confirmation) = mpsc::channel();
        running.send(NodeCommand::Pause { confirm, resumed });
        // A node between two starts does not confirm the command; it pauses at its next start.
        let _ = confirmation.recv_timeout(PAUSE_CONFIRMATION_TIMEOUT);
        node.paused = Some(PausedNode {
            since: Instant::now(),
            _keep_alive: resume,
        });
        Ok(())
    }

    /// Resumes a node. If it was evicted, waits until it joins again.
    pub(super) fn resume(
        &mut self,
        context: &CaseContext<'_>,
        number: usize,
    ) -> Result<(), StepError> {
        let previous_ids = self.current_node_ids(context)?;
        let Some(paused) = self.node(number)?.paused.take() else {
            return Err(format!("node {number} is not paused"));
        };
        let was_evicted = paused.since.elapsed() > PAUSE_EVICTION_TIME;
        drop(paused);
        if was_evicted {
            self.await_return(context, number, &previous_ids)
        } else {
            Ok(())
        }
    }

    /// Returns the suspended nodes.
    pub(super) fn paused_nodes(&self) -> Vec<usize> {
        (1..=self.nodes.len())
            .filter(|number| self.nodes[number - 1].paused.is_some())
            .collect()
    }

    /// Separates a node from its database, for a time or until `heal`.
    pub(super) fn partition(
        &mut self,
        number: usize,
        how: PartitionMode,
        time: Option<Duration>,
    ) -> Result<(), StepError> {
        self.clear_leader_if(number);
        let node = self.node(number)?;
        let (flow, eviction_time) = match how {
            PartitionMode::Silent => (ProxyFlow::Silent, PAUSE_EVICTION_TIME),
            PartitionMode::Cut => (ProxyFlow::Cut, DISCONNECT_EVICTION_TIME),
        };
        node.proxy.set(flow);
        node.parted = Some((Instant::now(), eviction_time));
        if let Some(time) = time {
            node.parted = None;
            let proxy = Arc::clone(&node.proxy);
            self.runtime.spawn(async move {
                tokio::time::sleep(time).await;
                proxy.set(ProxyFlow::Open);
            });
        }
        Ok(())
    }

    /// Ends a partition. If the node was evicted, waits until it joins again.
    pub(super) fn heal(
        &mut self,
        context: &CaseContext<'_>,
        number: usize,
    ) -> Result<(), StepError> {
        let previous_ids = self.current_node_ids(context)?;
        let node = self.node(number)?;
        let Some((since, eviction_time)) = node.parted.take() else {
            return Err(format!("node {number} has no partition"));
        };
        let was_evicted = since.elapsed() > eviction_time;
        node.proxy.set(ProxyFlow::Open);
        if was_evicted {
            self.await_return(context, number, &previous_ids)
        } else {
            Ok(())
        }
    }

    /// Returns the nodes with a partition that ends only with `heal`.
    pub(super) fn partitioned_nodes(&self) -> Vec<usize> {
        (1..=self.nodes.len())
            .filter(|number| self.nodes[number - 1].parted.is_some())
            .collect()
    }

    /// Clears the leader if it is node `number`, so that steps wait for a reachable leader.
    fn clear_leader_if(&self, number: usize) {
        self.leader.send_if_modified(|leader| {
            leader.as_ref().is_some_and(|led| led.number == number) && leader.take().is_some()
        });
    }

    /// Returns the ids of the leader and the workers. A node that joins again has a new id.
    fn current_node_ids(&self, context: &CaseContext<'_>) -> Result<HashSet<String>, StepError> {
        let nodes = self
            .run(context, self.leader_and_workers())
            .map_err(|OutOfTime| "reading the nodes timed out".to_owned())?;
        Ok(nodes.into_iter().map(|node| node.id).collect())
    }

    /// Waits until a node joins whose id is not in `previous_ids`. Fails after [`REJOIN_TIMEOUT`].
    fn await_return(
        &self,
        context: &CaseContext<'_>,
        number: usize,
        previous_ids: &HashSet<String>,
    ) -> Result<(), StepError> {
        let rejoined = async {
            while self
                .leader_and_workers()
                .await
                .iter()
                .all(|node| previous_ids.contains(&node.id))
            {
                tokio::time::sleep(NODE_POLL_INTERVAL).await;
            }
        };
        match self.run(context, async {
            tokio::time::timeout(REJOIN_TIMEOUT, rejoined).await
        }) {
            Ok(Ok(())) => Ok(()),
            _ => Err(format!(
                "node {number} did not rejoin within {} s",
                REJOIN_TIMEOUT.as_secs()
            )),
        }
    }

    /// Kills all nodes like crashed processes.
    pub(super) fn kill_all(self) {
        self.leader.send_replace(None);
        let CaseCluster { nodes, runtime, .. } = self;
        for node in nodes {
            drop(node.paused);
            if let Some(running) = node.running {
                running.kill();
            }
        }
        runtime.shutdown_background();
    }

    /// Shuts down all nodes, the leader first. Returns false if turns were interrupted.
    pub(super) fn shut_down(mut self) -> bool {
        for node in &mut self.nodes {
            node.paused = None;
            node.proxy.set(ProxyFlow::Open);
        }
        let number = self.leader.borrow().as_ref().map(|led| led.number);
        let leader = number.and_then(|number| self.nodes[number - 1].running.as_ref());
        let is_done = leader.is_some_and(|leader| {
            let (done, ended) = oneshot::channel();
            leader.send(NodeCommand::End(done));
            self.runtime.block_on(ended).unwrap_or(false)
        });
        // The workers end before the leader, so that none of them becomes the leader.
        let number = number.unwrap_or(1);
        let leader = self.nodes[number - 1].running.take();
        self.leader.send_replace(None);
        for node in &mut self.nodes {
            if let Some(running) = node.running.take() {
                running.kill();
            }
        }
        if let Some(running) = leader {
            running.kill();
        }
        self.runtime.shutdown_background();
        is_done
    }
}
