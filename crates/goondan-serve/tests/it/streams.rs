//! Event streams: completeness, order, and continuation after a disconnect.

use goondan::event::SwarmEvent;
use goondan_serve::client::{ClientEvent, ServerEvent};
use goondan_serve::wire::{InputBody, InputState};
use serde_json::Value;

use crate::support::{TestServer, all, input, names, with_timeout};

/// Returns the sequence numbers of the runtime events.
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
async fn a_stream_contains_all_events_of_a_turn() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let events = all(server
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
async fn a_stream_contains_reasoning_and_the_finish_reason() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let events = all(server
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
    let parsed = events[place("reasoning.delta")].parse().unwrap();
    assert!(
        matches!(parsed, ClientEvent::Happened(SwarmEvent::Reasoning { delta, .. }) if delta == "Let me see.")
    );
}

#[tokio::test]
async fn a_reconnecting_client_receives_only_later_events() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let whole = all(server
        .client
        .follow("/api/inputs", &input("hello"))
        .await
        .unwrap())
    .await;
    let whole = sequences(&whole);
    for (place, after) in whole.iter().enumerate() {
        let mut rest = server
            .client
            .events(&format!("/api/events?after={after}"))
            .await
            .unwrap();
        let mut seen = Vec::new();
        while seen.len() < whole.len() - place - 1 {
            seen.extend(sequences(&[with_timeout(rest.next())
                .await
                .unwrap()
                .unwrap()]));
        }
        assert_eq!(seen, whole[place + 1..]);
    }
}

#[tokio::test]
async fn a_turn_and_its_stream_resume_after_a_crash() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let input_with_id = InputBody {
        id: Some("in-1".to_owned()),
        ..input("slow")
    };
    let mut stream = server
        .client
        .follow("/api/inputs", &input_with_id)
        .await
        .unwrap();
    let mut seen = Vec::new();
    while !names(&seen).contains(&"step.started") {
        seen.push(with_timeout(stream.next()).await.unwrap().unwrap());
    }
    let last = *sequences(&seen).last().unwrap();
    // Events are written asynchronously; reading the conversation events waits for the writes.
    server
        .swarm
        .events(&goondan::ids::InstanceId::new("a", "main"), 0)
        .await
        .unwrap();
    server.kill().await;

    let server = TestServer::start(state.path()).await;
    let known: InputState = server.client.get("/api/inputs/in-1").await.unwrap();
    assert!(known.result.is_none());
    let path = format!("/api/events?after={last}");
    let mut rest = server.client.events(&path).await.unwrap();
    let first = with_timeout(rest.next()).await.unwrap().unwrap();
    assert_eq!(first.name, "turn.started");
    assert!(sequences(&[first])[0] > last);
    server.client.delete("/api/inputs/in-1").await.unwrap();
    let ended = all(server
        .client
        .events("/api/inputs/in-1/events")
        .await
        .unwrap())
    .await;
    assert_eq!(ended.last().unwrap().name, "result");
    assert_eq!(server.user_message_count().await, 1);
}

#[tokio::test]
async fn an_unread_stream_does_not_block_other_clients() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    // An unread stream must not block other streams.
    let _unread = server.client.events("/api/events").await.unwrap();
    let mut watching = server.client.events("/api/events").await.unwrap();
    let accepted: InputState = server
        .client
        .post("/api/inputs", &input("hello"))
        .await
        .unwrap();
    let mut seen = Vec::new();
    while !names(&seen).contains(&"turn.completed") {
        seen.push(with_timeout(watching.next()).await.unwrap().unwrap());
    }
    assert_eq!(text(&seen), "hello one two");
    let path = format!("/api/inputs/{}/events", accepted.id);
    assert_eq!(
        names(&all(server.client.events(&path).await.unwrap()).await).last(),
        Some(&"result")
    );
}

#[tokio::test]
async fn fast_turns_stream_all_events_and_a_repeated_input_only_its_result() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    // Many concurrent turns: some end while others begin.
    for round in 0..20 {
        let requests = (0..5).map(|number| {
            let key = format!("k{number}");
            let body = InputBody {
                instance_key: Some(key),
                id: Some(format!("{round}-{number}")),
                ..input("hello")
            };
            let client = server.client.clone();
            async move { all(client.follow("/api/inputs", &body).await.unwrap()).await }
        });
        for events in futures::future::join_all(requests).await {
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
    let events = all(server.client.follow("/api/inputs", &again).await.unwrap()).await;
    assert_eq!(names(&events), ["accepted", "result"]);
}
