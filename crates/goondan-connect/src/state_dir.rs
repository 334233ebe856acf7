//! State directory of a connection in the workspace, which other commands can read.

use std::io;
use std::path::{Path, PathBuf};

use goondan::internal::private_files;

use crate::allowed_senders::{self, PendingSender};
use crate::outbox::{OutboxReplies, OutboxReply, ReplyState};
use crate::status::ConnectionStatus;

/// Directory in the workspace that contains the state directories.
const CONNECTIONS_DIR: &str = "connections";

/// State directory of a connection.
#[derive(Debug, Clone)]
pub struct ConnectionStateDir {
    folder: PathBuf,
}

/// State of a connection, as other commands see it.
#[derive(Debug)]
pub struct ConnectionSnapshot {
    /// Last written status; `None` if the connection has never run.
    pub status: Option<ConnectionStatus>,
    /// Unknown senders that wait for approval.
    pub pending: Vec<PendingSender>,
    /// Ids of approved senders.
    pub approved: Vec<String>,
    /// Number of pending answers.
    pub owed: usize,
    /// Undelivered answers, oldest first.
    pub failed: Vec<OutboxReply>,
}

impl ConnectionStateDir {
    /// Returns the state directory of the connection `name`.
    pub fn of(workspace: &Path, name: &str) -> ConnectionStateDir {
        ConnectionStateDir {
            folder: workspace.join(CONNECTIONS_DIR).join(file_name(name)),
        }
    }

    /// Creates the directory and returns its path.
    pub(crate) fn prepare(&self) -> io::Result<&Path> {
        private_files::create_directory(&self.folder)?;
        Ok(&self.folder)
    }

    /// Reads the current state. A running connection may write at the same time.
    pub fn look(&self) -> io::Result<ConnectionSnapshot> {
        let replies = OutboxReplies::read(&self.folder)?;
        let failed = replies
            .replies()
            .filter(|reply| reply.state == ReplyState::Failed)
            .cloned()
            .collect();
        let owed = replies
            .replies()
            .filter(|reply| matches!(reply.state, ReplyState::Accepted | ReplyState::Sending));
        let approved = allowed_senders::read_approved(&self.folder)?;
        let mut pending = allowed_senders::read_pending(&self.folder)?;
        pending.retain(|sender| !approved.contains(&sender.id));
        Ok(ConnectionSnapshot {
            status: ConnectionStatus::read(&self.folder),
            owed: owed.count(),
            failed,
            pending,
            approved,
        })
    }

    /// Approves a sender; takes effect immediately in a running connection. Returns false if the
    /// sender was already approved.
    pub fn approve(&self, sender: &str) -> io::Result<bool> {
        self.prepare()?;
        allowed_senders::approve(&self.folder, sender)
    }
}

/// Returns the file name of a connection: reversible and the same on all systems.
fn file_name(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.bytes()
        .map(|byte| {
            if is_plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02x}")
            }
        })
        .collect()
}
