//! The state of swarms on disk, for looking at it while nothing runs.

use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use goondan_runtime::event::RuntimeEvent;
use goondan_runtime::ids::InstanceId;
use goondan_runtime::message::Message;

/// The folder that holds all workspaces: `--state-root` > `GOONDAN_STATE_ROOT` > `~/.goondan` (rule C3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRoot(pub PathBuf);

impl StateRoot {
    /// `explicit`, or what the environment says.
    pub fn find(_explicit: Option<&Path>) -> StateRoot {
        unimplemented!()
    }

    /// All workspaces, sorted by id.
    pub fn workspaces(&self) -> io::Result<Vec<Workspace>> {
        unimplemented!()
    }

    /// The workspace of a swarm with that instance key; it need not exist yet.
    pub fn workspace(&self, _swarm_instance_key: &str) -> Workspace {
        unimplemented!()
    }
}

/// One swarm's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its id.
    pub id: String,
    /// Its folder.
    pub dir: PathBuf,
}

/// An instance as it lies on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceSummary {
    /// Who it is.
    pub id: InstanceId,
    /// `idle`, or `processing` where a turn runs or was cut off.
    pub status: String,
    /// When its first event came.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
    /// How many messages its conversation holds.
    pub messages: usize,
}

impl Workspace {
    /// All instances, sorted by last change, newest first.
    pub fn instances(&self) -> io::Result<Vec<InstanceSummary>> {
        unimplemented!()
    }

    /// Base and events, folded; with warnings about lines that could not be read.
    pub fn conversation(&self, _id: &InstanceId) -> io::Result<(Vec<Message>, Vec<String>)> {
        unimplemented!()
    }

    /// The runtime events of an instance, oldest first.
    pub fn runtime_events(&self, _id: &InstanceId) -> io::Result<Vec<RuntimeEvent>> {
        unimplemented!()
    }

    /// Where they lie, for those who follow the file.
    pub fn runtime_events_path(&self, _id: &InstanceId) -> PathBuf {
        unimplemented!()
    }

    /// Deletes everything of an instance; false where there is none.
    pub fn delete(&self, _id: &InstanceId) -> io::Result<bool> {
        unimplemented!()
    }
}
