//! The encoded messages of a conversation. Each message is encoded once, so a request costs only
//! its new messages.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use goondan_core::message::{Message, MessageRole};

use super::{CacheMark, DraftMessage, WireFormat, WireMessages};

/// Bytes of encoded messages that later requests share. A smaller rest is copied for each request.
const SHARED_BLOCK_BYTES: usize = 32 * 1024;

/// Number of messages at the end of a conversation that carry a cache mark.
const CACHE_MARKS: usize = 2;

/// Number of transcripts that a conversation keeps: one for each model that takes part in it.
const MAX_TRANSCRIPTS: usize = 4;

/// Transcripts of one conversation, by format and provider.
#[derive(Default)]
pub(crate) struct TranscriptCache {
    transcripts: Vec<(String, EncodedTranscript)>,
}

/// The encoded messages of a conversation in one format.
#[derive(Default)]
pub(crate) struct EncodedTranscript {
    /// Number of encoded messages.
    encoded_count: usize,
    /// The last encoded message.
    last: Option<Arc<Message>>,
    blocks: Vec<Bytes>,
    block: Vec<u8>,
    /// Messages that may still carry a cache mark.
    recent: VecDeque<EncodedMessage>,
    pub(crate) messages: WireMessages,
}

struct EncodedMessage {
    role: &'static str,
    json: Vec<u8>,
}

impl TranscriptCache {
    /// Returns the transcript for `key`, which is empty when it is new.
    pub(crate) fn transcript(&mut self, key: &str) -> &mut EncodedTranscript {
        let position = self.transcripts.iter().position(|(known, _)| known == key);
        let insert_position = position.unwrap_or_else(|| {
            if self.transcripts.len() == MAX_TRANSCRIPTS {
                self.transcripts.remove(0);
            }
            self.transcripts
                .push((key.to_owned(), EncodedTranscript::default()));
            self.transcripts.len() - 1
        });
        &mut self.transcripts[insert_position].1
    }
}

impl EncodedTranscript {
    /// Encodes the messages that were added since the last call. If `messages` does not continue
    /// the encoded messages, encodes all again.
    pub(crate) fn catch_up(&mut self, messages: &[Arc<Message>], format: &dyn WireFormat) {
        if !self.is_prefix_of(messages) {
            *self = EncodedTranscript::default();
        }
        for message in &messages[self.encoded_count..] {
            self.add(message, format);
        }
        self.encoded_count = messages.len();
        self.last = messages.last().cloned();
    }

    /// Returns true if `messages` begins with the encoded messages. Messages are only ever added,
    /// so comparing the last encoded message is sufficient.
    fn is_prefix_of(&self, messages: &[Arc<Message>]) -> bool {
        let last_encoded = self
            .encoded_count
            .checked_sub(1)
            .and_then(|last| messages.get(last));
        match (&self.last, last_encoded) {
            (None, _) => true,
            (Some(last), Some(last_encoded)) => Arc::ptr_eq(last, last_encoded),
            (Some(_), None) => false,
        }
    }

    /// Encodes one message.
    fn add(&mut self, message: &Message, format: &dyn WireFormat) {
        if message.data.role != MessageRole::Tool {
            let files = self.messages.take_files();
            self.messages.push("user", files, true);
        }
        self.messages.record_calls(message);
        format.add_message(message, &mut self.messages);
        for draft in std::mem::take(&mut self.messages.closed) {
            self.close(&draft, format);
        }
    }

    /// Encodes a complete message. Moves earlier messages without a future cache mark to the shared
    /// blocks.
    fn close(&mut self, draft: &DraftMessage, format: &dyn WireFormat) {
        self.recent
            .push_back(EncodedMessage::from_draft(draft, format));
        let mark = format.cache_mark();
        while !self.recent.is_empty() && !self.can_carry_mark(mark) {
            let Some(message) = self.recent.pop_front() else {
                break;
            };
            self.block.push(b',');
            self.block.extend_from_slice(&message.json);
            if self.block.len() >= SHARED_BLOCK_BYTES {
                self.blocks
                    .push(Bytes::from(std::mem::take(&mut self.block)));
            }
        }
    }

    /// Returns true if the oldest recent message may carry a mark in some later request.
    fn can_carry_mark(&self, mark: Option<CacheMark>) -> bool {
        let Some(mark) = mark else { return false };
        let marked = self
            .recent
            .iter()
            .filter(|message| message.role == mark.role)
            .count();
        let is_oldest_marked = self
            .recent
            .front()
            .is_some_and(|oldest| oldest.role == mark.role);
        is_oldest_marked && marked <= CACHE_MARKS
    }

    /// Returns the JSON of all messages, each after a comma. Full blocks are shared, not copied.
    pub(crate) fn bytes(&self, format: &dyn WireFormat) -> Vec<Bytes> {
        let mut rest = self.block.clone();
        let end = self.end(format);
        let recent: Vec<_> = self.recent.iter().chain(&end).collect();
        let mark = format.cache_mark();
        let role_count = |role| recent.iter().filter(|message| message.role == role).count();
        let mut unmarked = mark.map_or(0, |mark| role_count(mark.role).saturating_sub(CACHE_MARKS));
        for message in recent {
            rest.push(b',');
            match mark.filter(|mark| mark.role == message.role) {
                Some(mark) if unmarked == 0 => message.write_marked(mark, &mut rest),
                is_marked_role => {
                    unmarked -= usize::from(is_marked_role.is_some());
                    rest.extend_from_slice(&message.json);
                }
            }
        }
        let mut all_blocks = self.blocks.clone();
        if !rest.is_empty() {
            all_blocks.push(Bytes::from(rest));
        }
        all_blocks
    }

    /// Encodes the open message and the attachments after it.
    fn end(&self, format: &dyn WireFormat) -> Vec<EncodedMessage> {
        let files = self.messages.files();
        let mut drafts: Vec<DraftMessage> = self.messages.open.iter().cloned().collect();
        if !files.is_empty() {
            match drafts.last_mut() {
                Some(open) if open.joins && open.role == "user" => {
                    open.content.extend_from_slice(files)
                }
                _ => drafts.push(DraftMessage {
                    role: "user",
                    content: files.to_vec(),
                    joins: true,
                }),
            }
        }
        drafts
            .iter()
            .map(|draft| EncodedMessage::from_draft(draft, format))
            .collect()
    }
}

impl EncodedMessage {
    fn from_draft(draft: &DraftMessage, format: &dyn WireFormat) -> Self {
        EncodedMessage {
            role: draft.role,
            json: format.close(draft).to_string().into_bytes(),
        }
    }

    fn write_marked(&self, mark: CacheMark, out: &mut Vec<u8>) {
        let insert_position = self.json.len().saturating_sub(mark.bytes_from_end);
        out.extend_from_slice(&self.json[..insert_position]);
        out.extend_from_slice(mark.text.as_bytes());
        out.extend_from_slice(&self.json[insert_position..]);
    }
}
