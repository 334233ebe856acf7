//! Allowed senders and pending approvals of unknown senders.
//!
//! The process that runs a connection writes the pending file; other commands write the approved
//! file. So each file has only one kind of writer.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use goondan::internal::file_lock::{FileLock, LOCK_TIMEOUT};
use goondan::internal::private_files;
use goondan::spec::kinds::ConnectionAccess;
use serde::{Deserialize, Serialize};

use crate::event::{EventSender, PlatformEvent};

/// File with unknown senders that wait for approval.
const PENDING_FILE: &str = "pending.json";
/// File with approved senders: one JSON string per line.
const APPROVED_FILE: &str = "approved.jsonl";

/// Maximum number of pending senders; further ones are not recorded.
const MAX_PENDING_SENDERS: usize = 100;
/// Maximum characters of a sender's name.
const MAX_SENDER_NAME_CHARS: usize = 80;

/// An unknown sender that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingSender {
    /// Platform's id of the sender.
    pub id: String,
    /// Display name, chosen by the sender.
    pub name: String,
    /// Time of the first message.
    pub since: DateTime<Utc>,
}

/// Decision about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SenderAdmission {
    Passes,
    /// The sender is unknown and has not been notified yet.
    NewUnknownSender,
    /// The event is refused without a notification.
    Refused,
}

/// Allowed senders of a connection.
#[derive(Debug)]
pub(crate) struct AllowedSenders {
    folder: PathBuf,
    allow: Option<ConnectionAccess>,
    /// Without `allow`, unknown senders need approval.
    is_guarded: bool,
    pending: Mutex<Vec<PendingSender>>,
}

impl AllowedSenders {
    /// Opens the list of senders in `folder`.
    pub(crate) fn open(
        folder: &Path,
        allow: Option<ConnectionAccess>,
        is_guarded: bool,
    ) -> io::Result<AllowedSenders> {
        let pending = Mutex::new(read_pending(folder)?);
        Ok(AllowedSenders {
            folder: folder.to_owned(),
            allow,
            is_guarded,
            pending,
        })
    }

    /// Decides about `event` and records an unknown sender.
    pub(crate) fn admit(
        &self,
        event: &PlatformEvent,
        now: DateTime<Utc>,
    ) -> io::Result<SenderAdmission> {
        let allow = self
            .allow
            .as_ref()
            .filter(|allow| allow.restricts_senders());
        if let Some(channels) = allow.and_then(|allow| allow.channels.as_ref())
            && !event
                .channel
                .as_ref()
                .is_some_and(|channel| channels.contains(channel))
        {
            return Ok(SenderAdmission::Refused);
        }
        let id = event.sender.as_ref().map_or("", |sender| &sender.id);
        if self.is_allowed(allow, id)? {
            return Ok(match &event.author {
                // The sender passes on the text of another user.
                Some(author) if !self.is_allowed(allow, author)? => SenderAdmission::Refused,
                _ => SenderAdmission::Passes,
            });
        }
        event
            .sender
            .as_ref()
            .map_or(Ok(SenderAdmission::Refused), |sender| {
                self.note(sender, now)
            })
    }

    /// Returns whether the user `id` is allowed or approved. An unknown user has an empty id.
    fn is_allowed(&self, allow: Option<&ConnectionAccess>, id: &str) -> io::Result<bool> {
        let is_listed = match allow {
            None => !self.is_guarded,
            Some(allow) => {
                let senders = allow.senders.as_ref();
                allow.accepts_all_senders() || senders.is_some_and(|senders| senders.contains(id))
            }
        };
        Ok(is_listed
            || (!id.is_empty() && read_approved(&self.folder)?.iter().any(|known| known == id)))
    }

    /// Records an unknown sender. Returns `NewUnknownSender` only for the first event of a sender.
    fn note(&self, sender: &EventSender, now: DateTime<Utc>) -> io::Result<SenderAdmission> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MAX_PENDING_SENDERS {
            let approved = read_approved(&self.folder)?;
            pending.retain(|stranger| !approved.contains(&stranger.id));
        }
        if pending.len() >= MAX_PENDING_SENDERS || pending.iter().any(|known| known.id == sender.id)
        {
            return Ok(SenderAdmission::Refused);
        }
        let name = sender.name.chars().take(MAX_SENDER_NAME_CHARS).collect();
        pending.push(PendingSender {
            id: sender.id.clone(),
            name,
            since: now,
        });
        private_files::replace_durably(
            &self.folder.join(PENDING_FILE),
            &serde_json::to_vec(&*pending)?,
        )?;
        Ok(SenderAdmission::NewUnknownSender)
    }
}

