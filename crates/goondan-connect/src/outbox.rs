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
    finished_count: usize,
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
                let is_new_finished = is_final(reply.state);
                let previous = self.replies.insert(reply.id.clone(), reply);
                let was_finished = previous.is_some_and(|previous| is_final(previous.state));
                self.finished_count += usize::from(is_new_finished);
                self.finished_count -= usize::from(was_finished);
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
                    self.finished_count -= usize::from(is_final(removed.state));
                }
            }
        }
        self.forget_old_finished();
    }

    /// Records the final state of an answer.
    fn close(&mut self, id: &str, state: ReplyState, why: Option<String>) {
        let Some(reply) = self.replies.get_mut(id) else {
            return;
        };
        self.finished_count += usize::from(!is_final(reply.state));
        // Destinations may contain platform tokens and are therefore removed.
        reply.origin = Value::Null;
        reply.draft = None;
        reply.state = state;
        reply.why = why;
    }

    /// Removes the oldest finished answers if there are at least twice as many as remembered.
    fn forget_old_finished(&mut self) {
        // In batches, because removing one entry moves all later ones.
        if self.finished_count < 2 * MAX_REMEMBERED_REPLIES {
            return;
        }
        let mut surplus = self.finished_count - MAX_REMEMBERED_REPLIES;
        self.replies.retain(|_, reply| {
            let is_removed = surplus > 0 && is_final(reply.state);
            surplus -= usize::from(is_removed);
            !is_removed
        });
        self.finished_count = MAX_REMEMBERED_REPLIES;
    }

    /// Encodes all answers, for a compacted file.
    fn snapshot(&self) -> Vec<u8> {
        self.replies
            .values()
            .flat_map(|reply| line(&OutboxRecord::Reply(reply.clone())))
            .collect()
    }
}

/// Returns true if the answer will not be sent any more.
fn is_final(state: ReplyState) -> bool {
    matches!(state, ReplyState::Sent | ReplyState::Failed)
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
    replies: Arc<Mutex<OutboxReplies>>,
}

impl Outbox {
    /// Opens the outbox of a state directory. Returns the pending answers, oldest first.
    pub(crate) fn open(folder: &Path) -> io::Result<(Outbox, Vec<OutboxReply>)> {
        let replies = OutboxReplies::read(folder)?;
        let pending = replies
            .replies()
            .filter(|reply| !is_final(reply.state))
            .cloned()
            .collect();
        let replies = Arc::new(Mutex::new(replies));
        let shared = Arc::clone(&replies);
        let snapshot: JournalSnapshot = Box::new(move || {
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .snapshot()
        });
        let journal = JsonLinesJournal::open(folder.join(OUTBOX_FILE), snapshot)?;
        Ok((Outbox { journal, replies }, pending))
    }

    /// Returns the state of the answer to an input, or `None` if it is unknown.
    pub(crate) fn state(&self, id: &str) -> Option<ReplyState> {
        self.replies
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
            self.replies
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .apply(OutboxRecord::Dropped { id });
        }
        written
    }

    /// Records that a message is being sent.
    pub(crate) async fn record_sending(&self, id: &str) -> io::Result<()> {
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
    pub(crate) async fn record_sent(&self, id: &str) -> io::Result<()> {
        self.record(OutboxRecord::Sent { id: id.to_owned() }).await
    }

    /// Records that the answer cannot be sent, with the reason.
    pub(crate) async fn record_failed(&self, id: &str, why: &str) -> io::Result<()> {
        self.record(OutboxRecord::Failed {
            id: id.to_owned(),
            why: why.to_owned(),
        })
        .await
    }

    /// Removes the answer because the swarm refused the input.
    pub(crate) async fn record_dropped(&self, id: &str) -> io::Result<()> {
        self.record(OutboxRecord::Dropped { id: id.to_owned() })
            .await
    }

    /// Waits until all earlier records are durable.
    pub(crate) async fn wait_until_durable(&self) -> io::Result<()> {
        self.journal.append(b"\n".to_vec()).await
    }

    /// Updates memory first, so that a concurrent rewrite of the file includes the record.
    async fn record(&self, record: OutboxRecord) -> io::Result<()> {
        let line = line(&record);
        self.replies
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
    async fn pending_answers_and_final_states_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let (outbox, pending) = Outbox::open(directory.path()).unwrap();
        assert_eq!(pending, []);
        for id in ["1", "2", "3", "4"] {
            outbox.record_pending(reply(id)).await.unwrap();
        }
        outbox.record_sending("2").await.unwrap();
        outbox.record_sent("3").await.unwrap();
        outbox.record_dropped("4").await.unwrap();
        drop(outbox);
        let (outbox, pending) = Outbox::open(directory.path()).unwrap();
        assert_eq!(
            pending,
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
        outbox.record_failed("2", "no").await.unwrap();
        drop(outbox);
        // A crash truncates the last line.
        let text = std::fs::read_to_string(directory.path().join(OUTBOX_FILE)).unwrap();
        std::fs::write(
            directory.path().join(OUTBOX_FILE),
            format!("{text}{{\"is\":\"se"),
        )
        .unwrap();
        let replies = OutboxReplies::read(directory.path()).unwrap();
        let ids_and_failures: Vec<_> = replies
            .replies()
            .map(|reply| (reply.id.as_str(), reply.why.as_deref()))
            .collect();
        assert_eq!(
            ids_and_failures,
            [("1", None), ("2", Some("no")), ("3", None)]
        );
    }

    #[test]
    fn old_finished_answers_are_removed_and_pending_ones_are_kept() {
        let mut replies = OutboxReplies::default();
        replies.apply(OutboxRecord::Reply(reply("pending")));
        for number in 0..5_000 {
            let id = number.to_string();
            replies.apply(OutboxRecord::Reply(reply(&id)));
            replies.apply(OutboxRecord::Sent { id });
        }
        assert!(
            replies.replies.len() <= 2 * MAX_REMEMBERED_REPLIES + 1,
            "{}",
            replies.replies.len()
        );
        assert!(replies.replies.contains_key("pending") && replies.replies.contains_key("4999"));
    }
}
