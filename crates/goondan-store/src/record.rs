//! What the log of a workspace consists of, as it is written.

use std::sync::Arc;

use goondan_core::event::TurnResult;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
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
    /// The event was taken; from now on it will be handled.
    Accepted {
        /// The event.
        event: Box<AgentEvent>,
    },
    /// The turn is over. With it the answer is accepted that somebody waits for.
    Done {
        /// The turn.
        turn_id: String,
        /// The events that the turn handled: the one that started it, and answers that joined it.
        event_ids: Vec<String>,
        /// What came of it.
        result: Box<TurnResult>,
        /// The instance whose turn made the event: until that turn is over it may ask for the result again.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        asked_by: Option<InstanceId>,
        /// The answer to an asynchronous request, as an event for the one who asked.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        answer: Option<Box<AgentEvent>>,
        /// What the turn has added to its conversation, where that is on disk nowhere else.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        fold: Option<Box<CarriedFold>>,
    },
    /// Folds that earlier records carry are on disk in their bases, too.
    Settled {
        /// Of these conversations, up to these turns.
        folds: Vec<SettledFold>,
    },
    /// The workspace was closed while nothing was under way. In this run of the machine, the bases hold what earlier records
    /// carry, or somebody has deleted them.
    Closed {
        /// Tells that run from others.
        boot: String,
    },
    /// The event will not be handled: its sender gave up before its turn began.
    Withdrawn {
        /// The event.
        event_id: String,
        /// Why.
        reason: String,
    },
}

impl InboxRecord {
    /// The record that ends a turn, with what it has added to its conversation where no other place holds that yet.
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

/// New messages of a conversation, or all of a short one that was rewritten, in the record that ends their turn. The record's
/// sync makes them safe, so that the base need not be synced with each turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CarriedFold {
    /// Whose conversation it is.
    pub instance: InstanceId,
    /// Where in the base they come, in bytes.
    pub at: u64,
    /// They are the whole conversation: whatever the base was before is gone.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_whole: bool,
    /// The messages.
    pub messages: Vec<Arc<Message>>,
}

/// Up to where the folds of a conversation are settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettledFold {
    /// Whose conversation it is.
    pub instance: InstanceId,
    /// The last turn whose fold is in the base, on disk. Without one, all of which earlier records tell are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn_id: Option<String>,
}
