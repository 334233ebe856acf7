//! Answers that are owed: where each has to go, and how far it has come. One file for each connection.
//!
//! `accepted` is written before the swarm has the input, `sending` before each message is sent, `sent` or `failed` behind it.
//! After a crash an answer that was not being sent is sent; one that was is not sent again, since it may have arrived.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::{Digest, Journal};

/// Its name in the folder of a connection.
pub(crate) const FILE: &str = "outbox.jsonl";

/// So many answers that are sent, or have failed, are remembered: their events may be delivered again.
const REMEMBERED: usize = 1_000;

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplyState {
    /// The input is accepted, or about to be.
    Accepted,
    /// A message of the answer is on its way.
    Sending,
    /// All of it has arrived.
    Sent,
    /// It has not arrived, or nobody knows.
    Failed,
}

/// An answer that is owed, or was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// The id of the input.
    pub id: String,
    /// How far it has come.
    pub state: ReplyState,
    /// The instance that answers.
    pub instance: String,
    /// When the event arrived.
    pub at: DateTime<Utc>,
    /// The channel of the event.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub channel: String,
    /// Where it goes; gone once that is over.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub origin: Value,
    /// The message that grows until it is the answer; gone once that is over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub draft: Option<Value>,
    /// Why it has failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// A line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
enum Record {
    Reply(Reply),
    Sending {
        id: String,
    },
    /// A message of it stands there and grows.
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
    /// The swarm did not take the input.
    Dropped {
        id: String,
    },
}

/// All answers of a connection, in the order in which their events came.
#[derive(Debug, Default)]
pub(crate) struct Book {
    replies: IndexMap<String, Reply>,
    over: usize,
}

impl Book {
    /// Reads the file of a folder. A line that was cut off in the middle is none.
    pub(crate) fn read(folder: &Path) -> io::Result<Book> {
        let mut book = Book::default();
        let text = match std::fs::read(folder.join(FILE)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(book),
            Err(error) => return Err(error),
        };
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            match serde_json::from_slice(line) {
                Ok(record) => book.apply(record),
                Err(error) => tracing::warn!(%error, "a line of an outbox could not be read"),
            }
        }
        Ok(book)
    }

    /// All of them, oldest first.
    pub(crate) fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.replies.values()
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Reply(reply) => {
                let is_over = is_over(reply.state);
                let before = self.replies.insert(reply.id.clone(), reply);
                self.over += usize::from(is_over);
                self.over -= usize::from(before.is_some_and(|before| is_over_state(&before)));
            }
            Record::Sending { id } => {
                if let Some(reply) = self.replies.get_mut(&id) {
                    reply.state = ReplyState::Sending;
                }
            }
            Record::Draft { id, message } => {
                if let Some(reply) = self.replies.get_mut(&id) {
                    reply.draft = Some(message);
                }
            }
            Record::Sent { id } => self.close(&id, ReplyState::Sent, None),
            Record::Failed { id, why } => self.close(&id, ReplyState::Failed, Some(why)),
            Record::Dropped { id } => {
                if let Some(gone) = self.replies.shift_remove(&id) {
                    self.over -= usize::from(is_over_state(&gone));
                }
            }
        }
        self.forget();
    }

    fn close(&mut self, id: &str, state: ReplyState, why: Option<String>) {
        let Some(reply) = self.replies.get_mut(id) else {
            return;
        };
        self.over += usize::from(!is_over(reply.state));
        // What is not needed any more may be a token of the platform.
        (reply.state, reply.why, reply.origin, reply.draft) = (state, why, Value::Null, None);
    }

    fn forget(&mut self) {
        // In batches: taking one out of the middle moves all behind it.
        if self.over < 2 * REMEMBERED {
            return;
        }
        let mut surplus = self.over - REMEMBERED;
        self.replies.retain(|_, reply| {
            let goes = surplus > 0 && is_over_state(reply);
            surplus -= usize::from(goes);
            !goes
        });
        self.over = REMEMBERED;
    }

    fn digest(&self) -> Vec<u8> {
        self.replies
            .values()
            .flat_map(|reply| line(&Record::Reply(reply.clone())))
            .collect()
    }
}

fn is_over(state: ReplyState) -> bool {
    matches!(state, ReplyState::Sent | ReplyState::Failed)
}

