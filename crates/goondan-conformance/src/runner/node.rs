//! A node of a test case: a thread with its own tokio runtime, which can crash, hang or lose its
//! connections independently of other nodes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::BoxFuture;
use goondan::{SharedDatabase, StartError, Swarm};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use super::events::{CaseEvents, EventDrain};
use super::models::NodeModels;
use super::swarm_config::SwarmConfig;
use super::swarm_process::{SHUTDOWN_TIMEOUT, THREAD_EXIT_TIMEOUT};

/// Delay before a node starts again after a failed start or a takeover.
const RESPAWN_DELAY: Duration = Duration::from_millis(200);

/// Command for a node.
pub(super) enum NodeCommand {
    /// Confirm, then block until a message arrives or the sender is dropped.
    Pause {
        confirm: Sender<()>,
        resumed: Receiver<()>,
    },
    /// Shut down. The answer is true if the shutdown was in time.
    End(oneshot::Sender<bool>),
    /// End like a crashed process.
    Kill,
}

/// The leader, as steps use it.
#[derive(Clone)]
pub(super) struct LeaderHandle {
    pub(super) number: usize,
    pub(super) swarm: Swarm,
}

/// Configuration of a node and its shared channels.
pub(super) struct NodeConfig {
    pub(super) number: usize,
    pub(super) config: SwarmConfig,
    pub(super) database: SharedDatabase,
    pub(super) models: Arc<NodeModels>,
    pub(super) events: CaseEvents,
    pub(super) leader: Arc<watch::Sender<Option<LeaderHandle>>>,
}

/// A running node.
pub(super) struct RunningNode {
    commands: UnboundedSender<NodeCommand>,
    thread: JoinHandle<()>,
}

impl RunningNode {
    /// Starts the node. Sends the first start error to `refused`, if given.
    pub(super) fn start(parts: NodeConfig, refused: Option<oneshot::Sender<StartError>>) -> Self {
        let (commands, mut receiver) = unbounded_channel();
        let thread = std::thread::spawn(move || {
            let mut refused = refused;
            while parts.run_once(&mut receiver, &mut refused) {
                std::thread::sleep(RESPAWN_DELAY);
            }
        });
        RunningNode { commands, thread }
    }

    /// Sends a command. A node that has ended ignores it.
    pub(super) fn send(&self, command: NodeCommand) {
        let _ = self.commands.send(command);
    }

    /// Ends the node like a crashed process.
    pub(super) fn kill(self) {
        self.send(NodeCommand::Kill);
        // A panic was reported already.
        let _ = self.thread.join();
    }
}

/// State of a node while it is the leader.
struct LeaderState {
    swarm: Swarm,
    followed: EventDrain,
    lost: BoxFuture<'static, ()>,
}

/// End of one start of a node.
struct NodeExit {
    leading: Option<LeaderState>,
    again: bool,
}

impl NodeConfig {
    /// Runs the node once. Returns true if it is to be started again, as a supervisor would do.
    fn run_once(
        &self,
        commands: &mut UnboundedReceiver<NodeCommand>,
        refused: &mut Option<oneshot::Sender<StartError>>,
    ) -> bool {
        let runtime = self.config.current_thread_runtime();
        let NodeExit { leading, again } = self
            .config
            .logs
            .collect(|| runtime.block_on(self.work_or_lead(commands, refused)));
        self.leader.send_if_modified(|leader| {
            let is_mine =
                leading.is_some() && leader.as_ref().is_some_and(|led| led.number == self.number);
            is_mine && leader.take().is_some()
        });
        if let Some(leading) = &leading {
            leading.swarm.kill();
        }
        runtime.shutdown_timeout(THREAD_EXIT_TIMEOUT);
        if let Some(LeaderState {
            swarm,
            followed,
            lost,
        }) = leading
        {
            drop((swarm, lost));
            followed.wait(THREAD_EXIT_TIMEOUT);
        }
        again
    }

    /// Runs the node as worker or leader until it ends, loses its role or gets an order to stop.
    async fn work_or_lead(
        &self,
        commands: &mut UnboundedReceiver<NodeCommand>,
        refused: &mut Option<oneshot::Sender<StartError>>,
    ) -> NodeExit {
        let builder = self
            .config
            .builder_with(Some(self.database.clone()), Arc::clone(&self.models) as _);
        let mut starting = std::pin::pin!(builder.start_watched());
        let mut leading: Option<LeaderState> = None;
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    // Blocking the only thread of the runtime suspends the whole node.
                    Some(NodeCommand::Pause { confirm, resumed }) => {
                        let _ = confirm.send(());
                        let _ = resumed.recv();
                    }
                    Some(NodeCommand::End(done)) => {
                        let _ = done.send(end(leading.as_ref()).await);
                    }
                    Some(NodeCommand::Kill) | None => return NodeExit { leading, again: false },
                },
                started = &mut starting, if leading.is_none() => match started {
                    Ok((swarm, events)) => {
                        let lost = Box::pin(swarm.taken_over());
                        let followed = self.events.record_from(events);
                        self.leader.send_replace(Some(LeaderHandle { number: self.number, swarm: swarm.clone() }));
                        leading = Some(LeaderState { swarm, followed, lost });
                    }
                    Err(error) => {
                        let may_retry = !matches!(error, StartError::Diagnostics(_));
                        tracing::debug!(%error, node = self.number, "a node failed to start");
                        return match refused.take() {
                            Some(refused) => {
                                let _ = refused.send(error);
                                NodeExit { leading, again: false }
                            }
                            None => NodeExit { leading, again: may_retry },
                        };
                    }
                },
                () = wait_for_takeover(leading.as_mut()) => return NodeExit { leading, again: true },
            }
        }
    }
}

/// Shuts down the swarm, if this node has one.
async fn end(leading: Option<&LeaderState>) -> bool {
    let Some(leading) = leading else { return true };
    let ended = tokio::time::timeout(SHUTDOWN_TIMEOUT, leading.swarm.shutdown()).await;
    matches!(ended, Ok(true))
}

/// Waits until another node takes over from this one.
async fn wait_for_takeover(leading: Option<&mut LeaderState>) {
    match leading {
        Some(leading) => (&mut leading.lost).await,
        None => std::future::pending().await,
    }
}
