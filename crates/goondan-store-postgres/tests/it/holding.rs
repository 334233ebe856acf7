//! Tests that one node at a time holds a workspace.

use std::time::Duration;

use goondan_core::ports::store::{
    ConversationStore as _, InstanceStore as _, StoreError, WorkspaceLog as _,
};
use goondan_store::suite::samples::{accepted, event, instance, meta};
use goondan_store_postgres::{PostgresOpenError, PostgresStore, WorkspaceWait, forget, nodes};

use crate::place::{Nowhere, database, fresh, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_node_is_told_who_holds_the_workspace_and_takes_over_when_it_may() {
    let Some(address) = database() else { return };
    let workspace = fresh();
    let first = open(&address, &workspace).await.unwrap();
    let event = event("one", &instance("k"));
    first.append(accepted(&event)).await.unwrap();
    let second = PostgresStore::open(
        &address,
        &workspace,
        Box::new(Nowhere),
        WorkspaceWait::For(Duration::ZERO),
    )
    .await;
    let Err(PostgresOpenError::Held {
        holder: Some(holder),
        ..
    }) = second
    else {
        panic!("it is held")
    };
    assert_eq!(holder.node, first.node());
    let (address_of_second, its_workspace) = (address.clone(), workspace.clone());
    let waiting = tokio::spawn(async move { open(&address_of_second, &its_workspace).await });
    let states = async || {
        let mut nodes = nodes(&address).await.unwrap();
        nodes.retain(|node| node.workspace == workspace);
        nodes.into_iter().map(|node| node.state).collect::<Vec<_>>()
    };
    while states().await != ["leader", "standby"] {
        tokio::task::yield_now().await;
    }
    drop(first);
    let second = waiting.await.unwrap().unwrap();
    assert_eq!(second.recover().await.unwrap().pending, [event]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_looks_changes_nothing() {
    let Some(address) = database() else { return };
    let workspace = fresh();
    let looks = async || {
        PostgresStore::look(&address, &workspace, Box::new(Nowhere))
            .await
            .unwrap()
    };
    assert_eq!(
        looks().await.instances().await.unwrap(),
        [],
        "there is none yet"
    );
    let holder = open(&address, &workspace).await.unwrap();
    holder.put_instance(&meta(&instance("k"))).await.unwrap();
    let looking = looks().await;
    assert_eq!(looking.instances().await.unwrap(), [meta(&instance("k"))]);
    assert!(matches!(
        looking.put_instance(&meta(&instance("k"))).await,
        Err(StoreError::Closed)
    ));
    assert!(matches!(
        looking.claim(&instance("k")).await,
        Err(StoreError::Closed)
    ));
    drop(holder);
    forget(&address, &workspace).await.unwrap();
    assert_eq!(looks().await.instances().await.unwrap(), []);
}
