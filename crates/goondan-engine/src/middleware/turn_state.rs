//! State of extensions and notes of middleware during a turn.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{Store, StoreError, update};
use serde_json::Value;

/// Notes of middleware during a turn, by type.
#[derive(Default)]
pub(crate) struct TurnNotes(pub(super) HashMap<TypeId, Box<dyn Any + Send + Sync>>);

/// Extension states that the running turn has read or set.
#[derive(Debug, Default)]
pub(crate) struct ExtensionStates(pub(super) BTreeMap<String, StoredState>);

#[derive(Debug, Default)]
pub(super) struct StoredState {
    pub(super) stored: Option<Value>,
    pub(super) current: Option<Value>,
}

impl ExtensionStates {
    /// Returns the states that differ from the store, each with its extension.
    fn changed_states(&self) -> impl Iterator<Item = (&String, &Value)> {
        let changed =
            |state: &&StoredState| state.current.is_some() && state.stored != state.current;
        let state = self.0.iter().filter(move |(_, state)| changed(state));
        state.filter_map(|(extension, state)| Some((extension, state.current.as_ref()?)))
    }

    /// Writes the changed states.
    pub(crate) async fn save(
        &self,
        store: &dyn Store,
        instance: &InstanceId,
    ) -> Result<(), StoreError> {
        for (extension, state) in self.changed_states() {
            update(store, instance, extension, |_| Some(state.clone())).await?;
        }
        Ok(())
    }
}
