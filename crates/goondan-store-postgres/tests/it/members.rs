//! Tests of nodes that work for a leader.

use goondan_core::ports::cluster::{ClusterEvent, ClusterMembership as _, LeaderChannel as _};
use goondan_core::ports::store::{InstanceStore as _, StoreError, WorkspacePaths};
use goondan_store::suite::samples::{instance, meta};
use goondan_store_postgres::{
    DatabaseAddress, JoinOutcome, PostgresCrew, WorkerMembership, arrive, nodes,
};

use crate::place::{Nowhere, database, fresh, open};

fn nowhere() -> Box<dyn WorkspacePaths> {
    Box::new(Nowhere)
}

async fn join(
    address: &DatabaseAddress,
    workspace: &str,
    generation: &str,
) -> Box<WorkerMembership> {
    match arrive(address, workspace, nowhere, generation, 5)
        .await
        .unwrap()
    {
        JoinOutcome::Works(membership) => membership,
        JoinOutcome::Leads(_) | JoinOutcome::Again(_) => panic!("another node leads"),
    }
}

/// Returns the next new member, and if it has the served project.
async fn next_member(crew: &PostgresCrew) -> (String, bool) {
    match crew.next_event().await {
        Some(ClusterEvent::Member(member)) => (member.node, member.is_fit),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nodes_say_comes_once_and_in_order() {
    let Some(address) = database() else { return };
    let workspace = fresh();
    let leader = open(&address, &workspace).await.unwrap();
    let crew = leader.cluster_members("one", 5);
    let member = join(&address, &workspace, "one").await;
    let (node, is_fit) = next_member(&crew).await;
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
async fn a_member_may_write_until_it_is_gone() {
    let Some(address) = database() else { return };
    let workspace = fresh();
    let leader = open(&address, &workspace).await.unwrap();
    let crew = leader.cluster_members("one", 5);
    let member = join(&address, &workspace, "one").await;
    let (node, _) = next_member(&crew).await;
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
async fn a_member_takes_over_and_the_others_lose_what_they_had() {
    let Some(address) = database() else { return };
    let workspace = fresh();
    let leader = open(&address, &workspace).await.unwrap();
    let (mut first, mut second) = (
        join(&address, &workspace, "one").await,
        join(&address, &workspace, "one").await,
    );
    drop(leader);
    let (successor, mut other) = tokio::select! {
        Some(succession) = first.over() => (succession, second),
        Some(succession) = second.over() => (succession, first),
    };
    let store = successor.lead(nowhere()).await.unwrap();
    store.put_instance(&meta(&instance("k"))).await.unwrap();
    assert!(other.over().await.is_none(), "one node leads");
    let written = other.store.put_instance(&meta(&instance("other"))).await;
    assert!(matches!(written, Err(StoreError::Other(_))), "{written:?}");
    assert_eq!(store.instances().await.unwrap(), [meta(&instance("k"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_project_waits_until_that_serves() {
    let Some(address) = database() else { return };
    let workspace = fresh();
    let leader = open(&address, &workspace).await.unwrap();
    let crew = leader.cluster_members("one", 5);
    let member = join(&address, &workspace, "two").await;
    let (node, is_fit) = next_member(&crew).await;
    assert!(!is_fit);
    crew.set_generation("two");
    assert_eq!(next_member(&crew).await, (node, true));
    member.leader.note_fit(true);
    let states = async || {
        let mut nodes = nodes(&address).await.unwrap();
        nodes.retain(|node| node.workspace == workspace);
        nodes
            .into_iter()
            .map(|node| (node.state, node.generation))
            .collect::<Vec<_>>()
    };
    let two = Some("two".to_owned());
    while states().await
        != [
            ("leader".to_owned(), two.clone()),
            ("worker".to_owned(), two.clone()),
        ]
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_taken_up_the_project_that_serves_gets_turns() {
    let Some(address) = database() else { return };
    let workspace = fresh();
    let leader = open(&address, &workspace).await.unwrap();
    let crew = leader.cluster_members("two", 5);
    let member = join(&address, &workspace, "one").await;
    let (node, is_fit) = next_member(&crew).await;
    assert!(!is_fit);
    member.leader.is_left_out().await;
    assert_eq!(
        member.leader.serves().await.unwrap().as_deref(),
        Some("two")
    );
    member.leader.set_generation("two").await.unwrap();
    assert_eq!(next_member(&crew).await, (node, true));
}
