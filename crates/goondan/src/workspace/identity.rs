//! Workspace of each project and swarm, the owner of a workspace, and state in other workspaces
//! (rule C3).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use goondan_core::ids::hex;
use goondan_core::ports::store::StoreError;
use goondan_core::private_files;
use goondan_spec::kinds::Swarm;
use goondan_spec::{Bundle, Resource};
use goondan_store::jsonl::{JsonlStore, OpenWorkspaceError, layout};
use goondan_store_postgres::PostgresOpenError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::start::project;
use crate::workspace::{StateRoot, Workspace};

/// File name in a workspace.
const OWNER_FILE: &str = "project.json";
/// Number of hash bytes in a workspace ID, enough to avoid collisions on one machine.
const WORKSPACE_HASH_BYTES: usize = 6;
/// Maximum length of the name part of an ID. The hash identifies the project; the name is for
/// readers.
const MAX_WORKSPACE_NAME_CHARS: usize = 64;

/// Project that a workspace belongs to, as recorded in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceOwner {
    /// Name of its Package, or of its directory.
    pub name: String,
    /// Project directory, without symbolic links.
    #[serde(with = "goondan_core::path_json")]
    pub path: PathBuf,
    /// Name of the Swarm resource.
    pub swarm: String,
    /// Identity of the project directory, which a new name does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_id: Option<String>,
    /// Time of the record.
    pub created_at: DateTime<Utc>,
}

/// State that a project may have had earlier and does not use now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StaleState {
    /// Workspace of an earlier version, shared by all swarms with this name.
    Shared(Workspace),
    /// Workspace of a project that no longer exists at its path: it had this name, or it was this
    /// directory under another name.
    Moved(Workspace, WorkspaceOwner),
    /// Workspace of this project under an earlier project name, swarm name or instance key.
    Renamed(Workspace),
}

