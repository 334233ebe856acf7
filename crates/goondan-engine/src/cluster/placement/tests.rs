use async_trait::async_trait;
use goondan_core::agent_event::AgentEvent;
use goondan_core::ports::cluster::{ClusterEvent, EndedTurn};
use goondan_core::ports::store::StoreError;
use goondan_store::suite::samples::instance;
use serde_json::{Value, json};

use super::*;

/// A cluster without incoming messages.
struct SilentCluster {
    own_turns: usize,
}

#[async_trait]
impl ClusterMembership for SilentCluster {
    async fn next_event(&self) -> Option<ClusterEvent> {
        None
    }

    fn send_message(&self, _node: &str, _message: String) {}

    fn note_turns(&self, _turns: Vec<(Option<String>, usize)>) {}

    async fn find_turn_end(
        &self,
        _event: &AgentEvent,
        _joined: &[String],
    ) -> Result<Option<EndedTurn>, StoreError> {
        Ok(None)
    }

    fn own_turns(&self) -> usize {
        self.own_turns
    }
}

fn worker_pool(own_turns: usize, nodes: &[(&str, usize)]) -> Arc<WorkerPool> {
    let worker_pool = WorkerPool::new(Arc::new(SilentCluster { own_turns }));
    for (node, turns) in nodes {
        worker_pool.put(
            ClusterMember {
                node: (*node).to_owned(),
                turns: *turns,
                is_fit: true,
            },
            &ActivityTracker::new(),
        );
    }
    worker_pool
}

/// Starts a turn and returns its node, or `-` if no node is free.
fn start_turn(worker_pool: &WorkerPool, key: &str) -> String {
    let Some(place) = worker_pool.choose_node(&instance(key), false, |_| false) else {
        return "-".to_owned();
    };
    let _ = worker_pool.take(&instance(key), &place);
    place.node.unwrap_or_else(|| "here".to_owned())
}

#[test]
fn a_published_turn_end_is_taken_once_and_cleared_by_a_new_start() {
    let worker_pool = worker_pool(9, &[("a", 9)]);
    let publish = |kind: Value| {
        let mut event = json!({"timestamp": "2026-01-15T09:00:00Z", "agentName": "a", "instanceKey": "k", "traceId": "t", "spanId": "s"});
        event
            .as_object_mut()
            .unwrap()
            .extend(kind.as_object().unwrap().clone());
        worker_pool.track_turn_end(&serde_json::from_value(event).unwrap());
    };
    let failed =
        json!({"type": "turn.failed", "turnId": "turn-1", "duration": 1, "errorMessage": "gone"});
    assert!(!worker_pool.take_published("turn-1"));
    publish(failed.clone());
    assert_eq!(
        (
            worker_pool.take_published("turn-1"),
            worker_pool.take_published("turn-1")
        ),
        (true, false)
    );
    publish(failed);
    publish(json!({"type": "turn.started", "turnId": "turn-1", "eventId": "e"}));
    assert!(!worker_pool.take_published("turn-1"));
}

#[test]
fn turns_are_spread_and_return_to_their_home_node() {
    let worker_pool = worker_pool(9, &[("a", 9), ("b", 9)]);
    let nodes = ["1", "2", "3"].map(|key| start_turn(&worker_pool, key));
    assert_eq!(nodes, ["a", "b", "here"]);
    worker_pool.end_placement(&instance("2"));
    assert_eq!(start_turn(&worker_pool, "2"), "b");
    worker_pool.end_placement(&instance("2"));
    worker_pool.remove("b");
    assert_eq!(
        worker_pool
            .choose_node(&instance("2"), false, |_| false)
            .map(|place| place.is_home),
        Some(false)
    );
}

