//! Pending answers with their destinations and states; one file per connection.
//!
//! `accepted` is written before the swarm receives the input, `sending` before each message, and
//! `sent` or `failed` afterwards. After a crash, answers in state `accepted` are sent. Answers in
//! state `sending` are not sent again, because they may have arrived.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::{JournalSnapshot, JsonLinesJournal};

pub(crate) const OUTBOX_FILE: &str = "outbox.jsonl";

/// Number of finished answers that are remembered, because their events may be redelivered.
const MAX_REMEMBERED_REPLIES: usize = 1_000;

/// Delivery state of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplyState {
    /// The input is accepted or about to be.
    Accepted,
    /// A message of the answer is being sent.
    Sending,
    /// The whole answer has arrived.
    Sent,
    /// The answer did not arrive, or its delivery is unknown.
    Failed,
}

/// An answer to an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxReply {
    /// Input id.
    pub id: String,
    /// Delivery state.
    pub state: ReplyState,
    /// Instance that answers.
    pub instance: String,
    /// Arrival time of the event.
    pub at: DateTime<Utc>,
    /// Channel of the event.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub channel: String,
    /// Destination of the answer; removed when delivery ends.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub origin: Value,
    /// Streamed message that becomes the answer; removed when delivery ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub draft: Option<Value>,
    /// Reason for a failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// A line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
enum OutboxRecord {
    Reply(OutboxReply),
    Sending {
        id: String,
    },
    /// A streamed message was created.
    Draft {
        id: String,
        message: Value,
    },
    Sent {
        id: String,
    },
    Failed {
        id: String,
        why: String,
    },
    /// The swarm refused the input.
    Dropped {
        id: String,
    },
}

/// All answers of a connection, in the order of their events.
#[derive(Debug, Default)]
pub(crate) struct OutboxReplies {
    replies: IndexMap<String, OutboxReply>,
    /// Number of finished answers.
    over: usize,
}

impl OutboxReplies {
    /// Reads the file of a state directory. Skips unreadable lines, such as a truncated last line.
    pub(crate) fn read(folder: &Path) -> io::Result<OutboxReplies> {
        let mut replies = OutboxReplies::default();
        let text = match std::fs::read(folder.join(OUTBOX_FILE)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(replies),
            Err(error) => return Err(error),
        };
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            match serde_json::from_slice(line) {
                Ok(record) => replies.apply(record),
                Err(error) => {
                    tracing::warn!(%error, "skipped an unreadable line of the outbox")
                }
            }
        }
        Ok(replies)
    }

    /// Returns all answers, oldest first.
    pub(crate) fn replies(&self) -> impl Iterator<Item = &OutboxReply> {
        self.replies.values()
    }

    /// Applies a line of the file.
    fn apply(&mut self, record: OutboxRecord) {
        match record {
            OutboxRecord::Reply(reply) => {
                let is_over = is_over(reply.state);
                let before = self.replies.insert(reply.id.clone(), reply);
                self.over += usize::from(is_over);
                self.over -= usize::from(before.is_some_and(|before| is_over_state(&before)));
            }
            OutboxRecord::Sending { id } => {
                if let Some(reply) = self.replies.get_mut(&id) {
                    reply.state = ReplyState::Sending;
                }
            }
            OutboxRecord::Draft { id, message } => {
                if let Some(reply) = self.replies.get_mut(&id) {
                    reply.draft = Some(message);
                }
            }
            OutboxRecord::Sent { id } => self.close(&id, ReplyState::Sent, None),
            OutboxRecord::Failed { id, why } => self.close(&id, ReplyState::Failed, Some(why)),
            OutboxRecord::Dropped { id } => {
                if let Some(removed) = self.replies.shift_remove(&id) {
                    self.over -= usize::from(is_over_state(&removed));
                }
            }
        }
        self.forget();
    }

    /// Records the final state of an answer.
    fn close(&mut self, id: &str, state: ReplyState, why: Option<String>) {
        let Some(reply) = self.replies.get_mut(id) else {
            return;
        };
        self.over += usize::from(!is_over(reply.state));
        // Destinations may contain platform tokens and are therefore removed.
        (reply.state, reply.why, reply.origin, reply.draft) = (state, why, Value::Null, None);
    }

    /// Removes the oldest finished answers.
    fn forget(&mut self) {
        // In batches, because removing one entry moves all later ones.
        if self.over < 2 * MAX_REMEMBERED_REPLIES {
            return;
        }
        let mut surplus = self.over - MAX_REMEMBERED_REPLIES;
        self.replies.retain(|_, reply| {
            let is_removed = surplus > 0 && is_over_state(reply);
            surplus -= usize::from(is_removed);
            !is_removed
        });
        self.over = MAX_REMEMBERED_REPLIES;
    }

    /// Encodes all answers, for a compacted file.
    fn digest(&self) -> Vec<u8> {
        self.replies
            .values()
            .flat_map(|reply| line(&OutboxRecord::Reply(reply.clone())))
            .collect()
    }
}

/// Returns true if the answer will not be sent any more.
fn is_over(state: ReplyState) -> bool {
    matches!(state, ReplyState::Sent | ReplyState::Failed)
}

/// Same as [`is_over`], for an answer.
fn is_over_state(reply: &OutboxReply) -> bool {
    is_over(reply.state)
}

/// Encodes a record with its line end.
fn line(record: &OutboxRecord) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("a record is valid JSON");
    line.push(b'\n');
    line
}

