//! A stream whose client does not keep up.

use axum::response::IntoResponse;
use goondan::spec::Environment;
use goondan::{Broker, Swarm};
use http_body_util::BodyExt;

use super::super::message::Incoming;
use super::super::send;
use super::*;
use crate::hub::Hub;

/// More pieces than the hub of the test keeps and a stream sends ahead.
const PIECES: usize = 400;

fn project(text: &str) -> String {
    format!(
        "
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec: {{provider: scripted, model: any, options: {{default: {{text: {text}, chunks: {PIECES}}}}}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: a}}
spec: {{modelConfig: {{modelRef: Model/m}}}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: default}}
spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}]}}
"
    )
}

#[tokio::test]
async fn who_reads_slowly_has_the_whole_answer_in_the_end() {
    let said = "abcdefghij".repeat(PIECES / 10);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("goondan.yaml"), project(&said)).unwrap();
    let bundle = goondan::load(folder.path()).bundle.unwrap();
    let builder = Swarm::builder(bundle).state_root(folder.path()).environment(Environment::default());
    let (swarm, events) = builder.start_watched().await.unwrap();
    let hub = Hub::keeping(4, swarm.sequence_at_start());
    let (service, _serving) = Service::with_hub(hub, swarm.clone(), Broker::default(), events, String::new());
    let message = Incoming {
        id: "m".to_owned(),
        context: Some("c".to_owned()),
        task: None,
        pieces: vec![Piece::Text("go".to_owned())],
        metadata: Default::default(),
        at_once: false,
        history: None,
    };
    let begun = send::begin(&service, "a", &message, None).await.ok().unwrap();
    let id = begun.id.id.clone();
    let asked = Asked { rpc: json!(1), dialect: Dialect::V10, until: Until::Question, history: None };
    let mut body = respond(&service, begun, asked).await.ok().unwrap().into_response().into_body();
    // Nothing is read before the turn is over.
    if let Some(goondan::Found::Open(turn)) = swarm.find(&id).await {
        turn.result().await.unwrap();
    }
    let (mut text, mut pieces, mut state) = (String::new(), 0, String::new());
    while let Some(frame) = body.frame().await {
        let frame = String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap();
        for line in frame.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let response: Value = serde_json::from_str(line).unwrap();
            let result = &response["result"];
            if let Some(piece) = result["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str() {
                if result["artifactUpdate"]["append"] == false {
                    text.clear();
                }
                text.push_str(piece);
                pieces += 1;
            }
            state = result["statusUpdate"]["status"]["state"].as_str().unwrap_or_default().to_owned();
        }
    }
    assert!(pieces < PIECES, "nothing was missed: {pieces}");
    assert_eq!((&*text, &*state), (&*said, "TASK_STATE_COMPLETED"));
}
