use async_trait::async_trait;
use goondan_core::agent_event::AgentEvent;
use goondan_core::ports::cluster::{ClusterEvent, EndedTurn};
use goondan_core::ports::store::StoreError;
use goondan_store::suite::samples::instance;
use serde_json::{Value, json};

use super::*;

/// A cluster without incoming messages.
struct Silent {
    own_turns: usize,
}

#[async_trait]
impl ClusterMembership for Silent {
    async fn next_event(&self) -> Option<ClusterEvent> {
        None
    }

    fn send_message(&self, _node: &str, _words: String) {}

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
    let worker_pool = WorkerPool::new(Arc::new(Silent { own_turns }));
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
fn begin(worker_pool: &WorkerPool, key: &str) -> String {
    let Some(place) = worker_pool.choose_node(&instance(key), false, |_| false) else {
        return "-".to_owned();
    };
    let _ = worker_pool.take(&instance(key), &place);
    place.node.unwrap_or_else(|| "here".to_owned())
}

#[test]
fn the_end_of_a_turn_is_told_once_unless_it_begins_again() {
    let worker_pool = worker_pool(9, &[("a", 9)]);
    let happens = |kind: Value| {
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
    happens(failed.clone());
    assert_eq!(
        (
            worker_pool.take_published("turn-1"),
            worker_pool.take_published("turn-1")
        ),
        (true, false)
    );
    happens(failed);
    happens(json!({"type": "turn.started", "turnId": "turn-1", "eventId": "e"}));
    assert!(!worker_pool.take_published("turn-1"));
}

#[test]
fn turns_are_spread_and_come_back_to_where_they_were() {
    let worker_pool = worker_pool(9, &[("a", 9), ("b", 9)]);
    let places = ["1", "2", "3"].map(|key| begin(&worker_pool, key));
    assert_eq!(places, ["a", "b", "here"]);
    worker_pool.end_placement(&instance("2"));
    assert_eq!(begin(&worker_pool, "2"), "b");
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
fn a_full_node_keeps_its_instances_waiting_and_no_others() {
    let worker_pool = worker_pool(0, &[("a", 1), ("b", 1)]);
    assert_eq!(
        ["1", "2", "3"].map(|key| begin(&worker_pool, key)),
        ["a", "b", "-"]
    );
    worker_pool.end_placement(&instance("1"));
    assert_eq!(begin(&worker_pool, "3"), "a");
    assert_eq!(begin(&worker_pool, "1"), "-", "its home is full");
    // A turn that waits takes no room.
    assert!(
        worker_pool
            .choose_node(&instance("1"), false, |id| *id == instance("3"))
            .is_some_and(|place| place.is_home)
    );
}

#[test]
fn who_leaves_turns_to_others_runs_them_where_there_are_none() {
    let worker_pool = worker_pool(0, &[("a", 9)]);
    assert_eq!(begin(&worker_pool, "1"), "a");
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
        begin(&worker_pool, "2"),
        "here",
        "no node has the project that serves"
    );
}

#[test]
fn who_was_put_away_has_no_home() {
    let worker_pool = worker_pool(9, &[("a", 9)]);
    assert_eq!(begin(&worker_pool, "1"), "a");
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
fn only_homes_of_the_last_are_remembered() {
    let worker_pool = worker_pool(0, &[("a", 9), ("b", 9)]);
    for number in 0..2 * MAX_REMEMBERED_HOMES {
        let key = number.to_string();
        begin(&worker_pool, &key);
        worker_pool.end_placement(&instance(&key));
        if number > 0 {
            assert_eq!(begin(&worker_pool, "0"), "a", "it has had a turn lately");
            worker_pool.end_placement(&instance("0"));
        }
    }
    let place = TurnPlacement {
        node: None,
        is_home: false,
    };
    let forgotten: Vec<_> = (0..2 * MAX_REMEMBERED_HOMES)
        .filter_map(|key| worker_pool.take(&instance(&format!("here{key}")), &place))
        .collect();
    assert_eq!(forgotten, [], "their turns are not over");
    for key in 0..MAX_REMEMBERED_HOMES {
        worker_pool.end_placement(&instance(&format!("here{}", key + MAX_REMEMBERED_HOMES)));
    }
    let oldest = instance(&format!("here{}", MAX_REMEMBERED_HOMES));
    assert_eq!(
        worker_pool.take(&instance("next"), &place),
        Some(oldest),
        "what belongs to it here ends"
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
fn who_is_about_to_leave_gets_no_turns() {
    let worker_pool = worker_pool(0, &[("a", 9), ("b", 9)]);
    assert_eq!(begin(&worker_pool, "1"), "a");
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
    assert_eq!(begin(&worker_pool, "1"), "b", "not even what has run there");
    worker_pool.mark_leaving("b");
    assert_eq!(begin(&worker_pool, "2"), "here", "nobody else takes turns");
}
