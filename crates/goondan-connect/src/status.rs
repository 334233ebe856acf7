//! Status of a connection, for other commands.

use std::path::Path;

use chrono::{DateTime, Utc};
use goondan::internal::private_files;
use serde::{Deserialize, Serialize};

const STATUS_FILE: &str = "status.json";

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionState {
    /// It accepts events.
    Running,
    /// It failed and will be restarted.
    Failing,
    /// It cannot run with its configuration or in this environment.
    Unusable,
    /// It was stopped.
    Stopped,
}

/// State of a connection with its start time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// State.
    pub state: ConnectionState,
    /// Start of the state.
    pub since: DateTime<Utc>,
    /// Reason for not running.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

impl ConnectionStatus {
    /// Reads the status file; `None` if it is missing or unreadable.
    pub(crate) fn read(folder: &Path) -> Option<ConnectionStatus> {
        serde_json::from_slice(&std::fs::read(folder.join(STATUS_FILE)).ok()?).ok()
    }

    /// Writes the status. It is only informational, so a failure is only logged.
    pub(crate) fn write(&self, folder: &Path) {
        let text = serde_json::to_vec(self).expect("a status is valid JSON");
        if let Err(error) = private_files::replace(&folder.join(STATUS_FILE), &text) {
            tracing::debug!(%error, "could not write the status file of a connection");
        }
    }
}
