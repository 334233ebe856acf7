//! What a workspace's swarm was made from when it last changed, written down beside its state: `gdn reload` compares edits
//! with it, and other processes find out who runs.

use std::fs;
use std::io;
use std::path::PathBuf;

use goondan_core::private;
use goondan_spec::{Basis, ReloadPlan, ResourceId, Snapshot};
use goondan_store::jsonl::holder_of;
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

/// Its name in a workspace.
const FILE: &str = "generation.json";

/// The last generation of a swarm. Holds no secret: of the bundle there are only hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastGeneration {
    /// The version of the program that wrote it; another one may hash in another way.
    pub version: String,
    /// The number of the generation.
    pub generation: u64,
    /// The Swarm resource.
    pub swarm: String,
    /// The project folder.
    pub root: PathBuf,
    /// The process that runs the swarm, or ran it.
    pub process: u32,
    /// Whether that process reloads at SIGHUP.
    pub reloads_at_hangup: bool,
    /// What came of the last reload; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_reload: Option<LastReload>,
    /// What the bundle amounts to.
    pub snapshot: Snapshot,
}

/// A reload, as it is told to other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastReload {
    /// Reloads are counted from 1 in each run.
    pub number: u64,
    /// A new generation serves.
    pub ok: bool,
    /// What has changed.
    pub plan: ReloadPlan,
    /// What is wrong with the project, one line each.
    pub messages: Vec<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl LastGeneration {
    /// Whether it was written by this version of the program, so that its hashes mean something.
    pub fn is_comparable(&self) -> bool {
        self.version == env!("CARGO_PKG_VERSION")
    }

    /// Puts it in place of the one before.
    fn write(&self, workspace: &Workspace) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        private::replace(&workspace.dir.join(FILE), &text)
    }
}

/// Writes down the generations of one running swarm.
#[derive(Debug, Clone)]
pub(crate) struct Notebook {
    pub(crate) swarm: ResourceId,
    pub(crate) root: PathBuf,
    pub(crate) workspace: Workspace,
    pub(crate) reloads_at_hangup: bool,
}

impl Notebook {
    /// That generation `generation` runs, which is made from `basis`. Blocks.
    pub(crate) fn write(&self, generation: u64, basis: &Basis, last_reload: Option<LastReload>) {
        let last = LastGeneration {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            generation,
            swarm: self.swarm.name.clone(),
            root: std::path::absolute(&self.root).unwrap_or_else(|_| self.root.clone()),
            process: std::process::id(),
            reloads_at_hangup: self.reloads_at_hangup,
            last_reload,
            snapshot: basis.without_values(&self.swarm),
        };
        if let Err(error) = last.write(&self.workspace) {
            tracing::warn!(%error, "what runs now was not written down; `gdn reload` can't tell");
        }
    }
}

impl Workspace {
    /// The process that runs a swarm in it; `Some(None)` where its number is not known, `None` where nobody does.
    pub fn running_process(&self) -> io::Result<Option<Option<u32>>> {
        holder_of(&self.dir)
    }

    /// The generation that runs in it or ran there last; `None` where nothing ever ran.
    pub fn last_generation(&self) -> io::Result<Option<LastGeneration>> {
        match fs::read(self.dir.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
