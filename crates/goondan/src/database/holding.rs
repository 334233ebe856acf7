//! A workspace that a command holds for itself: to change what no running swarm may have in its hands.

use std::io::BufRead;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, Instances as _, StoreError};
use goondan_models::Mask;
use goondan_spec::kinds::Swarm;
use goondan_spec::{Bundle, Resource};
use goondan_store::transfer::{Export, ImportError};
use goondan_store::workdirs::Workdirs;
use goondan_store_postgres::{OpenError, PostgresStore, Wait};

use super::{BRIEFLY, Database, Looking};
use crate::identity::AdoptError;
use crate::transfer;
use crate::workspace::{StateRoot, Workspace};

/// A workspace that nobody else works in until this is dropped.
pub struct Holding(PostgresStore);

impl Database {
    /// Holds a workspace. It fails while a node works in it.
    pub async fn hold(&self, workspace: &Workspace) -> Result<Holding, OpenError> {
        let folders = Box::new(Workdirs::below(workspace.dir.clone()));
        let name = self.name(&workspace.id);
        PostgresStore::open(&self.address, &name, folders, Wait::For(BRIEFLY))
            .await
            .map(Holding)
    }

    /// As [`StateRoot::adopt`], with what the database has of both. It fails while a node works in one of them. What lies on
    /// machines stays where it is.
    pub async fn adopt(
        &self,
        state_root: &StateRoot,
        from: &Workspace,
        bundle: &Bundle,
        swarm: &Resource<Swarm>,
    ) -> Result<Option<Workspace>, AdoptError> {
        let own = state_root.adopter_of(from, bundle, swarm)?;
        // To hold it makes it.
        if !self.workspaces().await?.contains(&self.name(&from.id)) {
            return Err(AdoptError::Nothing(from.clone()));
        }
        let (theirs, mine) = (self.hold(from).await?, self.hold(&own).await?);
        let adopted = mine
            .0
            .adopt(&theirs.0)
            .await?
            .ok_or_else(|| AdoptError::Nothing(from.clone()))?;
        let id = |name: String| {
            name.strip_prefix(&self.prefix)
                .map_or_else(|| name.clone(), str::to_owned)
        };
        Ok(adopted.aside.map(|name| state_root.workspace(&id(name))))
    }
}

impl Holding {
    /// Deletes everything of an instance; false where there is none.
    pub async fn delete(&self, id: &InstanceId) -> Result<bool, StoreError> {
        self.0.delete_instance(id).await
    }

    /// As [`Workspace::import`].
    pub async fn import(
        &self,
        target: Option<InstanceId>,
        input: &mut dyn BufRead,
    ) -> Result<Vec<InstanceMeta>, ImportError> {
        Export::read(target, input)?.put_in(&self.0).await
    }
}

impl Looking {
    /// An instance as JSON Lines; `None` where there is none. What `mask` hides is hidden, as by [`Workspace::export`].
    pub async fn export(
        &self,
        id: &InstanceId,
        mask: &Mask,
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
        let written = transfer::write(&meta, &self.conversation(id).await?, mask, &mut text);
        let damaged = |cause| StoreError::Damaged {
            what: format!("the conversation {id}"),
            cause: std::sync::Arc::new(cause),
        };
        written.map(|()| Some(text)).map_err(damaged)
    }
}
