//! The log of a workspace: which events were accepted, and which are done.

use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::{FinishedTurn, StoreError};
use crate::handled::KeptResult;
use crate::ids::InstanceId;
use crate::inbound::AgentEvent;

/// Keeps which events were accepted, and which are done.
#[async_trait]
pub trait Log: Send + Sync {
    /// What was left when the workspace was last closed or cut off. Asked once, before anything else. Nothing that was
    /// reported as durable is missing in it.
    async fn recover(&self) -> Result<Recovered, StoreError>;

    /// Appends a record, in the order of the calls, and returns at once. The ticket tells when the record is durable; tickets
    /// are settled in the order of the calls.
    fn append(&self, record: LogRecord) -> Ticket;
}

/// A record of the log. A record is there as a whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum LogRecord {
    /// The event was taken; from now on it will be handled.
    Accepted(Box<AgentEvent>),
    /// A turn is over that had no conversation to change. A turn that has one ends with
    /// [`OpenConversation::end_turn`](super::OpenConversation::end_turn).
    Done(Box<FinishedTurn>),
    /// The event will not be handled: its sender gave up before its turn began.
    Withdrawn {
        /// The event.
        event_id: String,
        /// Why.
        reason: String,
    },
}

/// Tells when a record is durable. Dropping it changes nothing for the record.
#[derive(Debug)]
#[must_use = "a record may not be durable yet, or may have failed"]
pub struct Ticket(oneshot::Receiver<Result<(), StoreError>>);

/// Settles a [`Ticket`].
#[derive(Debug)]
pub struct Receipt(oneshot::Sender<Result<(), StoreError>>);

impl Ticket {
    /// A ticket, and what settles it. A receipt that is dropped settles it as [`StoreError::Closed`].
    pub fn new() -> (Receipt, Ticket) {
        let (sender, receiver) = oneshot::channel();
        (Receipt(sender), Ticket(receiver))
    }

    /// A ticket that is settled already.
    pub fn settled(written: Result<(), StoreError>) -> Ticket {
        let (receipt, ticket) = Ticket::new();
        receipt.settle(written);
        ticket
    }

    /// Waits on this thread, which must not run asynchronous code.
    pub fn wait_here(self) -> Result<(), StoreError> {
        self.0.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }
}

impl Receipt {
    /// The record is durable, or could not be made so.
    pub fn settle(self, written: Result<(), StoreError>) {
        // Nobody may be interested.
        let _ = self.0.send(written);
    }
}

impl Future for Ticket {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|settled| settled.unwrap_or(Err(StoreError::Closed)))
    }
}

/// What a workspace held when it was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovered {
    /// Accepted and not done, in the order in which they were accepted; but an event whose turn had begun comes before all
    /// others of its instance.
    pub pending: Vec<AgentEvent>,
    /// Those of the pending events whose turn had begun.
    pub begun: Vec<String>,
    /// Recently handled events, oldest first: for answers that are asked for again, and for events that are delivered again.
    pub handled: Vec<HandledEvent>,
    /// What could not be read, for people.
    pub warnings: Vec<String>,
}

/// An event that is done.
#[derive(Debug, Clone, PartialEq)]
pub struct HandledEvent {
    /// The event.
    pub event_id: String,
    /// What came of it.
    pub result: KeptResult,
    /// The instance whose unfinished turn may ask for the result again.
    pub needed_by: Option<InstanceId>,
}
