//! Record of the last generation, stored in the workspace. `gdn reload` compares edits with it, and
//! other processes use it to find the running process.

use std::fs;
use std::io;
use std::path::PathBuf;

use goondan_core::private_files;
use goondan_spec::{BundleSnapshot, ReloadPlan, ResourceId, SnapshotBasis};
use goondan_store::jsonl::holder_of;
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

/// File name in a workspace.
const GENERATION_FILE: &str = "generation.json";

/// Last generation of a swarm. It contains only hashes of the bundle and no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastGeneration {
    /// Version of the program that wrote the record. Hashes can differ between versions.
    pub version: String,
    /// Generation number.
    pub generation: u64,
    /// Name of the Swarm resource.
    pub swarm: String,
    /// Project directory.
    #[serde(with = "goondan_core::path_json")]
    pub root: PathBuf,
    /// ID of the process that runs or ran the swarm.
    pub process: u32,
    /// True if that process reloads on SIGHUP.
    pub reloads_at_hangup: bool,
    /// Outcome of the last reload; `None` before the first one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_reload: Option<LastReload>,
    /// Hashes of the bundle.
    pub snapshot: BundleSnapshot,
}

/// Outcome of a reload, for other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastReload {
    /// Number of the reload in this run, from 1.
    pub number: u64,
    /// True if a new generation serves.
    pub ok: bool,
    /// Changes.
    pub plan: ReloadPlan,
    /// Errors of the project, one line each.
    pub messages: Vec<String>,
    /// Duration in milliseconds.
    pub duration_ms: u64,
}

impl LastGeneration {
    /// Returns true if this version of the program wrote the record, so that its hashes are
    /// comparable.
    pub fn is_comparable(&self) -> bool {
        self.version == env!("CARGO_PKG_VERSION")
    }

    /// Replaces the record.
    fn write(&self, workspace: &Workspace) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        private_files::replace(&workspace.dir.join(GENERATION_FILE), &text)
    }
}

/// Writer of the generation records of a running swarm.
#[derive(Debug, Clone)]
pub(crate) struct GenerationRecorder {
    pub(crate) swarm: ResourceId,
    pub(crate) root: PathBuf,
    pub(crate) workspace: Workspace,
    pub(crate) reloads_at_hangup: bool,
}

impl GenerationRecorder {
    /// Records that generation `generation`, made from `basis`, is running. Blocks.
    pub(crate) fn write(
        &self,
        generation: u64,
        basis: &SnapshotBasis,
        last_reload: Option<LastReload>,
    ) {
        let record = LastGeneration {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            generation,
            swarm: self.swarm.name.clone(),
            root: std::path::absolute(&self.root).unwrap_or_else(|_| self.root.clone()),
            process: std::process::id(),
            reloads_at_hangup: self.reloads_at_hangup,
            last_reload,
            snapshot: basis.without_values(&self.swarm),
        };
        if let Err(error) = record.write(&self.workspace) {
            tracing::warn!(%error, "failed to record the running configuration; `gdn reload` \
                can't compare with it");
        }
    }
}

impl Workspace {
    /// Returns the process that runs a swarm in the workspace: `Some(None)` if its ID is unknown,
    /// `None` if there is no process.
    pub fn running_process(&self) -> io::Result<Option<Option<u32>>> {
        holder_of(&self.dir)
    }

    /// Returns the record of the current or last generation; `None` if no swarm has run here.
    pub fn last_generation(&self) -> io::Result<Option<LastGeneration>> {
        match fs::read(self.dir.join(GENERATION_FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
