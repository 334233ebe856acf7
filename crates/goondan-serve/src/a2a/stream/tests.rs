//! Task streams with slow and with disconnected clients.

use axum::response::IntoResponse;
use goondan::gateway::SwarmGateway;
use goondan::spec::Environment;
use goondan::{ApprovalBroker, Swarm};
use http_body_util::BodyExt;

use super::super::message::IncomingMessage;
use super::super::send;
use super::*;

/// Number of text deltas; exceeds the gateway buffer and the read-ahead of a stream.
const PIECES: usize = 400;

fn project(text: &str) -> String {
    format!(
        "
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec:
  provider: scripted
  model: any
  options:
    rules:
      - when: {{role: user, contains: write}}
        reply: {{calls: [{{id: w, tool: file-system__write, args: {{path: n, content: hi}}}}]}}
      - {{when: {{contains: slow}}, reply: {{text: late, delayMs: 600000}}}}
    default: {{text: {text}, chunks: {PIECES}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: a}}
spec:
  modelConfig: {{modelRef: Model/m}}
  tools: [{{ref: Tool/file-system}}]
  permissions: {{default: allow, rules: [{{permission: write, action: ask}}]}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: default}}
spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}]}}
"
    )
}

/// Starts a swarm and a service for it.
async fn start_service(
    text: &str,
    directory: &std::path::Path,
) -> (Service, Swarm, ApprovalBroker, crate::ServiceGuard) {
    std::fs::write(directory.join("goondan.yaml"), project(text)).unwrap();
    let bundle = goondan::load(directory).bundle.unwrap();
    let broker = ApprovalBroker::default();
    let builder = Swarm::builder(bundle)
        .state_root(directory)
        .environment(Environment::default())
        .approver(std::sync::Arc::new(broker.clone()));
    let swarm = builder.start().await.unwrap();
    let (service, guard) = Service::begin_with(
        swarm.clone(),
        broker.clone(),
        String::new(),
        |swarm, broker| SwarmGateway::with_buffer(swarm, broker, 4),
    );
    (service, swarm, broker, guard)
}

fn incoming(id: &str, text: &str) -> IncomingMessage {
    IncomingMessage {
        id: id.to_owned(),
        context: Some("c".to_owned()),
        task: None,
        pieces: vec![TaskPart::Text(text.to_owned())],
        metadata: Default::default(),
        at_once: false,
        history: None,
    }
}

fn stream_request() -> StreamRequest {
    StreamRequest {
        rpc: json!(1),
        dialect: ProtocolVersion::V10,
        until: StreamEnd::Question,
        history: None,
    }
}

#[tokio::test]
async fn an_approval_request_survives_a_disconnected_stream() {
    let directory = tempfile::tempdir().unwrap();
    let (service, swarm, broker, _guard) = start_service("x", directory.path()).await;
    // The first task keeps the conversation busy, so the second one waits.
    let busy = send::begin(&service, "a", &incoming("1", "slow"), None)
        .await
        .ok()
        .unwrap();
    let begun = send::begin(&service, "a", &incoming("2", "write"), None)
        .await
        .ok()
        .unwrap();
    let (first, id) = (busy.id.id.clone(), begun.id.clone());
    drop(busy);
    let mut body = stream_task(&service, begun, stream_request())
        .into_response()
        .into_body();
    assert!(body.frame().await.is_some(), "the stream sends the task");
    drop(body);
    assert!(swarm.cancel_event(&first).await);
    let status = tokio::time::timeout(std::time::Duration::from_secs(60), async {
        loop {
            let task = Task::find(&service, &id).await.unwrap();
            if ![TaskState::Submitted, TaskState::Working].contains(&task.status.state) {
                break task.status.state;
            }
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(
        (status.await.unwrap(), broker.open().len()),
        (TaskState::InputRequired, 1)
    );
}

#[tokio::test]
async fn a_slow_reader_receives_the_whole_answer() {
    let answer = "abcdefghij".repeat(PIECES / 10);
    let directory = tempfile::tempdir().unwrap();
    let (service, swarm, _broker, _guard) = start_service(&answer, directory.path()).await;
    let begun = send::begin(&service, "a", &incoming("m", "go"), None)
        .await
        .ok()
        .unwrap();
    let id = begun.id.id.clone();
    let mut body = stream_task(&service, begun, stream_request())
        .into_response()
        .into_body();
    // Reads nothing before the turn ends.
    if let Some(goondan::SubmittedEventState::Open(turn)) = swarm.find(&id).await {
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
            state = result["statusUpdate"]["status"]["state"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
        }
    }
    assert!(pieces < PIECES, "no event was missed: {pieces} deltas");
    assert_eq!((&*text, &*state), (&*answer, "TASK_STATE_COMPLETED"));
}
