//! A node of a case: a thread with a runtime of its own, which can die, stand still or be cut off without the others.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::BoxFuture;
use goondan::{Database, StartError, Swarm};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use super::events::{EventLog, Followed};
use super::life::{GRACE, STRAGGLERS};
use super::models::NodeModels;
use super::outfit::Outfit;

/// Before a node that could not start, or was taken over, starts again.
const RESPAWN: Duration = Duration::from_millis(200);

/// What a node is told.
pub(super) enum Order {
    /// Tell that you stand, and stand still until something comes, or nothing can.
    Pause {
        stands: Sender<()>,
        until: Receiver<()>,
    },
    /// End as a user would; says whether it was done in time.
    End(oneshot::Sender<bool>),
    /// End as if the process had died.
    Kill,
}

/// The node that leads, as steps reach it.
#[derive(Clone)]
pub(super) struct Led {
    pub(super) number: usize,
    pub(super) swarm: Swarm,
}

/// What a node has and whom it tells.
pub(super) struct NodeParts {
    pub(super) number: usize,
    pub(super) outfit: Outfit,
    pub(super) database: Database,
    pub(super) models: Arc<NodeModels>,
    pub(super) events: EventLog,
    pub(super) leader: Arc<watch::Sender<Option<Led>>>,
}

/// A node that runs.
pub(super) struct RunningNode {
    orders: UnboundedSender<Order>,
    thread: JoinHandle<()>,
}

impl RunningNode {
    /// Starts it. What keeps the swarm from starting is told, once, where somebody wants to know.
    pub(super) fn start(parts: NodeParts, refused: Option<oneshot::Sender<StartError>>) -> Self {
        let (orders, mut heard) = unbounded_channel();
        let thread = std::thread::spawn(move || {
            let mut refused = refused;
            while parts.live(&mut heard, &mut refused) {
                std::thread::sleep(RESPAWN);
            }
        });
        RunningNode { orders, thread }
    }

    /// Tells it something. One that has ended hears nothing.
    pub(super) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Ends it as if the process had died.
    pub(super) fn kill(self) {
        self.order(Order::Kill);
        // A panic was told.
        let _ = self.thread.join();
    }
}

/// A node while it leads.
struct Leading {
    swarm: Swarm,
    followed: Followed,
    lost: BoxFuture<'static, ()>,
}

/// How a life ended.
struct Ended {
    leading: Option<Leading>,
    again: bool,
}

impl NodeParts {
    /// Lives once; says whether it is to live again, as a supervisor would see to.
    fn live(
        &self,
        orders: &mut UnboundedReceiver<Order>,
        refused: &mut Option<oneshot::Sender<StartError>>,
    ) -> bool {
        let runtime = self.outfit.runtime();
        let Ended { leading, again } = self
            .outfit
            .logs
            .hear(|| runtime.block_on(self.work_or_lead(orders, refused)));
        self.leader.send_if_modified(|leader| {
            let is_mine =
                leading.is_some() && leader.as_ref().is_some_and(|led| led.number == self.number);
            is_mine && leader.take().is_some()
        });
        if let Some(leading) = &leading {
            leading.swarm.kill();
        }
        runtime.shutdown_timeout(STRAGGLERS);
        if let Some(Leading {
            swarm,
            followed,
            lost,
        }) = leading
        {
            drop((swarm, lost));
            followed.wait(STRAGGLERS);
        }
        again
    }

    async fn work_or_lead(
        &self,
        orders: &mut UnboundedReceiver<Order>,
        refused: &mut Option<oneshot::Sender<StartError>>,
    ) -> Ended {
        let builder = self
            .outfit
            .builder_with(Some(self.database.clone()), Arc::clone(&self.models) as _);
        let mut starting = std::pin::pin!(builder.start_watched());
        let mut leading: Option<Leading> = None;
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    // Its only thread stands still, and with it everything that it does.
                    Some(Order::Pause { stands, until }) => {
                        let _ = stands.send(());
                        let _ = until.recv();
                    }
                    Some(Order::End(done)) => {
                        let _ = done.send(end(leading.as_ref()).await);
                    }
                    Some(Order::Kill) | None => return Ended { leading, again: false },
                },
                started = &mut starting, if leading.is_none() => match started {
                    Ok((swarm, events)) => {
                        let lost = Box::pin(swarm.taken_over());
                        let followed = self.events.follow(events);
                        self.leader.send_replace(Some(Led { number: self.number, swarm: swarm.clone() }));
                        leading = Some(Leading { swarm, followed, lost });
                    }
                    Err(error) => {
                        let again = !matches!(error, StartError::Diagnostics(_));
                        tracing::debug!(%error, node = self.number, "a node does not start");
                        return match refused.take() {
                            Some(told) => {
                                let _ = told.send(error);
                                Ended { leading, again: false }
                            }
                            None => Ended { leading, again },
                        };
                    }
                },
                () = lost(leading.as_mut()) => return Ended { leading, again: true },
            }
        }
    }
}

/// Ends a swarm as a user would, if this node has one.
async fn end(leading: Option<&Leading>) -> bool {
    let Some(leading) = leading else { return true };
    tokio::time::timeout(GRACE, leading.swarm.shutdown())
        .await
        .is_ok()
}

/// Is done when another node has taken over from this one.
async fn lost(leading: Option<&mut Leading>) {
    match leading {
        Some(leading) => (&mut leading.lost).await,
        None => std::future::pending().await,
    }
}
