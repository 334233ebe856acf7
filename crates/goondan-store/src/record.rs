//! The records of a workspace's log as they are written.

use std::sync::Arc;

use goondan_core::agent_event::AgentEvent;
use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::store::{FinishedTurn, LogRecord};
use serde::{Deserialize, Serialize};

/// A line of `inbox.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "record",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum InboxRecord {
    /// The event was accepted and will be handled.
    Accepted {
        /// The accepted event.
        event: Box<AgentEvent>,
    },
    /// The turn is over. The record also accepts the answer that another instance waits for.
    Done {
        turn_id: String,
        /// The handled events: the one that started the turn, and answers that joined it.
        event_ids: Vec<String>,
        result: Box<TurnResult>,
        /// The instance whose turn created the event. It may request the result again until that
        /// turn ends.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        asked_by: Option<InstanceId>,
        /// The answer to an asynchronous request, as an event for the requesting instance.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        answer: Option<Box<AgentEvent>>,
        /// The turn's new messages, if they are durable nowhere else.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        fold: Option<Box<CarriedFold>>,
    },
    /// Folds of earlier records are now durable in their bases.
    Settled {
        /// The conversations, each with its last settled turn.
        folds: Vec<SettledFold>,
    },
    /// The workspace was closed while it was idle. During this boot, the bases contain the folds of
    /// all earlier records, unless they were deleted.
    Closed {
        /// Identifies the boot of the machine.
        boot: String,
    },
    /// The event will not be handled, because its sender cancelled it before its turn began.
    Withdrawn {
        /// Id of the withdrawn event.
        event_id: String,
        /// Human-readable reason.
        reason: String,
    },
}

impl InboxRecord {
    /// Creates the record that ends a turn, with its new messages if they are durable nowhere else.
    pub fn done(turn: FinishedTurn, fold: Option<CarriedFold>) -> Self {
        let FinishedTurn {
            turn_id,
            event_ids,
            result,
            asked_by,
            answer,
        } = turn;
        let (result, answer, fold) = (Box::new(result), answer.map(Box::new), fold.map(Box::new));
        InboxRecord::Done {
            turn_id,
            event_ids,
            result,
            asked_by,
            answer,
            fold,
        }
    }
}

impl From<LogRecord> for InboxRecord {
    fn from(record: LogRecord) -> Self {
        match record {
            LogRecord::Accepted(event) => InboxRecord::Accepted { event },
            LogRecord::Done(turn) => InboxRecord::done(*turn, None),
            LogRecord::Withdrawn { event_id, reason } => {
                InboxRecord::Withdrawn { event_id, reason }
            }
        }
    }
}

/// A fold: messages of a turn for the base file of their conversation, inside the record that ends
/// the turn. The sync of the record makes them durable, so that the base needs no sync per turn.
/// A fold has the new messages, or all messages of a short rewritten conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CarriedFold {
    pub instance: InstanceId,
    /// Position in the base, in bytes.
    pub at: u64,
    /// Sequence number of the first message; `None` in a base of version 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sequence: Option<u64>,
    /// True if the messages replace the whole base.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_whole: bool,
    pub messages: Vec<Arc<Message>>,
}

/// The point up to which the folds of a conversation are durable in its base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettledFold {
    pub instance: InstanceId,
    /// The last turn whose fold is durable in the base. `None` means all turns of earlier records.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn_id: Option<String>,
}
