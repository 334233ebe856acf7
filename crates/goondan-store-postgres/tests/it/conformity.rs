use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::store::Store;
use goondan_store::suite::{ReopenableWorkspace, UnreliableStore, check};
use goondan_store_postgres::DatabaseAddress;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::place::{database, fresh, open};

struct InDatabase {
    address: DatabaseAddress,
    workspace: String,
    /// Adds an unreliable connection.
    is_far: bool,
}

impl ReopenableWorkspace for InDatabase {
    fn open(&self) -> Box<dyn Store> {
        let store =
            block_in_place(|| Handle::current().block_on(open(&self.address, &self.workspace)))
                .unwrap();
        match self.is_far {
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
async fn the_store_in_a_database_does_what_any_store_must() {
    let Some(address) = database() else { return };
    check(|| {
        Box::new(InDatabase {
            address: address.clone(),
            workspace: fresh(),
            is_far: false,
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_does_so_where_some_calls_fail() {
    let Some(address) = database() else { return };
    check(|| {
        Box::new(InDatabase {
            address: address.clone(),
            workspace: fresh(),
            is_far: true,
        })
    })
    .await;
}