/// Reason why a workspace cannot be adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The project that owns the workspace still exists.
    #[error("the workspace {} belongs to the project in {}", .0.id, .1.path.display())]
    Owned(Workspace, WorkspaceOwner),
    /// The workspace already belongs to the project's swarm.
    #[error("the workspace {} already belongs to this project", .0.id)]
    Own(Workspace),
    /// The database does not contain the workspace, or the workspace is empty.
    #[error("the database has no workspace {}, or the workspace is empty", .0.id)]
    Nothing(Workspace),
    /// A running swarm holds one of the workspaces, or one is unusable.
    #[error(transparent)]
    Workspace(#[from] OpenWorkspaceError),
    /// A node holds one of the workspaces in the database, or the database is unusable.
    #[error(transparent)]
    Held(#[from] PostgresOpenError),
    /// The database failed and nothing changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A directory could not be renamed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl WorkspaceOwner {
    /// Returns the project that `swarm` belongs to.
    pub fn of(bundle: &Bundle, swarm: &Resource<Swarm>) -> WorkspaceOwner {
        let path = canonical(bundle.root());
        let folder = || {
            path.file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        let name = bundle
            .package()
            .map(|package| package.id.name.clone())
            .or_else(folder)
            .unwrap_or_default();
        WorkspaceOwner {
            name,
            directory_id: directory_id(&path),
            path,
            swarm: swarm.id.name.clone(),
            created_at: Utc::now(),
        }
    }

    /// Returns the ID of the default workspace: a readable name and a hash of the directory and the
    /// swarm.
    fn workspace_id(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.path.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(&self.swarm);
        let hash = hex(&hash.finalize()[..WORKSPACE_HASH_BYTES]);
        let mut name = layout::workspace_id(&self.name);
        name.truncate(MAX_WORKSPACE_NAME_CHARS);
        format!("{name}-{hash}")
    }

    /// Returns true if the projects have the same name or are the same directory, and use the same
    /// swarm.
    fn may_be(&self, other: &WorkspaceOwner) -> bool {
        let is_same_directory =
            self.directory_id.is_some() && self.directory_id == other.directory_id;
        (self.name == other.name || is_same_directory) && self.swarm == other.swarm
    }

    /// Returns true if the project still exists at its path.
    pub fn exists(&self) -> bool {
        project::manifest_in(&self.path).is_some()
    }
}

impl StateRoot {
    /// Returns the workspace of a project's swarm, which may not exist yet. Every project has its
    /// own, unless its Swarm sets `instanceKey`.
    pub fn workspace_of(&self, bundle: &Bundle, swarm: &Resource<Swarm>) -> Workspace {
        match &swarm.spec.instance_key {
            Some(stated) => self.workspace(stated),
            None => self.workspace(&WorkspaceOwner::of(bundle, swarm).workspace_id()),
        }
    }

    /// Returns the workspace for a start. Fails with the owner if another project created the
    /// workspace by setting its name: its content cannot be trusted.
    pub(crate) fn workspace_to_run(
        &self,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> io::Result<Result<Workspace, WorkspaceOwner>> {
        let (workspace, project) = (
            self.workspace_of(bundle, swarm),
            WorkspaceOwner::of(bundle, swarm),
        );
        let other_owner = workspace
            .owner()?
            .filter(|owner| swarm.spec.instance_key.is_none() && owner.path != project.path);
        Ok(other_owner.map_or(Ok(workspace), Err))
    }

    /// Returns the workspaces of the project in the directory `root`: those that its swarms use,
    /// which may not exist yet, and those that record it as their owner.
    pub fn workspaces_of(&self, root: &Path) -> io::Result<Vec<Workspace>> {
        let bundle = project::load(root).bundle;
        let swarms = bundle
            .iter()
            .flat_map(|bundle| bundle.swarms().values().map(move |swarm| (bundle, swarm)));
        let root = canonical(root);
        // A project can set the name of a workspace that another project created.
        let is_not_foreign = |workspace: &Workspace| {
            workspace
                .owner()
                .ok()
                .flatten()
                .is_none_or(|owner| owner.path == root)
        };
        let used_workspaces = swarms.map(|(bundle, swarm)| self.workspace_of(bundle, swarm));
        let mut workspaces: Vec<Workspace> = used_workspaces.filter(is_not_foreign).collect();
        let names_project_as_owner = |workspace: &Workspace| {
            workspace
                .owner()
                .ok()
                .flatten()
                .is_some_and(|owner| owner.path == root)
        };
        workspaces.extend(
            self.workspaces()?
                .into_iter()
                .filter(names_project_as_owner),
        );
        workspaces.sort_by(|a, b| a.id.cmp(&b.id));
        workspaces.dedup();
        Ok(workspaces)
    }

    /// Returns state that the project may have had earlier: under its swarm's name only, in another
    /// directory, or under other names. Returns nothing for a Swarm that sets `instanceKey`.
    pub fn stale_state(
        &self,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> io::Result<Vec<StaleState>> {
        if swarm.spec.instance_key.is_some() {
            return Ok(Vec::new());
        }
        let (project, shared_workspace) = (
            WorkspaceOwner::of(bundle, swarm),
            self.workspace(&swarm.id.name),
        );
        let current_workspaces: Vec<Workspace> = bundle
            .swarms()
            .values()
            .map(|swarm| self.workspace_of(bundle, swarm))
            .collect();
        let mut stale = Vec::new();
        for workspace in self
            .workspaces()?
            .into_iter()
            .filter(|workspace| !current_workspaces.contains(workspace))
        {
            match workspace.owner()? {
                None if workspace == shared_workspace => stale.push(StaleState::Shared(workspace)),
                Some(owner) if owner.path == project.path => {
                    stale.push(StaleState::Renamed(workspace))
                }
                Some(owner) if owner.may_be(&project) && !owner.exists() => {
                    stale.push(StaleState::Moved(workspace, owner));
                }
                _ => {}
            }
        }
        Ok(stale)
    }

    /// Returns the workspace of a project's swarm if it may adopt `from`.
    pub(crate) fn adopter_of(
        &self,
        from: &Workspace,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> Result<Workspace, AdoptError> {
        let (project, own_workspace) = (
            WorkspaceOwner::of(bundle, swarm),
            self.workspace_of(bundle, swarm),
        );
        if *from == own_workspace {
            return Err(AdoptError::Own(own_workspace));
        }
        match from
            .owner()?
            .filter(|owner| owner.path != project.path && owner.exists())
        {
            Some(owner) => Err(AdoptError::Owned(from.clone(), owner)),
            None => Ok(own_workspace),
        }
    }

    /// Makes `from` the workspace of a project's swarm. Renames the current workspace of that
    /// swarm, if any, and returns it.
    pub fn adopt(
        &self,
        from: &Workspace,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> Result<Option<Workspace>, AdoptError> {
        let (project, own_workspace) = (
            WorkspaceOwner::of(bundle, swarm),
            self.adopter_of(from, bundle, swarm)?,
        );
        // Opened to verify that no swarm runs in them, then closed, because some platforms cannot
        // rename open directories.
        drop(JsonlStore::open(&from.dir)?);
        let previous_workspace = own_workspace
            .dir
            .exists()
            .then(|| self.free_workspace(&own_workspace));
        if let Some(previous_workspace) = &previous_workspace {
            drop(JsonlStore::open(&own_workspace.dir)?);
            fs::rename(&own_workspace.dir, &previous_workspace.dir)?;
            // Its ID still shows the project. Without an owner, it does not count as one of the
            // project's workspaces.
            previous_workspace.disown()?;
        }
        fs::rename(&from.dir, &own_workspace.dir)?;
        own_workspace.write_owner(&project)?;
        Ok(previous_workspace)
    }

    /// Returns a new workspace with a name derived from `workspace`.
    fn free_workspace(&self, workspace: &Workspace) -> Workspace {
        let numbered_workspace =
            |number: usize| self.workspace(&format!("{}-aside-{number}", workspace.id));
        (1..)
            .map(numbered_workspace)
            .find(|candidate| !candidate.dir.exists())
            .expect("numbers do not end")
    }
}

impl StaleState {
    /// Returns the workspace that contains the state.
    pub fn workspace(&self) -> &Workspace {
        match self {
            StaleState::Shared(workspace)
            | StaleState::Moved(workspace, _)
            | StaleState::Renamed(workspace) => workspace,
        }
    }
}

impl Workspace {
    /// Returns the project that the workspace belongs to. Returns `None` if no owner is recorded
    /// (an import or an earlier version created the workspace), or if a power failure damaged the
    /// record.
    pub fn owner(&self) -> io::Result<Option<WorkspaceOwner>> {
        match fs::read(self.dir.join(OWNER_FILE)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Records the owner, unless another existing project owns the workspace.
    pub(crate) fn claim(&self, owner: &WorkspaceOwner) -> io::Result<()> {
        match self.owner()? {
            Some(recorded) if recorded.path == owner.path => {
                match recorded.directory_id == owner.directory_id {
                    true => Ok(()),
                    false => self.write_owner(&WorkspaceOwner {
                        directory_id: owner.directory_id.clone(),
                        ..recorded
                    }),
                }
            }
            Some(recorded) if recorded.exists() => Ok(()),
            _ => self.write_owner(owner),
        }
    }

    /// Deletes the record of the owner, if there is one. No swarm may use the workspace.
    pub fn disown(&self) -> io::Result<()> {
        match fs::remove_file(self.dir.join(OWNER_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Records the owner of the workspace.
    fn write_owner(&self, owner: &WorkspaceOwner) -> io::Result<()> {
        private_files::replace(
            &self.dir.join(OWNER_FILE),
            &serde_json::to_vec_pretty(owner)?,
        )
    }
}

/// Returns the identity of a directory: its inode, and its time of creation, because a new directory
/// may reuse the inode of a deleted one. Returns `None` if the file system stores no such time.
#[cfg(unix)]
fn directory_id(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(path).ok()?;
    let created = DateTime::<Utc>::from(metadata.created().ok()?);
    Some(format!(
        "{:x}-{:x}",
        metadata.ino(),
        created.timestamp_micros()
    ))
}

/// Returns `None`: this operating system gives directories no stable id.
#[cfg(not(unix))]
fn directory_id(_path: &Path) -> Option<String> {
    None
}

/// Returns `path` without symbolic links, or as an absolute path if it does not exist.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize()
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, path: &str, swarm: &str) -> WorkspaceOwner {
        WorkspaceOwner {
            name: name.to_owned(),
            path: path.into(),
            swarm: swarm.to_owned(),
            directory_id: None,
            created_at: Utc::now(),
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_renamed_directory_keeps_its_id_and_a_new_directory_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("shop"), dir.path().join("shop2"));
        fs::create_dir(&old).unwrap();
        let before = directory_id(&old);
        fs::rename(&old, &new).unwrap();
        assert_eq!(directory_id(&new), before);
        fs::create_dir(&old).unwrap();
        assert!(before.is_none() || directory_id(&old) != before);
        let owner = |name: &str, directory_id: Option<&str>| WorkspaceOwner {
            directory_id: directory_id.map(str::to_owned),
            ..owner(name, "/p", "default")
        };
        assert!(owner("a", Some("1")).may_be(&owner("b", Some("1"))));
        assert!(!owner("a", None).may_be(&owner("b", None)));
        assert!(owner("a", Some("1")).may_be(&owner("a", Some("2"))));
    }

    #[test]
    fn workspace_ids_differ_by_directory_and_swarm() {
        let id = owner("@acme/News Room", "/a/b", "default").workspace_id();
        assert!(
            id.starts_with("acme-news-room-")
                && id.len() == "acme-news-room-".len() + 2 * WORKSPACE_HASH_BYTES,
            "{id}"
        );
        assert_eq!(
            layout::workspace_id(&id),
            id,
            "an id is a valid workspace key without changes"
        );
        for other in [
            ("x", "/a/c", "default"),
            ("x", "/a/b", "other"),
            ("x", "/a", "b\0default"),
        ] {
            let (first, second) = (
                owner("x", "/a/b", "default"),
                owner(other.0, other.1, other.2),
            );
            assert_ne!(first.workspace_id(), second.workspace_id(), "{other:?}");
        }
        assert!(owner(&"long".repeat(80), "/", "s").workspace_id().len() < 100);
    }
}
