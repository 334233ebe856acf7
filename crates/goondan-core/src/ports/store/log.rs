//! Log of a workspace: accepted events and finished events.

use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::{FinishedTurn, StoreError};
use crate::agent_event::AgentEvent;
use crate::ids::InstanceId;
use crate::result_cache::EncodedResult;

/// Storage of accepted and finished events.
#[async_trait]
pub trait WorkspaceLog: Send + Sync {
    /// Returns the state from the last shutdown or crash. Called once, before any other call.
    /// Includes everything that was reported as durable.
    async fn recover(&self) -> Result<RecoveredState, StoreError>;

    /// Returns the result of an event that was handled before the store was opened, and that
    /// [`recover`](WorkspaceLog::recover) left out. Reads at most a few kilobytes.
    fn earlier_result(&self, _event_id: &str) -> Option<EncodedResult> {
        None
    }

    /// Appends a record, in the order of the calls, and returns immediately. The ticket resolves
    /// when the record is durable; tickets resolve in the order of the calls.
    fn append(&self, record: LogRecord) -> DurabilityTicket;
}

/// A record of the log. Writes are atomic.
#[derive(Debug, Clone, PartialEq)]
pub enum LogRecord {
    /// The event is accepted and will be handled.
    Accepted(Box<AgentEvent>),
    /// A turn without a conversation change ended. Other turns end with
    /// [`OpenConversation::end_turn`](super::OpenConversation::end_turn).
    Done(Box<FinishedTurn>),
    /// The event will not be handled: its sender cancelled it before its turn began.
    Withdrawn {
        /// Id of the event.
        event_id: String,
        /// Reason for the withdrawal.
        reason: String,
    },
}

/// Future that resolves when a record is durable. Dropping it does not affect the record.
#[derive(Debug)]
#[must_use = "a record may not be durable yet, or may have failed"]
pub struct DurabilityTicket(oneshot::Receiver<Result<(), StoreError>>);

/// Sender that resolves a [`DurabilityTicket`].
#[derive(Debug)]
pub struct DurabilityResolver(oneshot::Sender<Result<(), StoreError>>);

impl DurabilityTicket {
    /// Returns a ticket and its sender. Dropping the receipt resolves the ticket with
    /// [`StoreError::Closed`].
    pub fn new() -> (DurabilityResolver, DurabilityTicket) {
        let (sender, receiver) = oneshot::channel();
        (DurabilityResolver(sender), DurabilityTicket(receiver))
    }

    /// Returns a resolved ticket.
    pub fn settled(written: Result<(), StoreError>) -> DurabilityTicket {
        let (receipt, ticket) = DurabilityTicket::new();
        receipt.settle(written);
        ticket
    }

    /// Blocks the current thread, which must not run asynchronous code.
    pub fn wait_here(self) -> Result<(), StoreError> {
        self.0.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }
}

impl DurabilityResolver {
    /// Resolves the ticket: the record is durable, or failed.
    pub fn settle(self, written: Result<(), StoreError>) {
        // The ticket can be dropped already.
        let _ = self.0.send(written);
    }
}

impl Future for DurabilityTicket {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|settled| settled.unwrap_or(Err(StoreError::Closed)))
    }
}

/// State of a workspace when it is opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecoveredState {
    /// Accepted, unfinished events in the order of acceptance. An event whose turn had begun comes
    /// before all others of its instance.
    pub pending: Vec<AgentEvent>,
    /// Ids of the pending events whose turn had begun.
    pub begun: Vec<String>,
    /// Recently handled events, oldest first, for repeated requests and redelivered events. The
    /// store may leave out those that [`WorkspaceLog::earlier_result`] returns.
    pub handled: Vec<HandledEvent>,
    /// Warnings about unreadable data, for people.
    pub warnings: Vec<String>,
}

/// A handled event.
#[derive(Debug, Clone, PartialEq)]
pub struct HandledEvent {
    /// Id of the event.
    pub event_id: String,
    /// Result of the turn that handled the event.
    pub result: EncodedResult,
    /// Instance whose unfinished turn can request the result again.
    pub needed_by: Option<InstanceId>,
}
