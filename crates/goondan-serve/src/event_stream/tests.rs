//! An event stream with a slow client.

use std::collections::BTreeSet;

use axum::response::IntoResponse;
use goondan::gateway::SwarmGateway;
use goondan::spec::Environment;
use goondan::{ApprovalBroker, Input, Swarm};
use http_body_util::BodyExt;

use super::*;

const PROJECT: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {default: {text: hello}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

/// Number of turns; exceeds the gateway buffer and the read-ahead of a stream.
const TURNS: usize = 40;

#[tokio::test]
async fn a_slow_reader_continues_with_stored_events() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("goondan.yaml"), PROJECT).unwrap();
    let bundle = goondan::load(directory.path()).bundle.unwrap();
    let builder = Swarm::builder(bundle)
        .state_root(directory.path())
        .environment(Environment::default());
    let swarm = builder.start().await.unwrap();
    let (service, _guard) = Service::begin_with(
        swarm.clone(),
        ApprovalBroker::default(),
        String::new(),
        |swarm, broker| SwarmGateway::with_buffer(swarm, broker, 4),
    );
    let mut body = EventStream::of_swarm(service)
        .into_sse()
        .into_response()
        .into_body();
    let mut seen = BTreeSet::new();
    let mut ended = 0;
    for number in 0..TURNS {
        let input = Input {
            instance_key: Some(format!("k{}", number % 3)),
            ..Input::text("x")
        };
        swarm.send(input).await.unwrap().result().await.unwrap();
    }
    while ended < TURNS {
        let frame = body.frame().await.unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        ended += text.matches("event: turn.completed").count();
        for id in text.lines().filter_map(|line| line.strip_prefix("id: ")) {
            assert!(
                seen.insert(id.parse::<u64>().unwrap()),
                "event {id} was sent twice"
            );
        }
    }
    // Events per turn: start and end of the turn and of its step, and the model answer.
    assert_eq!(seen.len(), TURNS * 5);
}