/// Outbox of a running connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    journal: JsonLinesJournal,
    book: Arc<Mutex<OutboxReplies>>,
}

impl Outbox {
    /// Opens the outbox of a state directory. Returns the pending answers, oldest first.
    pub(crate) fn open(folder: &Path) -> io::Result<(Outbox, Vec<OutboxReply>)> {
        let book = OutboxReplies::read(folder)?;
        let owed = book
            .replies()
            .filter(|reply| !is_over(reply.state))
            .cloned()
            .collect();
        let book = Arc::new(Mutex::new(book));
        let shared = Arc::clone(&book);
        let digest: JournalSnapshot = Box::new(move || {
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .digest()
        });
        let journal = JsonLinesJournal::open(folder.join(OUTBOX_FILE), digest)?;
        Ok((Outbox { journal, book }, owed))
    }

    /// Returns the state of the answer to an input, or `None` if it is unknown.
    pub(crate) fn state(&self, id: &str) -> Option<ReplyState> {
        self.book
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replies
            .get(id)
            .map(|reply| reply.state)
    }

    /// Records a pending answer.
    pub(crate) async fn record_pending(&self, reply: OutboxReply) -> io::Result<()> {
        let id = reply.id.clone();
        let written = self.record(OutboxRecord::Reply(reply)).await;
        if written.is_err() {
            // The platform redelivers the event, which must not appear as already recorded.
            self.book
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .apply(OutboxRecord::Dropped { id });
        }
        written
    }

    /// Records that a message is being sent.
    pub(crate) async fn sending(&self, id: &str) -> io::Result<()> {
        self.record(OutboxRecord::Sending { id: id.to_owned() })
            .await
    }

    /// Records the streamed message, which can be edited repeatedly.
    pub(crate) async fn draft(&self, id: &str, message: Value) -> io::Result<()> {
        self.record(OutboxRecord::Draft {
            id: id.to_owned(),
            message,
        })
        .await
    }

    /// Records that the answer was sent.
    pub(crate) async fn sent(&self, id: &str) -> io::Result<()> {
        self.record(OutboxRecord::Sent { id: id.to_owned() }).await
    }

    /// Records that the answer cannot be sent, with the reason.
    pub(crate) async fn failed(&self, id: &str, why: &str) -> io::Result<()> {
        self.record(OutboxRecord::Failed {
            id: id.to_owned(),
            why: why.to_owned(),
        })
        .await
    }

    /// Removes the answer because the swarm refused the input.
    pub(crate) async fn dropped(&self, id: &str) -> io::Result<()> {
        self.record(OutboxRecord::Dropped { id: id.to_owned() })
            .await
    }

    /// Waits until all earlier records are durable.
    pub(crate) async fn settled(&self) -> io::Result<()> {
        self.journal.append(b"\n".to_vec()).await
    }

    /// Updates memory first, so that a concurrent rewrite of the file includes the record.
    async fn record(&self, record: OutboxRecord) -> io::Result<()> {
        let line = line(&record);
        self.book
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .apply(record);
        self.journal.append(line).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(id: &str) -> OutboxReply {
        OutboxReply {
            id: id.to_owned(),
            state: ReplyState::Accepted,
            instance: "a:k".to_owned(),
            at: DateTime::UNIX_EPOCH,
            channel: String::new(),
            origin: json!({"chat": 1}),
            draft: None,
            why: None,
        }
    }

    #[tokio::test]
    async fn what_is_owed_survives_and_what_is_over_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let (outbox, owed) = Outbox::open(folder.path()).unwrap();
        assert_eq!(owed, []);
        for id in ["1", "2", "3", "4"] {
            outbox.record_pending(reply(id)).await.unwrap();
        }
        outbox.sending("2").await.unwrap();
        outbox.sent("3").await.unwrap();
        outbox.dropped("4").await.unwrap();
        drop(outbox);
        let (outbox, owed) = Outbox::open(folder.path()).unwrap();
        assert_eq!(
            owed,
            [
                reply("1"),
                OutboxReply {
                    state: ReplyState::Sending,
                    ..reply("2")
                }
            ]
        );
        assert_eq!(outbox.state("3"), Some(ReplyState::Sent));
        assert_eq!(outbox.state("4"), None);
        outbox.failed("2", "no").await.unwrap();
        drop(outbox);
        let text = std::fs::read_to_string(folder.path().join(OUTBOX_FILE)).unwrap();
        std::fs::write(
            folder.path().join(OUTBOX_FILE),
            format!("{text}{{\"is\":\"se"),
        )
        .unwrap();
        let book = OutboxReplies::read(folder.path()).unwrap();
        let told: Vec<_> = book
            .replies()
            .map(|reply| (reply.id.as_str(), reply.why.as_deref()))
            .collect();
        assert_eq!(told, [("1", None), ("2", Some("no")), ("3", None)]);
    }

    #[test]
    fn what_is_over_is_forgotten_in_the_end_and_what_is_owed_is_not() {
        let mut book = OutboxReplies::default();
        book.apply(OutboxRecord::Reply(reply("owed")));
        for number in 0..5_000 {
            let id = number.to_string();
            book.apply(OutboxRecord::Reply(reply(&id)));
            book.apply(OutboxRecord::Sent { id });
        }
        assert!(
            book.replies.len() <= 2 * MAX_REMEMBERED_REPLIES + 1,
            "{}",
            book.replies.len()
        );
        assert!(book.replies.contains_key("owed") && book.replies.contains_key("4999"));
    }
}
