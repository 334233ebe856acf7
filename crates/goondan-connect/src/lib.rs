//! Brings events of platforms into a running swarm, and the answers back: Connections.
//!
//! A platform is told that an event has arrived once the input is on disk, and never waits for the model. The id of the input
//! is made of the connection and the platform's own id of the event, so what is delivered again starts no second turn. Where an
//! answer has to go is written down before the input is accepted; so a process that dies in between answers at the next start.
//!
//! It deliberately does not know YAML, terminals, arguments and how a server listens.

mod asking;
mod connections;
mod console;
mod delivery;
mod desk;
mod drafts;
mod event;
mod files;
mod http;
mod journal;
mod lanes;
mod listener;
mod live;
mod outbox;
mod platforms;
mod route;
mod senders;
mod shelf;
mod signature;
mod status;
mod supervise;
mod uploads;

pub use connections::{Connections, Options};
pub use console::Console;
pub use event::{Event, Sender};
pub use outbox::{Reply, ReplyState};
pub use platforms::{needs_no_approval, sample};
pub use route::{Route, route};
pub use senders::Pending;
pub use shelf::{Look, Shelf};
pub use status::{State, Status};
