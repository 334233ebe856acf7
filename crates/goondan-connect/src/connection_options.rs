//! Environment of connections.

use std::sync::Arc;

use goondan::ports::clock::{Clock, SystemClock};
use tokio::sync::mpsc::UnboundedSender;

use crate::console::LineConsole;

/// Environment of the connections.
#[derive(Clone)]
pub struct ConnectionOptions {
    /// True if a server serves [`Connections::router`](crate::Connections::router).
    pub has_server: bool,
    /// Source of the time.
    pub clock: Arc<dyn Clock>,
    /// Console for connections that read one.
    pub console: Option<Arc<LineConsole>>,
    /// Receiver of a notice about each delivered answer.
    pub deliveries: Option<UnboundedSender<DeliveredAnswer>>,
}

/// Notice that an answer of a connection was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredAnswer {
    /// Name of the Connection.
    pub connection: String,
    /// Conversation of the answer, as `AGENT:KEY`.
    pub conversation: String,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        ConnectionOptions {
            has_server: false,
            clock: Arc::new(SystemClock),
            console: None,
            deliveries: None,
        }
    }
}
