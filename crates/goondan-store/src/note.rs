//! What of a record says whether it matters, and until when.

use crate::record::{CarriedFold, InboxRecord, SettledFold};
use goondan_core::handled::KeptResult;
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;

/// What a [`Ledger`](super::ledger::Ledger) has to know of a record.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Note {
    /// An event was taken.
    Accepted(EventNote),
    /// A turn is over.
    Done {
        turn_id: String,
        event_ids: Vec<String>,
        /// How much memory the result takes.
        result_size: usize,
        asked_by: Option<InstanceId>,
        answer: Option<EventNote>,
        fold: Option<FoldNote>,
    },
    /// Folds are on disk.
    Settled(Vec<SettledFold>),
    /// Nothing that matters once another record comes.
    Closed,
    /// The event of that id was taken back.
    Withdrawn(String),
}

/// What it has to know of an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EventNote {
    pub(super) id: String,
    pub(super) target: InstanceId,
    /// Whose turn made it.
    pub(super) asked_by: Option<InstanceId>,
}

/// What it has to know of a fold.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoldNote {
    /// Whose conversation it is.
    pub(super) instance: InstanceId,
    /// It stands in the place of the whole conversation.
    pub(super) is_whole: bool,
}

impl From<&InboxRecord> for Note {
    fn from(record: &InboxRecord) -> Self {
        match record {
            InboxRecord::Accepted { event } => Note::Accepted(EventNote::from(&**event)),
            InboxRecord::Done {
                turn_id,
                event_ids,
                result,
                asked_by,
                answer,
                fold,
            } => Note::Done {
                turn_id: turn_id.clone(),
                event_ids: event_ids.clone(),
                result_size: KeptResult::of(result).size(),
                asked_by: asked_by.clone(),
                answer: answer.as_deref().map(EventNote::from),
                fold: fold.as_deref().map(FoldNote::from),
            },
            InboxRecord::Settled { folds } => Note::Settled(folds.clone()),
            InboxRecord::Closed { .. } => Note::Closed,
            InboxRecord::Withdrawn { event_id, .. } => Note::Withdrawn(event_id.clone()),
        }
    }
}

impl From<&CarriedFold> for FoldNote {
    fn from(fold: &CarriedFold) -> Self {
        FoldNote {
            instance: fold.instance.clone(),
            is_whole: fold.is_whole,
        }
    }
}

impl From<&AgentEvent> for EventNote {
    fn from(event: &AgentEvent) -> Self {
        EventNote {
            id: event.id.clone(),
            target: event.target.clone(),
            asked_by: event.caller().cloned(),
        }
    }
}
