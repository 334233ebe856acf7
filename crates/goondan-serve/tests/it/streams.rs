//! Streams: complete, in order, and taken up again where they were left.

use goondan::event::SwarmEvent;
use goondan_serve::client::{ClientEvent, ServerEvent};
use goondan_serve::wire::{InputBody, InputState};
use serde_json::Value;

use crate::support::{Running, all, input, names, within};

/// The numbers of the runtime events among them.
fn sequences(events: &[ServerEvent]) -> Vec<u64> {
    let sequence = |event: &ServerEvent| {
        serde_json::from_str::<Value>(&event.data).unwrap()["sequence"].as_u64()
    };
    events.iter().filter_map(sequence).collect()
}

fn text(events: &[ServerEvent]) -> String {
    let mut text = String::new();
    for event in events {
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match &*event.name {
            "text.delta" => text.push_str(data["delta"].as_str().unwrap()),
            "text.reset" => text.clear(),
            _ => {}
        }
    }
    text
}

#[tokio::test]
async fn a_turn_is_told_from_its_beginning_to_its_end() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let events = all(running
        .client
        .follow("/api/inputs", &input("hello"))
        .await
        .unwrap())
    .await;
    assert_eq!(
        names(&events),
        [
            "accepted",
            "turn.started",
            "step.started",
            "text.delta",
            "text.delta",
            "text.delta",
            "model.completed",
            "step.completed",
            "turn.completed",
            "result"
        ]
    );
    assert_eq!(text(&events), "hello one two");
    assert!(sequences(&events).is_sorted_by(|a, b| a < b));
}

#[tokio::test]
async fn reasoning_and_the_end_of_an_incomplete_answer_are_told() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let events = all(running
        .client
        .follow("/api/inputs", &input("half"))
        .await
        .unwrap())
    .await;
    let names: Vec<_> = names(&events);
    let place = |name| names.iter().position(|seen| *seen == name).unwrap();
    assert!(place("reasoning.delta") < place("text.delta"), "{names:?}");
    assert_eq!(text(&events), "a half");
    let data = |place: usize| serde_json::from_str::<Value>(&events[place].data).unwrap();
    assert_eq!(data(place("model.completed"))["finishReason"], "length");
    assert_eq!(data(place("turn.completed"))["modelFinishReason"], "length");
    assert_eq!(
        data(place("result"))["result"]["modelFinishReason"],
        "length"
    );
    let told = events[place("reasoning.delta")].parse().unwrap();
    assert!(
        matches!(told, ClientEvent::Happened(SwarmEvent::Reasoning { delta, .. }) if delta == "Let me see.")
    );
}

#[tokio::test]
async fn a_client_that_comes_back_gets_the_rest_and_nothing_twice() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let whole = all(running
        .client
        .follow("/api/inputs", &input("hello"))
        .await
        .unwrap())
    .await;
    let whole = sequences(&whole);
    for (place, after) in whole.iter().enumerate() {
        let mut rest = running
            .client
            .events(&format!("/api/events?after={after}"))
            .await
            .unwrap();
        let mut seen = Vec::new();
        while seen.len() < whole.len() - place - 1 {
            seen.extend(sequences(&[within(rest.next()).await.unwrap().unwrap()]));
        }
        assert_eq!(seen, whole[place + 1..]);
    }
}

#[tokio::test]
async fn a_turn_goes_on_after_the_process_has_died_and_so_does_its_stream() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let named = InputBody {
        id: Some("in-1".to_owned()),
        ..input("slow")
    };
    let mut stream = running.client.follow("/api/inputs", &named).await.unwrap();
    let mut seen = Vec::new();
    while !names(&seen).contains(&"step.started") {
        seen.push(within(stream.next()).await.unwrap().unwrap());
    }
    let last = *sequences(&seen).last().unwrap();
    // Events are written soon, not at once: they are for watching.
    running
        .swarm
        .events(&goondan::ids::InstanceId::new("a", "main"), 0)
        .await
        .unwrap();
    running.kill().await;

    let running = Running::start(state.path()).await;
    let known: InputState = running.client.get("/api/inputs/in-1").await.unwrap();
    assert!(known.result.is_none());
    let path = format!("/api/events?after={last}");
    let mut rest = running.client.events(&path).await.unwrap();
    let first = within(rest.next()).await.unwrap().unwrap();
    assert_eq!(first.name, "turn.started");
    assert!(sequences(&[first])[0] > last);
    running.client.delete("/api/inputs/in-1").await.unwrap();
    let ended = all(running
        .client
        .events("/api/inputs/in-1/events")
        .await
        .unwrap())
    .await;
    assert_eq!(ended.last().unwrap().name, "result");
    assert_eq!(running.turns().await, 1);
}

#[tokio::test]
async fn who_comes_in_the_middle_of_an_answer_gets_all_of_it() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    // Nobody reads this one: it must hold nobody up.
    let _unread = running.client.events("/api/events").await.unwrap();
    let mut watching = running.client.events("/api/events").await.unwrap();
    let accepted: InputState = running
        .client
        .post("/api/inputs", &input("hello"))
        .await
        .unwrap();
    let mut seen = Vec::new();
    while !names(&seen).contains(&"turn.completed") {
        seen.push(within(watching.next()).await.unwrap().unwrap());
    }
    assert_eq!(text(&seen), "hello one two");
    let path = format!("/api/inputs/{}/events", accepted.id);
    assert_eq!(
        names(&all(running.client.events(&path).await.unwrap()).await).last(),
        Some(&"result")
    );
}

#[tokio::test]
async fn a_turn_that_ends_at_once_is_told_whole_and_one_that_was_over_by_its_result() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    // Many at once: each ends while others begin.
    for round in 0..20 {
        let asked = (0..5).map(|number| {
            let key = format!("k{number}");
            let body = InputBody {
                instance_key: Some(key),
                id: Some(format!("{round}-{number}")),
                ..input("hello")
            };
            let client = running.client.clone();
            async move { all(client.follow("/api/inputs", &body).await.unwrap()).await }
        });
        for events in futures::future::join_all(asked).await {
            assert_eq!(
                (names(&events).len(), text(&events).as_str()),
                (10, "hello one two"),
                "{:?}",
                names(&events)
            );
        }
    }
    let again = InputBody {
        instance_key: Some("k0".to_owned()),
        id: Some("0-0".to_owned()),
        ..input("hello")
    };
    let events = all(running.client.follow("/api/inputs", &again).await.unwrap()).await;
    assert_eq!(names(&events), ["accepted", "result"]);
}
