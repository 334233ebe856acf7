//! Stores conversations and accepted events in PostgreSQL.
//!
//! One node at a time leads a workspace. It holds session locks, which the database releases when
//! the process or the connection ends. The other nodes are its members. When the leader fails, a
//! member takes over with all accepted events.
//!
//! The crate depends on neither the engine nor other stores: it implements the ports of
//! `goondan-core`. Only its tests use the suite of `goondan-store`.

#![allow(missing_docs, reason = "internal crate")]

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