fn is_over_state(reply: &Reply) -> bool {
    is_over(reply.state)
}

fn line(record: &Record) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("a record is made of texts and JSON");
    line.push(b'\n');
    line
}

/// The outbox of a running connection.
#[derive(Debug)]
pub(crate) struct Outbox {
    journal: Journal,
    book: Arc<Mutex<Book>>,
}

impl Outbox {
    /// Opens the one in `folder`, and gives back what is owed, oldest first.
    pub(crate) fn open(folder: &Path) -> io::Result<(Outbox, Vec<Reply>)> {
        let book = Book::read(folder)?;
        let owed = book
            .replies()
            .filter(|reply| !is_over(reply.state))
            .cloned()
            .collect();
        let book = Arc::new(Mutex::new(book));
        let shared = Arc::clone(&book);
        let digest: Digest = Box::new(move || {
            shared
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .digest()
        });
        let journal = Journal::open(folder.join(FILE), digest)?;
        Ok((Outbox { journal, book }, owed))
    }

    /// How far the answer to that input has come; `None` where nothing is known of it.
    pub(crate) fn state(&self, id: &str) -> Option<ReplyState> {
        self.book
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replies
            .get(id)
            .map(|reply| reply.state)
    }

    /// An answer is owed.
    pub(crate) async fn owe(&self, reply: Reply) -> io::Result<()> {
        let id = reply.id.clone();
        let written = self.record(Record::Reply(reply)).await;
        if written.is_err() {
            // It comes again, and must not look as if it had been written.
            self.book
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .apply(Record::Dropped { id });
        }
        written
    }

    /// A message of it goes out now.
    pub(crate) async fn sending(&self, id: &str) -> io::Result<()> {
        self.record(Record::Sending { id: id.to_owned() }).await
    }

    /// A message of it stands there, and may be changed however often.
    pub(crate) async fn draft(&self, id: &str, message: Value) -> io::Result<()> {
        self.record(Record::Draft {
            id: id.to_owned(),
            message,
        })
        .await
    }

    /// All of it has arrived.
    pub(crate) async fn sent(&self, id: &str) -> io::Result<()> {
        self.record(Record::Sent { id: id.to_owned() }).await
    }

    /// It has not arrived.
    pub(crate) async fn failed(&self, id: &str, why: &str) -> io::Result<()> {
        self.record(Record::Failed {
            id: id.to_owned(),
            why: why.to_owned(),
        })
        .await
    }

    /// There will be no answer: the swarm did not take the input.
    pub(crate) async fn dropped(&self, id: &str) -> io::Result<()> {
        self.record(Record::Dropped { id: id.to_owned() }).await
    }

    /// Waits until everything that was written so far is on disk.
    pub(crate) async fn settled(&self) -> io::Result<()> {
        self.journal.append(b"\n".to_vec()).await
    }

    /// In memory first, so that a file that is written anew meanwhile has it.
    async fn record(&self, record: Record) -> io::Result<()> {
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

    fn reply(id: &str) -> Reply {
        Reply {
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
            outbox.owe(reply(id)).await.unwrap();
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
                Reply {
                    state: ReplyState::Sending,
                    ..reply("2")
                }
            ]
        );
        assert_eq!(outbox.state("3"), Some(ReplyState::Sent));
        assert_eq!(outbox.state("4"), None);
        outbox.failed("2", "no").await.unwrap();
        drop(outbox);
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        std::fs::write(folder.path().join(FILE), format!("{text}{{\"is\":\"se")).unwrap();
        let book = Book::read(folder.path()).unwrap();
        let told: Vec<_> = book
            .replies()
            .map(|reply| (reply.id.as_str(), reply.why.as_deref()))
            .collect();
        assert_eq!(told, [("1", None), ("2", Some("no")), ("3", None)]);
    }

    #[test]
    fn what_is_over_is_forgotten_in_the_end_and_what_is_owed_is_not() {
        let mut book = Book::default();
        book.apply(Record::Reply(reply("owed")));
        for number in 0..5_000 {
            let id = number.to_string();
            book.apply(Record::Reply(reply(&id)));
            book.apply(Record::Sent { id });
        }
        assert!(
            book.replies.len() <= 2 * REMEMBERED + 1,
            "{}",
            book.replies.len()
        );
        assert!(book.replies.contains_key("owed") && book.replies.contains_key("4999"));
    }
}
