//! Tests with a new database, and with tables of another version.

use std::sync::atomic::{AtomicBool, Ordering};

use goondan_store_postgres::{DatabaseAddress, PostgresOpenError, nodes};
use tokio_postgres::NoTls;

use crate::place::{database, fresh, open};

/// Creates a separate database; `None`, with a message, if there is no server.
async fn fresh_database() -> Option<(DatabaseAddress, tokio_postgres::Client)> {
    database()?;
    let shared = std::env::var("GOONDAN_TEST_POSTGRES").unwrap();
    let name = fresh().replace('-', "_");
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
async fn whoever_looks_while_they_are_made_sees_none_or_all() {
    let Some((address, _client)) = fresh_database().await else {
        return;
    };
    let is_made = AtomicBool::new(false);
    let looks = async {
        while !is_made.load(Ordering::Relaxed) {
            nodes(&address).await.unwrap();
        }
    };
    let makes = async {
        let store = open(&address, &fresh()).await.unwrap();
        is_made.store(true, Ordering::Relaxed);
        store
    };
    let (store, ()) = futures::join!(makes, looks);
    assert_eq!(nodes(&address).await.unwrap()[0].id, store.node());
}

#[tokio::test(flavor = "multi_thread")]
async fn those_of_another_version_are_told() {
    let Some((address, client)) = fresh_database().await else {
        return;
    };
    drop(open(&address, &fresh()).await.unwrap());
    let told = async |sql: &str| {
        client.batch_execute(sql).await.unwrap();
        let Err(PostgresOpenError::Unusable { cause, .. }) = nodes(&address).await else {
            panic!("it is of another version")
        };
        cause
    };
    let latest = "(SELECT max(version) FROM goondan.versions)";
    let older = told(&format!(
        "DELETE FROM goondan.versions WHERE version = {latest}"
    ))
    .await;
    assert!(
        older.starts_with("its tables have version 2, but this gdn needs version 3: start a node"),
        "{older}"
    );
    let newer = told("INSERT INTO goondan.versions (version) VALUES (99)").await;
    assert!(
        newer.starts_with("its tables have version 99, but this gdn supports at most version 3"),
        "{newer}"
    );
}
