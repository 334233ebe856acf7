//! Workers: nodes that run turns for a leader.

use goondan_core::ports::cluster::{ClusterEvent, ClusterMembership as _, LeaderChannel as _};
use goondan_core::ports::store::{InstanceStore as _, StoreError, WorkspacePaths};
use goondan_store::suite::samples::{instance, meta};
use goondan_store_postgres::{
    DatabaseAddress, JoinOutcome, PostgresCrew, WorkerMembership, arrive, nodes,
};

use crate::database::{UnusedPaths, database, new_workspace_name, open};

fn unused_paths() -> Box<dyn WorkspacePaths> {
    Box::new(UnusedPaths)
}

async fn join(
    address: &DatabaseAddress,
    workspace: &str,
    generation: &str,
) -> Box<WorkerMembership> {
    match arrive(address, workspace, unused_paths, generation, 5)
        .await
        .unwrap()
    {
        JoinOutcome::Works(membership) => membership,
        JoinOutcome::Leads(_) | JoinOutcome::Again(_) => panic!("the node is not a worker"),
    }
}

/// Returns the node ID of the next worker, and true if the worker has the project of the leader.
async fn next_worker(crew: &PostgresCrew) -> (String, bool) {
    match crew.next_event().await {
        Some(ClusterEvent::Member(member)) => (member.node, member.is_fit),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_between_nodes_arrive_once_and_in_order() {
    let Some(address) = database() else { return };
    let workspace = new_workspace_name();
    let leader = open(&address, &workspace).await.unwrap();
    let crew = leader.cluster_members("one", 5);
    let member = join(&address, &workspace, "one").await;
    let (node, is_fit) = next_worker(&crew).await;
    assert!(is_fit);
    for number in 0..1_000 {
        crew.send_message(&node, number.to_string());
        member.leader.send_message(number.to_string());
    }
    for number in 0..1_000 {
        assert_eq!(
            member.leader.receive_message().await,
            Some(number.to_string())
        );
        assert_eq!(
            crew.next_event().await,
            Some(ClusterEvent::Said {
                node: node.clone(),
                words: number.to_string()
            })
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_can_write_and_its_disconnect_is_reported() {
    let Some(address) = database() else { return };
    let workspace = new_workspace_name();
    let leader = open(&address, &workspace).await.unwrap();
    let crew = leader.cluster_members("one", 5);
    let member = join(&address, &workspace, "one").await;
    let (node, _) = next_worker(&crew).await;
    member
        .store
        .put_instance(&meta(&instance("k")))
        .await
        .unwrap();
    assert_eq!(leader.instances().await.unwrap(), [meta(&instance("k"))]);
    drop(member);
    assert_eq!(crew.next_event().await, Some(ClusterEvent::Left { node }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_takes_over_and_other_workers_lose_write_access() {
    let Some(address) = database() else { return };
    let workspace = new_workspace_name();
    let leader = open(&address, &workspace).await.unwrap();
    let (mut first, mut second) = (
        join(&address, &workspace, "one").await,
        join(&address, &workspace, "one").await,
    );
    drop(leader);
    let (successor, mut other) = tokio::select! {
        Some(successor) = first.over() => (successor, second),
        Some(successor) = second.over() => (successor, first),
    };
    let store = successor.lead(unused_paths()).await.unwrap();
    store.put_instance(&meta(&instance("k"))).await.unwrap();
    assert!(other.over().await.is_none(), "only one node is the leader");
    let written = other.store.put_instance(&meta(&instance("other"))).await;
    assert!(matches!(written, Err(StoreError::Other(_))), "{written:?}");
    assert_eq!(store.instances().await.unwrap(), [meta(&instance("k"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_fit_when_the_leader_switches_to_its_project() {
    let Some(address) = database() else { return };
    let workspace = new_workspace_name();
    let leader = open(&address, &workspace).await.unwrap();
    let crew = leader.cluster_members("one", 5);
    let member = join(&address, &workspace, "two").await;
    let (node, is_fit) = next_worker(&crew).await;
    assert!(!is_fit);
    crew.set_generation("two");
    assert_eq!(next_worker(&crew).await, (node, true));
    member.leader.note_fit(true);
    let states = async || {
        let mut nodes = nodes(&address).await.unwrap();
        nodes.retain(|node| node.workspace == workspace);
        nodes
            .into_iter()
            .map(|node| (node.state, node.generation))
            .collect::<Vec<_>>()
    };
    let generation = Some("two".to_owned());
    while states().await
        != [
            ("leader".to_owned(), generation.clone()),
            ("worker".to_owned(), generation.clone()),
        ]
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_fit_after_it_loads_the_project_of_the_leader() {
    let Some(address) = database() else { return };
    let workspace = new_workspace_name();
    let leader = open(&address, &workspace).await.unwrap();
    let crew = leader.cluster_members("two", 5);
    let member = join(&address, &workspace, "one").await;
    let (node, is_fit) = next_worker(&crew).await;
    assert!(!is_fit);
    member.leader.is_left_out().await;
    assert_eq!(
        member.leader.serves().await.unwrap().as_deref(),
        Some("two")
    );
    member.leader.set_generation("two").await.unwrap();
    assert_eq!(next_worker(&crew).await, (node, true));
}