#[test]
fn a_full_home_node_delays_only_its_own_instances() {
    let worker_pool = worker_pool(0, &[("a", 1), ("b", 1)]);
    assert_eq!(
        ["1", "2", "3"].map(|key| start_turn(&worker_pool, key)),
        ["a", "b", "-"]
    );
    worker_pool.end_placement(&instance("1"));
    assert_eq!(start_turn(&worker_pool, "3"), "a");
    assert_eq!(start_turn(&worker_pool, "1"), "-", "its home node is full");
    // A waiting turn does not occupy a slot.
    assert!(
        worker_pool
            .choose_node(&instance("1"), false, |id| *id == instance("3"))
            .is_some_and(|place| place.is_home)
    );
}

#[test]
fn a_leader_without_slots_runs_turns_when_no_worker_fits() {
    let worker_pool = worker_pool(0, &[("a", 9)]);
    assert_eq!(start_turn(&worker_pool, "1"), "a");
    let bound = worker_pool.choose_node(&instance("2"), true, |_| false);
    assert_eq!(
        bound,
        Some(TurnPlacement {
            node: None,
            is_home: false
        })
    );
    worker_pool.mark_all_unfit();
    assert_eq!(
        start_turn(&worker_pool, "2"),
        "here",
        "no worker has the served project"
    );
}

#[test]
fn a_released_instance_has_no_home_node() {
    let worker_pool = worker_pool(9, &[("a", 9)]);
    assert_eq!(start_turn(&worker_pool, "1"), "a");
    worker_pool.end_placement(&instance("1"));
    worker_pool.release_instance(&instance("1"));
    assert_eq!(
        worker_pool
            .choose_node(&instance("1"), false, |_| false)
            .map(|place| place.is_home),
        Some(false)
    );
}

#[test]
fn only_recent_home_nodes_are_remembered() {
    let worker_pool = worker_pool(0, &[("a", 9), ("b", 9)]);
    for number in 0..2 * MAX_REMEMBERED_HOMES {
        let key = number.to_string();
        start_turn(&worker_pool, &key);
        worker_pool.end_placement(&instance(&key));
        if number > 0 {
            assert_eq!(
                start_turn(&worker_pool, "0"),
                "a",
                "its last turn was recent"
            );
            worker_pool.end_placement(&instance("0"));
        }
    }
    let place = TurnPlacement {
        node: None,
        is_home: false,
    };
    let evicted: Vec<_> = (0..2 * MAX_REMEMBERED_HOMES)
        .filter_map(|key| worker_pool.take(&instance(&format!("here{key}")), &place))
        .collect();
    assert_eq!(evicted, [], "their turns are still running");
    for key in 0..MAX_REMEMBERED_HOMES {
        worker_pool.end_placement(&instance(&format!("here{}", key + MAX_REMEMBERED_HOMES)));
    }
    let oldest = instance(&format!("here{}", MAX_REMEMBERED_HOMES));
    assert_eq!(
        worker_pool.take(&instance("next"), &place),
        Some(oldest),
        "the oldest instance is evicted"
    );
    let state = worker_pool.state();
    assert_eq!(
        (
            state.home_nodes.len(),
            state.instance_counts.values().sum::<usize>()
        ),
        (MAX_REMEMBERED_HOMES, MAX_REMEMBERED_HOMES)
    );
}

#[test]
fn a_leaving_node_gets_no_turns() {
    let worker_pool = worker_pool(0, &[("a", 9), ("b", 9)]);
    assert_eq!(start_turn(&worker_pool, "1"), "a");
    worker_pool.end_placement(&instance("1"));
    worker_pool.mark_leaving("a");
    // Same as a membership change.
    worker_pool.put(
        ClusterMember {
            node: "a".to_owned(),
            turns: 9,
            is_fit: true,
        },
        &ActivityTracker::new(),
    );
    assert_eq!(
        start_turn(&worker_pool, "1"),
        "b",
        "earlier instances also move"
    );
    worker_pool.mark_leaving("b");
    assert_eq!(
        start_turn(&worker_pool, "2"),
        "here",
        "no worker accepts turns"
    );
}
