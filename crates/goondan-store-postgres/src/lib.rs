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
mod cluster;
mod conversations;
mod events;
mod instances;
mod journal;
mod leadership;
mod log;
mod mailbox;
mod nodes;
mod reconnecting_session;
mod reliable_channel;
mod rows;
mod schema;
mod session;
mod store;
mod tls;
mod workspace_import;

pub use address::{AddressError, DatabaseAddress, DatabaseEndpoint};
pub use cluster::{JoinOutcome, PostgresCrew, PostgresLeader, WorkerMembership, arrive};
pub use journal::RecordedEffect;
pub use leadership::{LeaderHolder, PostgresOpenError, WorkspaceWait};
pub use mailbox::{MailboxInput, MailboxInputState, post};
pub use nodes::{NodeStatus, nodes};
pub use store::{PostgresStore, forget, workspaces};
pub use workspace_import::WorkspaceImport;
