//! Exclusive access of a command to a workspace, for changes that no running swarm may observe.

use std::io::BufRead;
use std::path::PathBuf;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, InstanceStore as _, StoreError};
use goondan_models::CassetteMask;
use goondan_spec::kinds::Swarm;
use goondan_spec::{Bundle, Resource};
use goondan_store::instance_export::{ImportError, InstanceExport};
use goondan_store::workspace_directories::WorkspaceDirectories;
use goondan_store_postgres::{PostgresOpenError, PostgresStore, WorkspaceWait};

use super::{START_WAIT, SharedDatabase, WorkspaceReader};
use crate::approvals;
use crate::workspace::identity::AdoptError;
use crate::workspace::import_export;
use crate::workspace::{StateRoot, Workspace};

/// Exclusive access to a workspace, released on drop.
pub struct ExclusiveAccess {
    store: PostgresStore,
    /// Directory of the workspace on this machine.
    dir: PathBuf,
}

impl SharedDatabase {
    /// Acquires exclusive access to a workspace. Fails while a node works in it.
    pub async fn hold(&self, workspace: &Workspace) -> Result<ExclusiveAccess, PostgresOpenError> {
        let folders = Box::new(WorkspaceDirectories::below(workspace.dir.clone()));
        let name = self.name(&workspace.id);
        PostgresStore::open(
            &self.address,
            &name,
            folders,
            WorkspaceWait::For(START_WAIT),
        )
        .await
        .map(|store| ExclusiveAccess {
            store,
            dir: workspace.dir.clone(),
        })
    }

    /// Adopts a workspace like [`StateRoot::adopt`], with both workspaces in the database. Fails
    /// while a node works in one of them. Files on the nodes are not moved.
    pub async fn adopt(
        &self,
        state_root: &StateRoot,
        from: &Workspace,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> Result<Option<Workspace>, AdoptError> {
        let own_workspace = state_root.adopter_of(from, bundle, swarm)?;
        // Acquiring the workspace would create it.
        if !self.workspaces().await?.contains(&self.name(&from.id)) {
            return Err(AdoptError::Nothing(from.clone()));
        }
        let (other_access, own_access) = (self.hold(from).await?, self.hold(&own_workspace).await?);
        let adopted = own_access
            .store
            .adopt(&other_access.store)
            .await?
            .ok_or_else(|| AdoptError::Nothing(from.clone()))?;
        let id = |name: String| {
            name.strip_prefix(&self.prefix)
                .map_or_else(|| name.clone(), str::to_owned)
        };
        Ok(adopted.aside.map(|name| state_root.workspace(&id(name))))
    }
}

impl ExclusiveAccess {
    /// Deletes an instance with all its data, and its permanent approvals on this machine. Returns
    /// false if it does not exist.
    pub async fn delete(&self, id: &InstanceId) -> Result<bool, StoreError> {
        approvals::forget_deleted_conversation(&self.dir, id)?;
        self.store.delete_instance(id).await
    }

    /// Imports instances; see [`Workspace::import`].
    pub async fn import(
        &self,
        target: Option<InstanceId>,
        input: &mut dyn BufRead,
    ) -> Result<Vec<InstanceMeta>, ImportError> {
        InstanceExport::read(target, input)?
            .put_in(&self.store)
            .await
    }
}

impl WorkspaceReader {
    /// Writes an instance as JSON Lines. Returns `None` if it does not exist. `mask` hides values
    /// as in [`Workspace::export`].
    pub async fn export(
        &self,
        id: &InstanceId,
        mask: &CassetteMask,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(meta) = self
            .instances()
            .await?
            .into_iter()
            .find(|meta| meta.id() == *id)
        else {
            return Ok(None);
        };
        let mut text = Vec::new();
        let title = self.titles().await?.remove(id);
        let messages = self.conversation(id).await?;
        let written = import_export::write(&meta, title, &messages, mask, &mut text);
        let damaged = |cause| StoreError::Damaged {
            what: format!("the conversation {id}"),
            cause: std::sync::Arc::new(cause),
        };
        written.map(|()| Some(text)).map_err(damaged)
    }
}
