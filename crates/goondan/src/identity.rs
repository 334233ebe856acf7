//! Which workspace a project's swarm has, which project a workspace belongs to, and state that lies elsewhere (rule C3).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use goondan_core::ids::hex;
use goondan_core::ports::store::StoreError;
use goondan_core::private;
use goondan_spec::kinds::Swarm;
use goondan_spec::{Bundle, Resource};
use goondan_store::jsonl::{JsonlStore, OpenWorkspaceError, layout};
use goondan_store_postgres::OpenError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::project;
use crate::workspace::{StateRoot, Workspace};

/// Its name in a workspace.
const FILE: &str = "project.json";
/// So many bytes of the hash are in an id: enough that two folders of one machine never meet.
const HASH_BYTES: usize = 6;
/// A longer name is cut: the hash tells projects apart, the name is for people.
const LONGEST_NAME: usize = 64;

/// The project that a workspace belongs to, as it is written down there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// The name of its Package, else of its folder.
    pub name: String,
    /// Its folder, without symbolic links.
    pub path: PathBuf,
    /// The Swarm resource.
    pub swarm: String,
    /// When that was written down.
    pub created_at: DateTime<Utc>,
}

/// State that a project may have had before and that it does not use now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elsewhere {
    /// An earlier version of the program kept the state of all swarms of that name there.
    Shared(Workspace),
    /// The project of that name stood in another folder, and is there no more.
    Moved(Workspace, Owner),
    /// The project, or its swarm, had another name then, or stated where its state is.
    Renamed(Workspace),
}

/// Why state could not be adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The project that the state belongs to is still there.
    #[error("the workspace {} belongs to the project in {}", .0.id, .1.path.display())]
    Owned(Workspace, Owner),
    /// It is the project's own already.
    #[error("the workspace {} is the project's own", .0.id)]
    Own(Workspace),
    /// There is none of that name in the database, or nothing is in it.
    #[error("the database has nothing of a workspace {}", .0.id)]
    Nothing(Workspace),
    /// A running swarm holds one of the two, or it can't be used.
    #[error(transparent)]
    Workspace(#[from] OpenWorkspaceError),
    /// The same, where both are in a database.
    #[error(transparent)]
    Held(#[from] OpenError),
    /// The database has failed: nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A folder can't be renamed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Owner {
    /// The project that `swarm` is run from.
    pub fn of(bundle: &Bundle, swarm: &Resource<Swarm>) -> Owner {
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
        Owner {
            name,
            path,
            swarm: swarm.id.name.clone(),
            created_at: Utc::now(),
        }
    }

    /// The id of the workspace of its own: a name for people, and what no other folder or swarm has.
    fn workspace_id(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.path.as_os_str().as_encoded_bytes());
        hash.update([0]);
        hash.update(&self.swarm);
        let hash = hex(&hash.finalize()[..HASH_BYTES]);
        let mut name = layout::workspace_id(&self.name);
        name.truncate(LONGEST_NAME);
        format!("{name}-{hash}")
    }

    /// Whether it still stands where it stood.
    pub fn is_there(&self) -> bool {
        project::manifest_in(&self.path).is_some()
    }
}

impl StateRoot {
    /// The workspace of a project's swarm; it need not exist yet. Every project has one of its own, unless its Swarm states
    /// an `instanceKey`.
    pub fn workspace_of(&self, bundle: &Bundle, swarm: &Resource<Swarm>) -> Workspace {
        match &swarm.spec.instance_key {
            Some(stated) => self.workspace(stated),
            None => self.workspace(&Owner::of(bundle, swarm).workspace_id()),
        }
    }

