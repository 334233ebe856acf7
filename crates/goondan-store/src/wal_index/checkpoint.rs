//! The part of an index that a checkpoint of the log stores.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{PendingInput, WalIndex};
use goondan_core::ids::InstanceId;

/// Records that a start needs. Positions are offsets of lines in the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NeededRecords {
    pending: Vec<PendingEntry>,
    unsettled: Vec<UnsettledEntry>,
    needed: Vec<NeededEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PendingEntry {
    id: String,
    at: usize,
    target: InstanceId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    asked_by: Option<InstanceId>,
}

/// A fold that is not durable in its base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UnsettledEntry {
    instance: InstanceId,
    turn_id: String,
    at: usize,
}

/// A result that an unfinished turn may request again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NeededEntry {
    id: String,
    at: usize,
    size: usize,
    by: InstanceId,
}

/// A handled event, by the hash of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HandledEntry {
    pub(crate) hash: u64,
    /// Offset of the record in the log.
    pub(crate) at: u64,
    /// Size of the result in bytes.
    pub(crate) size: u32,
}

/// Returns the hash of an event id in a checkpoint.
pub(crate) fn hash_of(event_id: &str) -> u64 {
    let digest = Sha256::digest(event_id.as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |hash, byte| (hash << 8) | u64::from(*byte))
}

impl NeededRecords {
    /// No records.
    pub(crate) const EMPTY: NeededRecords = NeededRecords {
        pending: Vec::new(),
        unsettled: Vec::new(),
        needed: Vec::new(),
    };
}

impl WalIndex {
    /// Creates the index that `records` describe. Other handled events are left out.
    pub(crate) fn from_needed(records: &NeededRecords) -> Self {
        let mut index = WalIndex::default();
        for entry in &records.needed {
            let by = Some(entry.by.clone());
            index.handled.put(&entry.id, entry.at, entry.size, by);
        }
        for entry in &records.pending {
            *index.waiting.entry(entry.target.clone()).or_default() += 1;
            let input = PendingInput {
                record: entry.at,
                target: entry.target.clone(),
                asked_by: entry.asked_by.clone(),
            };
            index.pending.insert(entry.id.clone(), input);
        }
        for entry in &records.unsettled {
            let folds = index.unsettled.entry(entry.instance.clone()).or_default();
            folds.push((entry.turn_id.clone(), entry.at));
        }
        index
    }

    /// Returns the records that a start needs, in a stable order.
    pub(crate) fn needed_records(&self) -> NeededRecords {
        let pending = self.pending.iter().map(|(id, input)| PendingEntry {
            id: id.clone(),
            at: input.record,
            target: input.target.clone(),
            asked_by: input.asked_by.clone(),
        });
        let unsettled = self.unsettled.iter().flat_map(|(instance, folds)| {
            folds.iter().map(|(turn_id, at)| UnsettledEntry {
                instance: instance.clone(),
                turn_id: turn_id.clone(),
                at: *at,
            })
        });
        let needed = self.handled.entries().filter_map(|(id, at, size)| {
            Some(NeededEntry {
                id: id.to_owned(),
                at: *at,
                size,
                by: self.handled.requester_of(id)?.clone(),
            })
        });
        let mut records = NeededRecords {
            pending: pending.collect(),
            unsettled: unsettled.collect(),
            needed: needed.collect(),
        };
        records.pending.sort_by_key(|entry| entry.at);
        records.unsettled.sort_by_key(|entry| entry.at);
        records.needed.sort_by_key(|entry| entry.at);
        records
    }

    /// Returns the handled events that no unfinished turn needs, in any order.
    pub(crate) fn handled_entries(&self) -> Vec<HandledEntry> {
        let entries = self.handled.entries();
        let other = entries.filter(|(id, ..)| self.handled.requester_of(id).is_none());
        let entries = other.map(|(id, at, size)| HandledEntry {
            hash: hash_of(id),
            at: *at as u64,
            size: u32::try_from(size).unwrap_or(u32::MAX),
        });
        entries.collect()
    }

    /// Returns the hashes of all events in the index, pending or handled.
    pub(crate) fn event_hashes(&self) -> impl Iterator<Item = u64> {
        let handled = self.handled.entries().map(|(id, ..)| hash_of(id));
        let pending = self.pending.keys().map(|id| hash_of(id));
        handled.chain(pending)
    }
}
