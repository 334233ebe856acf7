//! Outcomes of the delivery of an event.

/// Result of accepting an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventAcceptance {
    /// The input is durable, possibly since an earlier delivery.
    Accepted,
    /// The sender is not allowed and needs no further notification.
    NotAllowed,
    /// The sender is not allowed and has not been notified yet.
    UnknownSender,
}

/// Reason for refusing an event.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(crate) struct EventRefusal {
    /// Reason why the event is refused, as a complete sentence.
    pub(crate) message: String,
    /// True if the event may be accepted when it is delivered again.
    pub(crate) is_retryable: bool,
}
