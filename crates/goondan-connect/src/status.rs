//! How a connection does, for other commands.

use std::path::Path;

use chrono::{DateTime, Utc};
use goondan::inside::private;
use serde::{Deserialize, Serialize};

/// Its name in the folder of a connection.
const FILE: &str = "status.json";

/// How a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It takes events.
    Running,
    /// It has failed, and starts again after a while.
    Failing,
    /// It can't run as it is configured, or here.
    Unusable,
    /// It was ended.
    Stopped,
}

/// How a connection does, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// How it does.
    pub state: State,
    /// Since when.
    pub since: DateTime<Utc>,
    /// Why it does not run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

impl Status {
    pub(crate) fn read(folder: &Path) -> Option<Status> {
        serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// For people: that it can't be written is no reason to stop.
    pub(crate) fn write(&self, folder: &Path) {
        let text = serde_json::to_vec(self).expect("a status is made of texts");
        if let Err(error) = private::replace(&folder.join(FILE), &text) {
            tracing::debug!(%error, "the state of a connection was not written down");
        }
    }
}