    /// The workspace of a project's swarm that is about to run. One that is the project's own by its path, and that another
    /// project has begun by stating its name, is refused with that project: who knows what it left there.
    pub(crate) fn workspace_to_run(
        &self,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> io::Result<Result<Workspace, Owner>> {
        let (own, me) = (self.workspace_of(bundle, swarm), Owner::of(bundle, swarm));
        let stranger = own
            .owner()?
            .filter(|owner| swarm.spec.instance_key.is_none() && owner.path != me.path);
        Ok(stranger.map_or(Ok(own), Err))
    }

    /// The workspaces of the project in the folder `root`: those that its swarms use, which need not exist yet, and those
    /// that say so themselves.
    pub fn workspaces_of(&self, root: &Path) -> io::Result<Vec<Workspace>> {
        let bundle = project::load(root).bundle;
        let swarms = bundle
            .iter()
            .flat_map(|bundle| bundle.swarms().values().map(move |swarm| (bundle, swarm)));
        let root = canonical(root);
        // A project may state the name of a workspace that another one has begun.
        let is_own = |workspace: &Workspace| {
            workspace
                .owner()
                .ok()
                .flatten()
                .is_none_or(|owner| owner.path == root)
        };
        let used = swarms.map(|(bundle, swarm)| self.workspace_of(bundle, swarm));
        let mut found: Vec<Workspace> = used.filter(is_own).collect();
        let says_so = |workspace: &Workspace| {
            workspace
                .owner()
                .ok()
                .flatten()
                .is_some_and(|owner| owner.path == root)
        };
        found.extend(self.workspaces()?.into_iter().filter(says_so));
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found.dedup();
        Ok(found)
    }

    /// State that the project may have had before: under its swarm's name alone, when it stood elsewhere, or under other names.
    /// There is none for a Swarm that states where its state is.
    pub fn elsewhere(
        &self,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> io::Result<Vec<Elsewhere>> {
        if swarm.spec.instance_key.is_some() {
            return Ok(Vec::new());
        }
        let (me, shared) = (Owner::of(bundle, swarm), self.workspace(&swarm.id.name));
        let used: Vec<Workspace> = bundle
            .swarms()
            .values()
            .map(|swarm| self.workspace_of(bundle, swarm))
            .collect();
        let mut found = Vec::new();
        for workspace in self
            .workspaces()?
            .into_iter()
            .filter(|workspace| !used.contains(workspace))
        {
            match workspace.owner()? {
                None if workspace == shared => found.push(Elsewhere::Shared(workspace)),
                Some(owner) if owner.path == me.path => found.push(Elsewhere::Renamed(workspace)),
                Some(owner)
                    if (&owner.name, &owner.swarm) == (&me.name, &me.swarm)
                        && !owner.is_there() =>
                {
                    found.push(Elsewhere::Moved(workspace, owner));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// The workspace of a project's swarm, if that may adopt `from`.
    pub(crate) fn adopter_of(
        &self,
        from: &Workspace,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> Result<Workspace, AdoptError> {
        let (me, own) = (Owner::of(bundle, swarm), self.workspace_of(bundle, swarm));
        if *from == own {
            return Err(AdoptError::Own(own));
        }
        match from
            .owner()?
            .filter(|owner| owner.path != me.path && owner.is_there())
        {
            Some(owner) => Err(AdoptError::Owned(from.clone(), owner)),
            None => Ok(own),
        }
    }

    /// Makes `from` the workspace of a project's swarm. What that has kept until now is put aside, and is given back.
    pub fn adopt(
        &self,
        from: &Workspace,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> Result<Option<Workspace>, AdoptError> {
        let (me, own) = (
            Owner::of(bundle, swarm),
            self.adopter_of(from, bundle, swarm)?,
        );
        // Opened, so that nobody runs in them, and closed again: an open folder can't be renamed everywhere.
        drop(JsonlStore::open(&from.dir)?);
        let aside = own.dir.exists().then(|| self.free_beside(&own));
        if let Some(aside) = &aside {
            drop(JsonlStore::open(&own.dir)?);
            fs::rename(&own.dir, &aside.dir)?;
            // Its id tells whose it was; the project's conversations are those that it goes on with.
            aside.disown()?;
        }
        fs::rename(&from.dir, &own.dir)?;
        own.write_owner(&me)?;
        Ok(aside)
    }

    /// A workspace that does not exist, named after `workspace`.
    fn free_beside(&self, workspace: &Workspace) -> Workspace {
        let named = |number: usize| self.workspace(&format!("{}-aside-{number}", workspace.id));
        (1..)
            .map(named)
            .find(|candidate| !candidate.dir.exists())
            .expect("numbers do not end")
    }
}

impl Elsewhere {
    /// Where it lies.
    pub fn workspace(&self) -> &Workspace {
        match self {
            Elsewhere::Shared(workspace)
            | Elsewhere::Moved(workspace, _)
            | Elsewhere::Renamed(workspace) => workspace,
        }
    }
}

impl Workspace {
    /// The project that it belongs to; `None` where an earlier version of the program made it, or an import, or where a power
    /// failure has torn the note.
    pub fn owner(&self) -> io::Result<Option<Owner>> {
        match fs::read(self.dir.join(FILE)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Notes that it belongs to that project, unless it belongs to another one that is still there.
    pub(crate) fn claim(&self, owner: &Owner) -> io::Result<()> {
        match self.owner()? {
            Some(before) if before.path == owner.path || before.is_there() => Ok(()),
            _ => self.write_owner(owner),
        }
    }

    fn disown(&self) -> io::Result<()> {
        match fs::remove_file(self.dir.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write_owner(&self, owner: &Owner) -> io::Result<()> {
        private::replace(&self.dir.join(FILE), &serde_json::to_vec_pretty(owner)?)
    }
}

/// `path` without symbolic links; absolute where it does not exist.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize()
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, path: &str, swarm: &str) -> Owner {
        Owner {
            name: name.to_owned(),
            path: path.into(),
            swarm: swarm.to_owned(),
            created_at: Utc::now(),
        }
    }

    #[test]
    fn an_id_tells_projects_folders_and_swarms_apart() {
        let id = owner("@acme/News Room", "/a/b", "default").workspace_id();
        assert!(
            id.starts_with("acme-news-room-")
                && id.len() == "acme-news-room-".len() + 2 * HASH_BYTES,
            "{id}"
        );
        assert_eq!(
            layout::workspace_id(&id),
            id,
            "an id is a key that means itself"
        );
        for other in [
            ("x", "/a/c", "default"),
            ("x", "/a/b", "other"),
            ("x", "/a", "b\0default"),
        ] {
            let (mine, theirs) = (
                owner("x", "/a/b", "default"),
                owner(other.0, other.1, other.2),
            );
            assert_ne!(mine.workspace_id(), theirs.workspace_id(), "{other:?}");
        }
        assert!(owner(&"long".repeat(80), "/", "s").workspace_id().len() < 100);
    }
}
