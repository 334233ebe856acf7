//! How much a library may take.

use std::time::Duration;

/// How much a library may take. The defaults suit tools that people wait for.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of one payload in either direction.
    pub max_payload: u64,
    /// How long the handshake may take.
    pub open_timeout: Duration,
    /// How long a cancelled call may go on before it is answered without the library. Shorter than the engine's own two
    /// seconds, so that the library's share of them is used.
    pub cancel_grace: Duration,
    /// How long the library's own threads may take to end when it is closed.
    pub close_grace: Duration,
    /// Calls that never came back, after which a library takes no more.
    pub max_written_off: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_payload: 8 * 1024 * 1024,
            open_timeout: Duration::from_secs(10),
            cancel_grace: Duration::from_secs(1),
            close_grace: Duration::from_secs(2),
            max_written_off: 4,
        }
    }
}

impl Limits {
    /// Bytes of one line between a host and its parent: a payload, with what is around it.
    pub(crate) fn max_line(&self) -> u64 {
        self.max_payload.saturating_mul(2)
    }
}
