//! Limits for libraries: payload size, time limits and lost calls.

use std::time::Duration;

/// Limits for libraries. The defaults suit interactive tools.
#[derive(Debug, Clone)]
pub struct LibraryLimits {
    /// Maximum size of a payload in bytes, in either direction.
    pub max_payload: u64,
    /// Maximum duration of the handshake.
    pub open_timeout: Duration,
    /// Time that a cancelled call may continue before it is answered without the library. Shorter
    /// than the engine's limit of two seconds, so that the library can use its time completely.
    pub cancel_grace: Duration,
    /// Time that the library's own threads have to end when it is closed.
    pub close_grace: Duration,
    /// Number of calls that never returned, after which the library gets no further calls.
    pub max_written_off: usize,
}

impl Default for LibraryLimits {
    fn default() -> Self {
        LibraryLimits {
            max_payload: 8 * 1024 * 1024,
            open_timeout: Duration::from_secs(10),
            cancel_grace: Duration::from_secs(1),
            close_grace: Duration::from_secs(2),
            max_written_off: 4,
        }
    }
}

impl LibraryLimits {
    /// Maximum length in bytes of a line between a host process and its parent: a payload with its
    /// envelope.
    pub(crate) fn max_line(&self) -> u64 {
        self.max_payload.saturating_mul(2)
    }
}
