//! The first messages of a conversation, without decoding the later ones.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use goondan_core::message::{Message, MessageEvent};
use goondan_core::ports::store::{FirstMessages, StoreError, StoredConversation};

use super::lines::{FIRST_SEQUENCE, LineReader};
use super::synced_disk::SyncedDisk;
use super::{checksum, conversation, latest_messages};

/// Reads the first `count` messages of a conversation. Reads all messages instead in the cases that
/// [`latest_messages::read`] describes.
pub(super) fn read(
    disk: &SyncedDisk,
    base: &Path,
    events: &Path,
    count: usize,
) -> Result<FirstMessages, StoreError> {
    if let Some(first) = read_beginning(disk, base, events, count)? {
        return Ok(first);
    }
    Ok(FirstMessages {
        omitted: 0,
        stored: conversation::read(disk, base, events)?,
    })
}

/// Reads the first `count` messages from the beginning of the base. Returns `None` if the whole
/// conversation must be read.
fn read_beginning(
    disk: &SyncedDisk,
    base: &Path,
    events: &Path,
    count: usize,
) -> Result<Option<FirstMessages>, StoreError> {
    // Events first, for the reason in `conversation::read`.
    let (new_events, warnings) =
        conversation::read_lines::<MessageEvent>(disk, events)?.into_values();
    let base_bytes = disk
        .read_if_there(base)
        .map_err(|cause| StoreError::file("read", base, cause))?;
    let (Some(base_bytes), Some(appended_ids), true) =
        (base_bytes, appended_ids(&new_events), warnings.is_empty())
    else {
        return Ok(None);
    };
    let (Some(total), Some(messages)) = (
        count_messages(&base_bytes, base, &appended_ids),
        first_lines(&base_bytes, base, count),
    ) else {
        return Ok(None);
    };
    Ok(Some(FirstMessages {
        omitted: total - messages.len(),
        stored: StoredConversation {
            base: messages,
            events: Vec::new(),
            warnings: Vec::new(),
        },
    }))
}

/// Returns the ids of appended messages; `None` if an event changes an earlier message.
fn appended_ids(events: &[MessageEvent]) -> Option<HashSet<&str>> {
    let ids = events.iter().map(|event| match event {
        MessageEvent::Append { message } => Some(message.id.as_str()),
        _ => None,
    });
    ids.collect()
}

/// Returns the number of all messages; `None` if the base cannot be read reliably.
fn count_messages(base: &[u8], path: &Path, appended: &HashSet<&str>) -> Option<usize> {
    let (omitted, latest) = latest_messages::latest_lines(base, path, appended.len().max(1))?;
    // After an interrupted compaction, the events are also at the end of the base.
    let compacted = latest.iter().filter(|it| appended.contains(it.id.as_str()));
    Some(omitted + latest.len() + appended.len() - compacted.count())
}

/// Returns the messages in the first `count` lines. Returns `None` if the file has no more lines, or
/// if a problem shows.
fn first_lines(bytes: &[u8], path: &Path, count: usize) -> Option<Vec<Arc<Message>>> {
    // The first line is the header.
    let header = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let mut lines = LineReader::new(&bytes[header..]);
    let mut messages = Vec::new();
    for number in (FIRST_SEQUENCE..).take(count) {
        let line = lines.next().ok()??;
        if checksum::sequence_number(line.bytes)? != number || !checksum::is_intact(line.bytes) {
            return None;
        }
        messages.push(line.value(path).ok()?);
    }
    lines.next().ok()?.map(|_| messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonl::lines::encode_file;
    use crate::suite::samples;

    #[test]
    fn first_lines_returns_the_requested_messages() {
        let path = Path::new("base.jsonl");
        let file = encode_file(path, &samples::messages(&["a", "b", "c"])).unwrap();
        let ids = |count| {
            let messages = first_lines(&file, path, count)?;
            Some(
                messages
                    .iter()
                    .map(|message| message.id.clone())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(ids(2), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(ids(0), Some(Vec::new()));
        // Only the complete read returns all messages.
        assert_eq!((ids(3), ids(usize::MAX)), (None, None));
    }

    #[test]
    fn messages_of_an_interrupted_compaction_count_once() {
        let path = Path::new("base.jsonl");
        let file = encode_file(path, &samples::messages(&["a", "b", "c"])).unwrap();
        let total =
            |appended: &[&str]| count_messages(&file, path, &appended.iter().copied().collect());
        assert_eq!(total(&[]), Some(3));
        assert_eq!(total(&["c"]), Some(3));
        assert_eq!(total(&["c", "d"]), Some(4));
        assert_eq!(total(&["d"]), Some(4));
    }

    #[test]
    fn a_damaged_line_requires_the_complete_read() {
        let path = Path::new("base.jsonl");
        let mut file = encode_file(path, &samples::messages(&["a", "b", "c"])).unwrap();
        let second = file.iter().position(|byte| *byte == b'\n').unwrap() + 20;
        file[second] ^= 1;
        assert_eq!(first_lines(&file, path, 1), None);
    }
}
