//! Measures how fast events are accepted and acknowledged:
//! `cargo run --release -p goondan-connect --example burst`.
//!
//! Sends ten thousand signed Slack events for a hundred threads, with the store on disk and a mock
//! of Slack. Then sends events for a model that takes ten seconds.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints its results and may panic"
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use futures::StreamExt as _;
use goondan::gateway::SwarmGateway;
use goondan::spec::Environment;
use goondan::{ApprovalBroker, Swarm};
use goondan_connect::{ConnectionOptions, Connections};
use ring::hmac;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const EVENTS: usize = 10_000;
const THREADS: usize = 100;
/// Maximum number of concurrent requests.
const OPEN: usize = 256;
const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

type Answers = Arc<Mutex<HashMap<String, Vec<String>>>>;

#[tokio::main]
async fn main() {
    let answers = Answers::default();
    let base = slack(Arc::clone(&answers)).await;
    burst(&base, &answers).await;
    slow(&base).await;
}

/// Starts a mock of Slack that records the answers of each thread.
async fn slack(answers: Answers) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let take = async |State(answers): State<Answers>, Json(body): Json<Value>| {
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        answers
            .lock()
            .unwrap()
            .entry(text("thread_ts"))
            .or_default()
            .push(text("text"));
        Json(json!({"ok": true, "ts": "1.1"}))
    };
    let router = Router::new()
        .route("/chat.postMessage", post(take))
        .with_state(answers);
    tokio::spawn(async move { axum::serve(listener, router).await });
    base
}

async fn start(state: &std::path::Path, base: &str, delay: u64) -> (Swarm, Connections) {
    let project = tempfile::tempdir().unwrap();
    let text = format!(
        "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {{name: m}}\nspec: {{provider: scripted, model: any, options: \
         {{default: {{text: \"{{{{ last }}}}\", delayMs: {delay}}}}}}}\n---\napiVersion: goondan.ai/v1\nkind: Agent\nmetadata: \
         {{name: a}}\nspec: {{modelConfig: {{modelRef: Model/m}}}}\n---\napiVersion: goondan.ai/v1\nkind: Swarm\nmetadata: \
         {{name: default}}\nspec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}]}}\n---\napiVersion: \
         goondan.ai/v1\nkind: Connection\nmetadata: {{name: team}}\nspec:\n  connectorRef: Connector/slack\n  config: \
         {{apiBaseUrl: {{value: \"{base}\"}}}}\n  secrets: {{botToken: {{value: t}}, signingSecret: {{value: {SECRET}}}}}\n"
    );
    std::fs::write(project.path().join("goondan.yaml"), text).unwrap();
    let loaded = goondan::load(project.path());
    assert_eq!(loaded.diagnostics, []);
    let workspace = goondan::Workspace {
        id: "w".to_owned(),
        dir: state.join("w"),
    };
    let builder = Swarm::builder(loaded.bundle.unwrap())
        .state_root(state)
        .workspace(workspace);
    let swarm = builder
        .environment(Environment::default())
        .start()
        .await
        .unwrap();
    let connections = Connections::begin(
        SwarmGateway::open(swarm.clone(), ApprovalBroker::default()),
        ConnectionOptions {
            has_server: true,
            ..ConnectionOptions::default()
        },
    )
    .await;
    (swarm, connections)
}

/// Delivers an event. Returns the time until its acknowledgement.
async fn deliver(router: Router, thread: usize, number: usize) -> Duration {
    let ts = format!("1700000000.{number:06}");
    let body = json!({"type": "event_callback", "team_id": "T1", "event": {
        "type": "message", "channel": "C1", "user": "U1", "ts": ts, "thread_ts": format!("{thread}"), "text": format!("{number}"),
    }})
    .to_string();
    let at = chrono::Utc::now().timestamp().to_string();
    let tag = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()),
        format!("v0:{at}:{body}").as_bytes(),
    );
    let hex: String = tag
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let request = Request::post("/connect/team").header("x-slack-request-timestamp", at);
    let request = request
        .header("x-slack-signature", format!("v0={hex}"))
        .body(Body::from(body))
        .unwrap();
    let begin = Instant::now();
    assert_eq!(
        router.oneshot(request).await.unwrap().status(),
        StatusCode::OK
    );
    begin.elapsed()
}

async fn burst(base: &str, answers: &Answers) {
    let state = tempfile::tempdir().unwrap();
    let (_swarm, connections) = start(state.path(), base, 0).await;
    let begin = Instant::now();
    let router = connections.router();
    // Each thread delivers its events one after another; threads run concurrently.
    let threads = futures::stream::iter(0..THREADS).map(|thread| {
        let router = router.clone();
        tokio::spawn(async move {
            for round in 0..EVENTS / THREADS {
                deliver(router.clone(), thread, round * THREADS + thread).await;
            }
        })
    });
    threads
        .buffer_unordered(OPEN)
        .for_each(async |done| done.unwrap())
        .await;
    let accepted = begin.elapsed();
    while answers
        .lock()
        .unwrap()
        .values()
        .map(Vec::len)
        .sum::<usize>()
        < EVENTS
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let answered = begin.elapsed();
    let answers = answers.lock().unwrap();
    let in_order = answers.iter().filter(|(thread, texts)| {
        let expected = (0..EVENTS / THREADS)
            .map(|round| format!("{}", round * THREADS + thread.parse::<usize>().unwrap()));
        texts.iter().eq(expected.collect::<Vec<_>>().iter())
    });
    println!("events {EVENTS}, threads {THREADS}");
    println!(
        "accepted in {accepted:.2?}: {:.0} a second",
        EVENTS as f64 / accepted.as_secs_f64()
    );
    println!(
        "answered in {answered:.2?}: {:.0} a second",
        EVENTS as f64 / answered.as_secs_f64()
    );
    println!(
        "threads that were answered in order: {} of {THREADS}",
        in_order.count()
    );
}

/// Checks that the acknowledgement does not wait for the model.
async fn slow(base: &str) {
    let state = tempfile::tempdir().unwrap();
    let (swarm, connections) = start(state.path(), base, 10_000).await;
    let mut times = Vec::new();
    for number in 0..200 {
        times.push(deliver(connections.router(), number, 900_000 + number).await);
    }
    times.sort_unstable();
    println!(
        "while the model takes 10 s: acknowledged in {:.1?} (median), {:.1?} (longest)",
        times[100], times[199]
    );
    swarm.kill();
}
