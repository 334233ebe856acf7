//! Several nodes at one swarm. The node that leads has the orchestrator; a worker has none, and runs the turns that it is handed.
//!
//! * [`wire`]: what the two say to each other;
//! * [`roster`]: which nodes work for the one that leads, and where a turn runs;
//! * [`turn`]: a turn, wherever it runs, as the orchestrator sees it;
//! * [`desk`]: what the leader does for the turns of a worker;
//! * [`worker`]: what a worker does instead of an orchestrator;
//! * [`uplink`]: how a turn on a worker asks the leader.

pub(crate) mod desk;
pub(crate) mod roster;
pub(crate) mod turn;
pub(crate) mod uplink;
pub(crate) mod wire;
pub(crate) mod worker;

pub(crate) use roster::{Place, Roster};
pub(crate) use uplink::Uplink;
