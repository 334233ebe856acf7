//! Where a connection keeps its state: a folder of the workspace, which other commands may look into.

use std::io;
use std::path::{Path, PathBuf};

use goondan::inside::private;

use crate::outbox::{Book, Reply, ReplyState};
use crate::senders::{self, Pending};
use crate::status::Status;

/// The folder of the workspace with a folder for each connection.
const FOLDER: &str = "connections";

/// The folder of a connection.
#[derive(Debug, Clone)]
pub struct Shelf {
    folder: PathBuf,
}

/// What another command sees of a connection.
#[derive(Debug)]
pub struct Look {
    /// How it does, as it was last written down; `None` where it never ran.
    pub status: Option<Status>,
    /// Senders that wait to be let in.
    pub pending: Vec<Pending>,
    /// Senders that were let in.
    pub approved: Vec<String>,
    /// How many answers are owed.
    pub owed: usize,
    /// Answers that did not arrive, oldest first.
    pub failed: Vec<Reply>,
}

impl Shelf {
    /// That of the connection `name` in a workspace.
    pub fn of(workspace: &Path, name: &str) -> Shelf {
        Shelf {
            folder: workspace.join(FOLDER).join(file_name(name)),
        }
    }

    pub(crate) fn prepare(&self) -> io::Result<&Path> {
        private::make_folder(&self.folder)?;
        Ok(&self.folder)
    }

    /// Looks at what is there. A connection that runs may write meanwhile.
    pub fn look(&self) -> io::Result<Look> {
        let book = Book::read(&self.folder)?;
        let failed = book
            .replies()
            .filter(|reply| reply.state == ReplyState::Failed)
            .cloned()
            .collect();
        let owed = book
            .replies()
            .filter(|reply| matches!(reply.state, ReplyState::Accepted | ReplyState::Sending));
        let approved = senders::approved(&self.folder)?;
        let mut pending = senders::pending(&self.folder)?;
        pending.retain(|sender| !approved.contains(&sender.id));
        Ok(Look {
            status: Status::read(&self.folder),
            owed: owed.count(),
            failed,
            pending,
            approved,
        })
    }

    /// Lets a sender in from now on, also where the connection runs in another process. False where that was so already.
    pub fn approve(&self, sender: &str) -> io::Result<bool> {
        self.prepare()?;
        senders::approve(&self.folder, sender)
    }
}

/// The name of a connection as a file's, reversible and the same everywhere.
fn file_name(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02x}")
            }
        })
        .collect()
}
