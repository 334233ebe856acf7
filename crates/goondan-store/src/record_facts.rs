//! The facts that decide if a record is needed, and for how long.

use crate::record::{CarriedFold, InboxRecord, SettledFold};
use goondan_core::agent_event::AgentEvent;
use goondan_core::ids::InstanceId;
use goondan_core::result_cache::EncodedResult;

/// The facts about a record that a [`WalIndex`](crate::wal_index::WalIndex) needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RecordFacts {
    Accepted(EventFacts),
    Done {
        turn_id: String,
        event_ids: Vec<String>,
        /// Memory size of the result in bytes.
        result_size: usize,
        asked_by: Option<InstanceId>,
        answer: Option<EventFacts>,
        fold: Option<FoldFacts>,
    },
    /// Folds are durable in their bases.
    Settled(Vec<SettledFold>),
    /// The workspace was closed. Obsolete after any further record.
    Closed,
    /// The event with this id was withdrawn.
    Withdrawn(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct EventFacts {
    pub(super) id: String,
    pub(super) target: InstanceId,
    /// The instance whose turn created the event.
    pub(super) asked_by: Option<InstanceId>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoldFacts {
    pub(super) instance: InstanceId,
    /// True if the fold replaces the whole conversation.
    pub(super) is_whole: bool,
}

impl From<&InboxRecord> for RecordFacts {
    fn from(record: &InboxRecord) -> Self {
        match record {
            InboxRecord::Accepted { event } => RecordFacts::Accepted(EventFacts::from(&**event)),
            InboxRecord::Done {
                turn_id,
                event_ids,
                result,
                asked_by,
                answer,
                fold,
            } => RecordFacts::Done {
                turn_id: turn_id.clone(),
                event_ids: event_ids.clone(),
                result_size: EncodedResult::encode(result).size(),
                asked_by: asked_by.clone(),
                answer: answer.as_deref().map(EventFacts::from),
                fold: fold.as_deref().map(FoldFacts::from),
            },
            InboxRecord::Settled { folds } => RecordFacts::Settled(folds.clone()),
            InboxRecord::Closed { .. } => RecordFacts::Closed,
            InboxRecord::Withdrawn { event_id, .. } => RecordFacts::Withdrawn(event_id.clone()),
        }
    }
}

impl From<&CarriedFold> for FoldFacts {
    fn from(fold: &CarriedFold) -> Self {
        FoldFacts {
            instance: fold.instance.clone(),
            is_whole: fold.is_whole,
        }
    }
}

impl From<&AgentEvent> for EventFacts {
    fn from(event: &AgentEvent) -> Self {
        EventFacts {
            id: event.id.clone(),
            target: event.target.clone(),
            asked_by: event.caller().cloned(),
        }
    }
}
