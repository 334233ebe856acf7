//! Keeps conversations and accepted events in PostgreSQL.
//!
//! One node at a time leads in a workspace. It holds the workspace by locks of its sessions, which end with the process or the
//! connection; the other nodes work for it as its members, and one of them takes over and finds everything that was accepted.
//!
//! It deliberately does not know the engine, nor the other stores: it implements the ports of `goondan-core`, and is checked by the
//! suite of `goondan-store` in tests alone.

mod address;
mod adoption;
mod cluster;
mod conversations;
mod events;
mod hold;
mod instances;
mod journal;
mod letters;
mod line;
mod log;
mod nodes;
mod postbox;
mod rows;
mod schema;
mod session;
mod store;
mod tls;

pub use address::{Address, AddressError, Server};
pub use adoption::Adopted;
pub use cluster::{Arrival, Membership, PostgresCrew, PostgresLeader, arrive};
pub use hold::{Holder, OpenError, Wait};
pub use journal::RecordedEffect;
pub use letters::{Letter, Posted, post};
pub use nodes::{Node, nodes};
pub use store::{PostgresStore, forget, workspaces};