pub(crate) fn read_pending(folder: &Path) -> io::Result<Vec<PendingSender>> {
    match std::fs::read(folder.join(PENDING_FILE)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Reads the ids of the approved senders.
pub(crate) fn read_approved(folder: &Path) -> io::Result<Vec<String>> {
    match std::fs::read_to_string(folder.join(APPROVED_FILE)) {
        // Skips a line that another process is still writing.
        Ok(text) => Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Approves the sender with the id `sender`. Returns false if the sender was already approved.
/// Fails if another process holds the lock of the file for longer than [`LOCK_TIMEOUT`].
pub(crate) fn approve(folder: &Path, sender: &str) -> io::Result<bool> {
    let path = folder.join(APPROVED_FILE);
    let _lock = FileLock::of_file(&path, LOCK_TIMEOUT)?;
    if read_approved(folder)?.iter().any(|id| id == sender) {
        return Ok(false);
    }
    let mut file = private_files::options()
        .append(true)
        .create(true)
        .open(path)?;
    file.write_all(format!("{}\n", serde_json::Value::from(sender)).as_bytes())?;
    file.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn event(sender: &str, channel: &str) -> PlatformEvent {
        let sender = EventSender {
            id: sender.to_owned(),
            name: "x".repeat(200),
        };
        PlatformEvent {
            sender: Some(sender),
            channel: Some(channel.to_owned()),
            ..PlatformEvent::default()
        }
    }

    fn ids(ids: &[&str]) -> Option<BTreeSet<String>> {
        Some(ids.iter().map(|id| (*id).to_owned()).collect())
    }

    #[test]
    fn unknown_senders_wait_until_they_are_approved() {
        let directory = tempfile::tempdir().unwrap();
        let now = DateTime::UNIX_EPOCH;
        let senders = AllowedSenders::open(directory.path(), None, true).unwrap();
        assert_eq!(
            senders.admit(&event("7", "c"), now).unwrap(),
            SenderAdmission::NewUnknownSender
        );
        assert_eq!(
            senders.admit(&event("7", "c"), now).unwrap(),
            SenderAdmission::Refused,
            "an unknown sender is notified once"
        );
        assert_eq!(
            read_pending(directory.path()).unwrap()[0].name.len(),
            MAX_SENDER_NAME_CHARS
        );
        assert!(
            approve(directory.path(), "7").unwrap() && !approve(directory.path(), "7").unwrap()
        );
        assert_eq!(
            senders.admit(&event("7", "c"), now).unwrap(),
            SenderAdmission::Passes
        );
        for number in 0..2 * MAX_PENDING_SENDERS {
            senders
                .admit(&event(&format!("s{number}"), "c"), now)
                .unwrap();
        }
        assert_eq!(
            read_pending(directory.path()).unwrap().len(),
            MAX_PENDING_SENDERS
        );
        let again = AllowedSenders::open(directory.path(), None, true).unwrap();
        assert_eq!(
            again.admit(&event("s3", "c"), now).unwrap(),
            SenderAdmission::Refused,
            "an unknown sender is notified once, including after a restart"
        );
    }

    #[test]
    fn the_author_of_a_text_must_also_be_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let admit = |senders: &[&str], author: Option<&str>| {
            let allow = ConnectionAccess {
                senders: ids(senders),
                ..ConnectionAccess::default()
            };
            let senders = AllowedSenders::open(directory.path(), Some(allow), false).unwrap();
            let event = PlatformEvent {
                author: author.map(str::to_owned),
                ..event("ada", "c")
            };
            senders.admit(&event, DateTime::UNIX_EPOCH).unwrap()
        };
        let refused = SenderAdmission::Refused;
        let passes = SenderAdmission::Passes;
        assert_eq!(admit(&["ada"], None), passes);
        assert_eq!(admit(&["ada"], Some("mallory")), refused);
        assert_eq!(admit(&["ada"], Some("")), refused);
        assert_eq!(admit(&["ada", "mallory"], Some("mallory")), passes);
        assert_eq!(admit(&["*"], Some("mallory")), passes);
        assert_eq!(read_pending(directory.path()).unwrap(), []);
    }

    #[test]
    fn senders_and_channels_must_both_be_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let admit = |allow: Option<ConnectionAccess>, sender: &str, channel: &str| {
            let senders = AllowedSenders::open(directory.path(), allow, false).unwrap();
            senders
                .admit(&event(sender, channel), DateTime::UNIX_EPOCH)
                .unwrap()
                == SenderAdmission::Passes
        };
        assert!(admit(None, "1", "c"));
        let both = || {
            Some(ConnectionAccess {
                senders: ids(&["1"]),
                channels: ids(&["c"]),
                ..ConnectionAccess::default()
            })
        };
        assert!(admit(both(), "1", "c") && !admit(both(), "1", "d") && !admit(both(), "2", "c"));
        let channel = || {
            Some(ConnectionAccess {
                senders: None,
                channels: ids(&["c"]),
                ..ConnectionAccess::default()
            })
        };
        assert!(admit(channel(), "2", "c") && !admit(channel(), "2", "d"));
        assert!(admit(
            Some(ConnectionAccess {
                senders: ids(&["*"]),
                channels: None,
                ..ConnectionAccess::default()
            }),
            "9",
            "d"
        ));
        let approvers = ConnectionAccess {
            approvers: ids(&["1"]).unwrap(),
            ..ConnectionAccess::default()
        };
        let senders = AllowedSenders::open(directory.path(), Some(approvers), true).unwrap();
        let admitted = senders
            .admit(&event("9", "d"), DateTime::UNIX_EPOCH)
            .unwrap();
        assert_ne!(
            admitted,
            SenderAdmission::Passes,
            "`approvers` does not allow further senders"
        );
    }
}
