//! Only one node at a time is the leader of a workspace.

use std::time::Duration;

use goondan_core::ports::store::{
    ConversationStore as _, InstanceStore as _, StoreError, WorkspaceLog as _,
};
use goondan_store::suite::samples::{accepted, event, instance, meta};
use goondan_store_postgres::{PostgresOpenError, PostgresStore, WorkspaceWait, forget, nodes};

use crate::database::{UnusedPaths, database, new_workspace_name, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_held_workspace_error_names_the_leader_and_a_standby_takes_over() {
    let Some(address) = database() else { return };
    let workspace = new_workspace_name();
    let first = open(&address, &workspace).await.unwrap();
    let event = event("one", &instance("k"));
    first.append(accepted(&event)).await.unwrap();
    let second = PostgresStore::open(
        &address,
        &workspace,
        Box::new(UnusedPaths),
        WorkspaceWait::For(Duration::ZERO),
    )
    .await;
    let Err(PostgresOpenError::Held {
        holder: Some(holder),
        ..
    }) = second
    else {
        panic!("the workspace has a leader")
    };
    assert_eq!(holder.node, first.node());
    let (standby_address, standby_workspace) = (address.clone(), workspace.clone());
    let waiting = tokio::spawn(async move { open(&standby_address, &standby_workspace).await });
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
async fn a_read_only_store_cannot_write() {
    let Some(address) = database() else { return };
    let workspace = new_workspace_name();
    let open_read_only = async || {
        PostgresStore::look(&address, &workspace, Box::new(UnusedPaths))
            .await
            .unwrap()
    };
    assert_eq!(
        open_read_only().await.instances().await.unwrap(),
        [],
        "the workspace does not exist yet"
    );
    let holder = open(&address, &workspace).await.unwrap();
    holder.put_instance(&meta(&instance("k"))).await.unwrap();
    let read_only = open_read_only().await;
    assert_eq!(read_only.instances().await.unwrap(), [meta(&instance("k"))]);
    assert!(matches!(
        read_only.put_instance(&meta(&instance("k"))).await,
        Err(StoreError::Closed)
    ));
    assert!(matches!(
        read_only.claim(&instance("k")).await,
        Err(StoreError::Closed)
    ));
    drop(holder);
    forget(&address, &workspace).await.unwrap();
    assert_eq!(open_read_only().await.instances().await.unwrap(), []);
}
