use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::store::Store;
use goondan_store::suite::{ReopenableWorkspace, UnreliableStore, check};
use goondan_store_postgres::DatabaseAddress;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::database::{database, new_workspace_name, open};

struct InDatabase {
    address: DatabaseAddress,
    workspace: String,
    /// Adds an unreliable connection.
    is_unreliable: bool,
}

impl ReopenableWorkspace for InDatabase {
    fn open(&self) -> Box<dyn Store> {
        let store =
            block_in_place(|| Handle::current().block_on(open(&self.address, &self.workspace)))
                .unwrap();
        match self.is_unreliable {
            true => Box::new(UnreliableStore::new(
                Arc::new(store),
                Duration::from_millis(2),
                9,
            )),
            false => Box::new(store),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_store_passes_the_suite() {
    let Some(address) = database() else { return };
    check(|| {
        Box::new(InDatabase {
            address: address.clone(),
            workspace: new_workspace_name(),
            is_unreliable: false,
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_store_passes_the_suite_when_some_calls_fail() {
    let Some(address) = database() else { return };
    check(|| {
        Box::new(InDatabase {
            address: address.clone(),
            workspace: new_workspace_name(),
            is_unreliable: true,
        })
    })
    .await;
}
