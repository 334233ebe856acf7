//! A swarm on several nodes. The leader has the orchestrator. Workers have none and run the turns
//! that the leader assigns.
//!
//! * [`protocol`]: messages between leader and workers;
//! * [`placement`]: workers and the placement of turns;
//! * [`turn`]: a local or remote turn, as the orchestrator runs it;
//! * [`leader_service`]: the leader's service for the turns of workers;
//! * [`worker`]: main loop of a worker;
//! * [`leader_client`]: a worker's client for the leader.

pub(crate) mod leader_client;
pub(crate) mod leader_service;
pub(crate) mod placement;
pub(crate) mod protocol;
pub(crate) mod turn;
pub(crate) mod worker;

pub(crate) use leader_client::LeaderClient;
pub(crate) use placement::{TurnPlacement, WorkerPool};
