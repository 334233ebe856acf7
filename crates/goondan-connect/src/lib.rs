//! Connections: bring platform events into a running swarm and send the answers back.
//!
//! The platform gets its acknowledgement when the input is durable; it never waits for the model.
//! The input id is derived from the connection and the platform's event id, so a redelivered event
//! starts no second turn. The destination of the answer is stored before the input is accepted. If
//! the process crashes in between, the next start sends the answer.
//!
//! The crate has no knowledge of YAML, terminals, command-line arguments, or server sockets.

mod albums;
mod allowed_senders;
mod answer_files;
mod channel_approvals;
mod connection_options;
mod connection_runtime;
mod connections;
mod console;
mod delivery;
mod event;
mod event_acceptance;
mod event_files;
mod followed_turn;
mod growing_reply;
mod http;
mod journal;
mod listener;
mod outbox;
mod own_words;
mod platforms;
mod receive_supervisor;
mod reply_queue;
mod route;
mod signature;
mod state_dir;
mod status;

pub use allowed_senders::PendingSender;
pub use connection_options::{ConnectionOptions, DeliveredAnswer};
pub use connections::Connections;
pub use console::LineConsole;
pub use event::{EventSender, PlatformEvent};
pub use outbox::{OutboxReply, ReplyState};
pub use platforms::{needs_no_approval, sample};
pub use route::{EventRoute, route};
pub use state_dir::{ConnectionSnapshot, ConnectionStateDir};
pub use status::{ConnectionState, ConnectionStatus};
