//! The latest messages of a conversation, without decoding the earlier ones.

use std::path::Path;
use std::sync::Arc;

use goondan_core::message::{Message, MessageEvent};
use goondan_core::ports::store::{LatestMessages, StoreError, StoredConversation};

use super::lines::{FIRST_SEQUENCE, LineReader};
use super::synced_disk::SyncedDisk;
use super::{checksum, conversation};

/// Reads at least the latest `count` messages. Reads all messages if an event changes an earlier
/// message, or if the file has any damage that shows in its line numbers or in the latest lines.
pub(super) fn read(
    disk: &SyncedDisk,
    base: &Path,
    events: &Path,
    count: usize,
) -> Result<LatestMessages, StoreError> {
    // Events first, for the reason in `conversation::read`.
    let (new, warnings) = conversation::read_lines::<MessageEvent>(disk, events)?.into_values();
    let is_append = |event: &MessageEvent| matches!(event, MessageEvent::Append { .. });
    if warnings.is_empty() && new.iter().all(is_append) {
        let bytes = disk
            .read_if_there(base)
            .map_err(|cause| StoreError::file("read", base, cause))?;
        // After an interrupted compaction, the events are also at the end of the base.
        let wanted = count.saturating_add(new.len());
        let latest = bytes.and_then(|bytes| latest_lines(&bytes, base, wanted));
        if let Some((omitted, base)) = latest {
            let stored = StoredConversation {
                base,
                events: new,
                warnings,
            };
            return Ok(LatestMessages { omitted, stored });
        }
    }
    Ok(LatestMessages {
        omitted: 0,
        stored: conversation::read(disk, base, events)?,
    })
}

/// Returns the messages in the last `count` lines, and the number of messages before them. Returns
/// `None` if the file has fewer lines, or if a problem shows: only a complete read reports it.
pub(super) fn latest_lines(
    bytes: &[u8],
    path: &Path,
    count: usize,
) -> Option<(usize, Vec<Arc<Message>>)> {
    let is_break = |byte: &u8| *byte == b'\n';
    let mut start = bytes.strip_suffix(b"\n")?.len();
    for _ in 0..count {
        start = bytes[..start].iter().rposition(is_break)?;
    }
    let (before, latest) = bytes.split_at(start + 1);
    let (mut first, mut next) = (None, None);
    let mut messages = Vec::new();
    let mut lines = LineReader::new(latest);
    while let Some(line) = lines.next().ok()? {
        let number = checksum::sequence_number(line.bytes)?;
        if !checksum::is_intact(line.bytes) || next.is_some_and(|next| next != number) {
            return None;
        }
        first.get_or_insert(number);
        next = Some(number + 1);
        messages.push(line.value(path).ok()?);
    }
    let omitted = usize::try_from(first?.checked_sub(FIRST_SEQUENCE)?).ok()?;
    // The first line is the header.
    let is_complete = line_breaks(before) == omitted + 1;
    is_complete.then_some((omitted, messages))
}

/// Counts line breaks, eight bytes at a time: a long conversation has megabytes.
fn line_breaks(bytes: &[u8]) -> usize {
    const EACH_BYTE: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = EACH_BYTE << 7;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut count = rest.iter().filter(|byte| **byte == b'\n').count();
    for word in words {
        let zero_at_breaks = u64::from_ne_bytes(*word) ^ (EACH_BYTE * u64::from(b'\n'));
        // The addition sets the high bit of a byte unless its lower bits are 0, and carries nothing.
        let other = ((zero_at_breaks & !HIGH_BITS) + !HIGH_BITS) | zero_at_breaks;
        count += (!other & HIGH_BITS).count_ones() as usize;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonl::lines::encode_file;
    use crate::suite::samples;

    fn ids(latest: Option<(usize, Vec<Arc<Message>>)>) -> Option<(usize, Vec<String>)> {
        let (omitted, messages) = latest?;
        let ids = messages.iter().map(|message| message.id.clone());
        Some((omitted, ids.collect()))
    }

    #[test]
    fn latest_lines_returns_the_last_messages_and_the_omitted_count() {
        let path = Path::new("base.jsonl");
        let file = encode_file(path, &samples::messages(&["a", "b", "c"])).unwrap();
        let latest = |count| ids(latest_lines(&file, path, count));
        let named = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(latest(1), Some((2, named(&["c"]))));
        assert_eq!(latest(3), Some((0, named(&["a", "b", "c"]))));
        // The file has three messages and a header line, which is not a message.
        assert_eq!(
            (latest(4), latest(5), latest(usize::MAX)),
            (None, None, None)
        );
    }

    #[test]
    fn line_breaks_are_counted_at_each_position() {
        let all: Vec<u8> = (0..=255).chain([b'\n'; 9]).chain(0..=11).collect();
        for (start, end) in [(0, all.len()), (3, 270), (10, 11), (11, 250), (256, 265)] {
            let bytes = &all[start..end];
            let expected = bytes.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(line_breaks(bytes), expected, "{start}..{end}");
        }
        assert_eq!(line_breaks(&[0x8a; 64]), 0);
    }

    #[test]
    fn a_damaged_file_requires_the_complete_read() {
        let path = Path::new("base.jsonl");
        let file = encode_file(path, &samples::messages(&["a", "b", "c"])).unwrap();
        let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
        let torn = &file[..file.len() - 2];
        let without_b = [lines[0], lines[1], lines[3]].concat();
        let swapped = [lines[0], lines[1], lines[3], lines[2]].concat();
        let mut changed = file.clone();
        let at = file.len() - 30;
        changed[at] ^= 1;
        for bytes in [torn, &without_b, &swapped, &changed, &[]] {
            assert_eq!(ids(latest_lines(bytes, path, 1)), None);
            assert_eq!(ids(latest_lines(bytes, path, 2)), None);
        }
    }
}
