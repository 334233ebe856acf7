//! Who may send events, and strangers who would like to.
//!
//! The process that runs a connection writes the strangers down; other commands write down whom they let in. So each file has
//! one kind of writer.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use goondan::inside::private;
use goondan::spec::kinds::Allow;
use serde::{Deserialize, Serialize};

use crate::event::{Event, Sender};

/// The strangers of a connection.
const PENDING: &str = "pending.json";
/// Whom somebody has let in, one id a line, as JSON.
const APPROVED: &str = "approved.jsonl";

/// So many strangers are written down; of more nothing is kept.
const MOST_PENDING: usize = 100;
/// Their names are cut, in characters.
const LONGEST_NAME: usize = 80;

/// A stranger who has written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The platform's id.
    pub id: String,
    /// How people call the sender. The sender has chosen it.
    pub name: String,
    /// When he wrote first.
    pub since: DateTime<Utc>,
}

/// Whether an event may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may.
    Passes,
    /// Its sender is not known, and has not been told so before.
    NewStranger,
    /// It may not, and nobody is told.
    Refused,
}

/// Who may send events through a connection.
#[derive(Debug)]
pub(crate) struct Senders {
    folder: PathBuf,
    allow: Option<Allow>,
    /// Without `allow` nobody gets in unasked.
    is_guarded: bool,
    pending: Mutex<Vec<Pending>>,
}

impl Senders {
    pub(crate) fn open(
        folder: &Path,
        allow: Option<Allow>,
        is_guarded: bool,
    ) -> io::Result<Senders> {
        let pending = Mutex::new(pending(folder)?);
        Ok(Senders {
            folder: folder.to_owned(),
            allow,
            is_guarded,
            pending,
        })
    }

    /// Whether `event` may pass. A stranger is written down.
    pub(crate) fn admit(&self, event: &Event, now: DateTime<Utc>) -> io::Result<Admission> {
        let allow = self.allow.as_ref().filter(|allow| allow.is_about_senders());
        if let Some(channels) = allow.and_then(|allow| allow.channels.as_ref())
            && !event
                .channel
                .as_ref()
                .is_some_and(|channel| channels.contains(channel))
        {
            return Ok(Admission::Refused);
        }
        let id = event.sender.as_ref().map_or("", |sender| &sender.id);
        let is_allowed = match allow {
            None => !self.is_guarded,
            Some(allow) => {
                allow.lets_everybody_in()
                    || allow
                        .senders
                        .as_ref()
                        .is_some_and(|senders| senders.contains(id))
            }
        };
        if is_allowed || (!id.is_empty() && approved(&self.folder)?.contains(&id.to_owned())) {
            return Ok(Admission::Passes);
        }
        event
            .sender
            .as_ref()
            .map_or(Ok(Admission::Refused), |sender| self.note(sender, now))
    }

    fn note(&self, sender: &Sender, now: DateTime<Utc>) -> io::Result<Admission> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MOST_PENDING {
            let approved = approved(&self.folder)?;
            pending.retain(|stranger| !approved.contains(&stranger.id));
        }
        if pending.len() >= MOST_PENDING || pending.iter().any(|known| known.id == sender.id) {
            return Ok(Admission::Refused);
        }
        let name = sender.name.chars().take(LONGEST_NAME).collect();
        pending.push(Pending {
            id: sender.id.clone(),
            name,
            since: now,
        });
        private::replace_durably(&self.folder.join(PENDING), &serde_json::to_vec(&*pending)?)?;
        Ok(Admission::NewStranger)
    }
}

/// The strangers that are written down in a folder.
pub(crate) fn pending(folder: &Path) -> io::Result<Vec<Pending>> {
    match std::fs::read(folder.join(PENDING)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whom somebody has let in.
pub(crate) fn approved(folder: &Path) -> io::Result<Vec<String>> {
    match std::fs::read_to_string(folder.join(APPROVED)) {
        // A line that is being written is none yet.
        Ok(text) => Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Lets a sender in; false where that was so already.
pub(crate) fn approve(folder: &Path, sender: &str) -> io::Result<bool> {
    let known: BTreeSet<String> = approved(folder)?.into_iter().collect();
    if known.contains(sender) {
        return Ok(false);
    }
    let mut file = private::options()
        .append(true)
        .create(true)
        .open(folder.join(APPROVED))?;
    file.write_all(format!("{}\n", serde_json::Value::from(sender)).as_bytes())?;
    file.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sender: &str, channel: &str) -> Event {
        let sender = Sender {
            id: sender.to_owned(),
            name: "x".repeat(200),
        };
        Event {
            sender: Some(sender),
            channel: Some(channel.to_owned()),
            ..Event::default()
        }
    }

    fn ids(ids: &[&str]) -> Option<BTreeSet<String>> {
        Some(ids.iter().map(|id| (*id).to_owned()).collect())
    }

    #[test]
    fn strangers_wait_until_somebody_lets_them_in() {
        let folder = tempfile::tempdir().unwrap();
        let now = DateTime::UNIX_EPOCH;
        let senders = Senders::open(folder.path(), None, true).unwrap();
        assert_eq!(
            senders.admit(&event("7", "c"), now).unwrap(),
            Admission::NewStranger
        );
        assert_eq!(
            senders.admit(&event("7", "c"), now).unwrap(),
            Admission::Refused,
            "told once"
        );
        assert_eq!(pending(folder.path()).unwrap()[0].name.len(), LONGEST_NAME);
        assert!(approve(folder.path(), "7").unwrap() && !approve(folder.path(), "7").unwrap());
        assert_eq!(
            senders.admit(&event("7", "c"), now).unwrap(),
            Admission::Passes
        );
        for number in 0..2 * MOST_PENDING {
            senders
                .admit(&event(&format!("s{number}"), "c"), now)
                .unwrap();
        }
        assert_eq!(pending(folder.path()).unwrap().len(), MOST_PENDING);
        let again = Senders::open(folder.path(), None, true).unwrap();
        assert_eq!(
            again.admit(&event("s3", "c"), now).unwrap(),
            Admission::Refused,
            "told once, also after a restart"
        );
    }

    #[test]
    fn senders_and_channels_must_both_fit() {
        let folder = tempfile::tempdir().unwrap();
        let admit = |allow: Option<Allow>, sender: &str, channel: &str| {
            let senders = Senders::open(folder.path(), allow, false).unwrap();
            senders
                .admit(&event(sender, channel), DateTime::UNIX_EPOCH)
                .unwrap()
                == Admission::Passes
        };
        assert!(admit(None, "1", "c"));
        let both = || {
            Some(Allow {
                senders: ids(&["1"]),
                channels: ids(&["c"]),
                ..Allow::default()
            })
        };
        assert!(admit(both(), "1", "c") && !admit(both(), "1", "d") && !admit(both(), "2", "c"));
        let channel = || {
            Some(Allow {
                senders: None,
                channels: ids(&["c"]),
                ..Allow::default()
            })
        };
        assert!(admit(channel(), "2", "c") && !admit(channel(), "2", "d"));
        assert!(admit(
            Some(Allow {
                senders: ids(&["*"]),
                channels: None,
                ..Allow::default()
            }),
            "9",
            "d"
        ));
        let approvers = Allow {
            approvers: ids(&["1"]).unwrap(),
            ..Allow::default()
        };
        let senders = Senders::open(folder.path(), Some(approvers), true).unwrap();
        let admitted = senders
            .admit(&event("9", "d"), DateTime::UNIX_EPOCH)
            .unwrap();
        assert_ne!(admitted, Admission::Passes, "approvers let nobody in");
    }
}
