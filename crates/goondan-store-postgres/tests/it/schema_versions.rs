//! A new database, and tables of another version.

use std::sync::atomic::{AtomicBool, Ordering};

use goondan_store_postgres::{DatabaseAddress, PostgresOpenError, nodes};
use tokio_postgres::NoTls;

use crate::database::{database, new_workspace_name, open};

/// Creates a separate database; `None`, with a message, if no server is configured.
async fn new_database() -> Option<(DatabaseAddress, tokio_postgres::Client)> {
    database()?;
    let shared = std::env::var("GOONDAN_TEST_POSTGRES").unwrap();
    let name = new_workspace_name().replace('-', "_");
    client(&shared)
        .await
        .batch_execute(&format!("CREATE DATABASE {name}"))
        .await
        .unwrap();
    let own = format!("{}/{name}", shared.rsplit_once('/').unwrap().0);
    Some((own.parse().unwrap(), client(&own).await))
}

async fn client(address: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_can_be_listed_while_tables_are_created() {
    let Some((address, _client)) = new_database().await else {
        return;
    };
    let is_created = AtomicBool::new(false);
    let list_nodes = async {
        while !is_created.load(Ordering::Relaxed) {
            nodes(&address).await.unwrap();
        }
    };
    let create_tables = async {
        let store = open(&address, &new_workspace_name()).await.unwrap();
        is_created.store(true, Ordering::Relaxed);
        store
    };
    let (store, ()) = futures::join!(create_tables, list_nodes);
    assert_eq!(nodes(&address).await.unwrap()[0].id, store.node());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_another_version_are_reported() {
    let Some((address, client)) = new_database().await else {
        return;
    };
    drop(open(&address, &new_workspace_name()).await.unwrap());
    let error_after = async |sql: &str| {
        client.batch_execute(sql).await.unwrap();
        let Err(PostgresOpenError::Unusable { cause, .. }) = nodes(&address).await else {
            panic!("the tables have another version")
        };
        cause
    };
    let latest = "(SELECT max(version) FROM goondan.versions)";
    let older = error_after(&format!(
        "DELETE FROM goondan.versions WHERE version = {latest}"
    ))
    .await;
    assert!(
        older.starts_with("its tables have version 2, but this gdn needs version 3: start a node"),
        "{older}"
    );
    let newer = error_after("INSERT INTO goondan.versions (version) VALUES (99)").await;
    assert!(
        newer.starts_with("its tables have version 99, but this gdn supports at most version 3"),
        "{newer}"
    );
}
