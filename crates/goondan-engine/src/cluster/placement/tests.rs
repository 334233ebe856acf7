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

fn roster(own_turns: usize, nodes: &[(&str, usize)]) -> Arc<WorkerPool> {
    let roster = WorkerPool::new(Arc::new(Silent { own_turns }));
    for (node, turns) in nodes {
        roster.put(
            ClusterMember {
                node: (*node).to_owned(),
                turns: *turns,
                is_fit: true,
            },
            &ActivityTracker::new(),
        );
    }
    roster
}

/// Starts a turn and returns its node, or `-` if no node is free.
fn begin(roster: &WorkerPool, key: &str) -> String {
    let Some(place) = roster.choose_node(&instance(key), false, |_| false) else {
        return "-".to_owned();
    };
    let _ = roster.take(&instance(key), &place);
    place.node.unwrap_or_else(|| "here".to_owned())
}

#[test]
fn the_end_of_a_turn_is_told_once_unless_it_begins_again() {
    let roster = roster(9, &[("a", 9)]);
    let happens = |kind: Value| {
        let mut event = json!({"timestamp": "2026-01-15T09:00:00Z", "agentName": "a", "instanceKey": "k", "traceId": "t", "spanId": "s"});
        event
            .as_object_mut()
            .unwrap()
            .extend(kind.as_object().unwrap().clone());
        roster.track_turn_end(&serde_json::from_value(event).unwrap());
    };
    let failed =
        json!({"type": "turn.failed", "turnId": "turn-1", "duration": 1, "errorMessage": "gone"});
    assert!(!roster.take_published("turn-1"));
    happens(failed.clone());
    assert_eq!(
        (
            roster.take_published("turn-1"),
            roster.take_published("turn-1")
        ),
        (true, false)
    );
    happens(failed);
    happens(json!({"type": "turn.started", "turnId": "turn-1", "eventId": "e"}));
    assert!(!roster.take_published("turn-1"));
}

#[test]
fn turns_are_spread_and_come_back_to_where_they_were() {
    let roster = roster(9, &[("a", 9), ("b", 9)]);
    let places = ["1", "2", "3"].map(|key| begin(&roster, key));
    assert_eq!(places, ["a", "b", "here"]);
    roster.end_placement(&instance("2"));
    assert_eq!(begin(&roster, "2"), "b");
    roster.end_placement(&instance("2"));
    roster.remove("b");
    assert_eq!(
        roster
            .choose_node(&instance("2"), false, |_| false)
            .map(|place| place.is_home),
        Some(false)
    );
}

#[test]
fn a_full_node_keeps_its_instances_waiting_and_no_others() {
    let roster = roster(0, &[("a", 1), ("b", 1)]);
    assert_eq!(
        ["1", "2", "3"].map(|key| begin(&roster, key)),
        ["a", "b", "-"]
    );
    roster.end_placement(&instance("1"));
    assert_eq!(begin(&roster, "3"), "a");
    assert_eq!(begin(&roster, "1"), "-", "its home is full");
    // A turn that waits takes no room.
    assert!(
        roster
            .choose_node(&instance("1"), false, |id| *id == instance("3"))
            .is_some_and(|place| place.is_home)
    );
}

#[test]
fn who_leaves_turns_to_others_runs_them_where_there_are_none() {
    let roster = roster(0, &[("a", 9)]);
    assert_eq!(begin(&roster, "1"), "a");
    let bound = roster.choose_node(&instance("2"), true, |_| false);
    assert_eq!(
        bound,
        Some(TurnPlacement {
            node: None,
            is_home: false
        })
    );
    roster.mark_all_unfit();
    assert_eq!(
        begin(&roster, "2"),
        "here",
        "no node has the project that serves"
    );
}

#[test]
fn who_was_put_away_has_no_home() {
    let roster = roster(9, &[("a", 9)]);
    assert_eq!(begin(&roster, "1"), "a");
    roster.end_placement(&instance("1"));
    roster.put_away(&instance("1"));
    assert_eq!(
        roster
            .choose_node(&instance("1"), false, |_| false)
            .map(|place| place.is_home),
        Some(false)
    );
}

#[test]
fn only_homes_of_the_last_are_remembered() {
    let roster = roster(0, &[("a", 9), ("b", 9)]);
    for number in 0..2 * MAX_REMEMBERED_HOMES {
        let key = number.to_string();
        begin(&roster, &key);
        roster.end_placement(&instance(&key));
        if number > 0 {
            assert_eq!(begin(&roster, "0"), "a", "it has had a turn lately");
            roster.end_placement(&instance("0"));
        }
    }
    let place = TurnPlacement {
        node: None,
        is_home: false,
    };
    let forgotten: Vec<_> = (0..2 * MAX_REMEMBERED_HOMES)
        .filter_map(|key| roster.take(&instance(&format!("here{key}")), &place))
        .collect();
    assert_eq!(forgotten, [], "their turns are not over");
    for key in 0..MAX_REMEMBERED_HOMES {
        roster.end_placement(&instance(&format!("here{}", key + MAX_REMEMBERED_HOMES)));
    }
    let oldest = instance(&format!("here{}", MAX_REMEMBERED_HOMES));
    assert_eq!(
        roster.take(&instance("next"), &place),
        Some(oldest),
        "what belongs to it here ends"
    );
    let state = roster.state();
    assert_eq!(
        (state.homes.len(), state.residents.values().sum::<usize>()),
        (MAX_REMEMBERED_HOMES, MAX_REMEMBERED_HOMES)
    );
}

#[test]
fn who_is_about_to_leave_gets_no_turns() {
    let roster = roster(0, &[("a", 9), ("b", 9)]);
    assert_eq!(begin(&roster, "1"), "a");
    roster.end_placement(&instance("1"));
    roster.mark_leaving("a");
    // Same as a membership change.
    roster.put(
        ClusterMember {
            node: "a".to_owned(),
            turns: 9,
            is_fit: true,
        },
        &ActivityTracker::new(),
    );
    assert_eq!(begin(&roster, "1"), "b", "not even what has run there");
    roster.mark_leaving("b");
    assert_eq!(begin(&roster, "2"), "here", "nobody else takes turns");
}
