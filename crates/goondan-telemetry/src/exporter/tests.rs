use std::sync::Arc;

use goondan_core::event::{FinishReason, RuntimeEvent, RuntimeEventKind};
use goondan_core::ids::TraceContext;
use prost::Message;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;

fn settings(variables: &[(&str, &str)]) -> TelemetrySettings {
    let get = |name: &str| {
        variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    TelemetrySettings::read(get).unwrap()
}

fn start(variables: &[(&str, &str)]) -> (TelemetryExporter, UnboundedSender<SwarmEvent>) {
    let (sender, events) = unbounded_channel();
    let identity = ProcessIdentity {
        version: "1".into(),
        swarm: Some("s".into()),
        instance: "i".into(),
    };
    (
        TelemetryExporter::start(settings(variables), &identity, events).unwrap(),
        sender,
    )
}

fn turn_completed(turn: &str) -> SwarmEvent {
    let kind = RuntimeEventKind::TurnCompleted {
        turn_id: turn.into(),
        step_count: 1,
        duration: 1,
        finish_reason: FinishReason::TextResponse,
        model_finish_reason: None,
        token_usage: None,
        cost: None,
    };
    SwarmEvent::Runtime(Arc::new(RuntimeEvent {
        kind,
        sequence: 1,
        timestamp: std::time::SystemTime::UNIX_EPOCH.into(),
        agent_name: turn.into(),
        instance_key: "main".into(),
        trace: TraceContext::root("0af7651916cd43dd8448eb211c80319c", None, turn),
    }))
}

async fn received_span_names(server: &MockServer) -> Vec<String> {
    let requests = server.received_requests().await.unwrap();
    let bodies = requests
        .iter()
        .map(|request| TracesRequest::decode(&*request.body).unwrap());
    let spans = bodies
        .flat_map(|body| body.resource_spans)
        .flat_map(|spans| spans.scope_spans);
    spans
        .flat_map(|spans| spans.spans)
        .map(|span| span.name)
        .collect()
}

#[tokio::test]
async fn spans_are_retried_after_a_503_response() {
    let server = MockServer::builder().start().await;
    let busy = ResponseTemplate::new(503).insert_header("Retry-After", "0");
    Mock::given(method("POST"))
        .respond_with(busy)
        .up_to_n_times(2)
        .mount(&server)
        .await;
    let (accepted, wait) = tokio::sync::oneshot::channel();
    let accepted = std::sync::Mutex::new(Some(accepted));
    let answer = move |_: &wiremock::Request| {
        accepted
            .lock()
            .unwrap()
            .take()
            .map(|accepted| accepted.send(()));
        ResponseTemplate::new(200)
    };
    Mock::given(path("/v1/traces"))
        .and(header("x-key", "a b"))
        .respond_with(answer)
        .mount(&server)
        .await;
    let (telemetry, sender) = start(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &server.uri()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
    ]);
    sender.send(turn_completed("a")).unwrap();
    wait.await.unwrap();
    telemetry.end().await;
    assert_eq!(received_span_names(&server).await, ["invoke_agent a"; 3]);
    assert_eq!(telemetry.dropped(), 0);
}

#[tokio::test]
async fn rejected_spans_are_dropped_and_counted() {
    let server = MockServer::builder().start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(400))
        .mount(&server)
        .await;
    let (telemetry, sender) = start(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &server.uri())]);
    sender.send(turn_completed("a")).unwrap();
    sender.send(turn_completed("b")).unwrap();
    telemetry.end().await;
    assert_eq!(
        received_span_names(&server).await.len(),
        2,
        "one request at shutdown, without a retry"
    );
    assert_eq!(telemetry.dropped(), 2);
}

#[tokio::test]
async fn an_unreachable_endpoint_does_not_grow_the_queue() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
    ];
    let (telemetry, sender) = start(&variables);
    (0..100).for_each(|_| sender.send(turn_completed("a")).unwrap());
    telemetry.end().await;
    assert_eq!(telemetry.dropped(), 100);
}

#[tokio::test]
async fn an_unresponsive_endpoint_does_not_block_shutdown() {
    // The server accepts connections and never answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "50"),
    ];
    let (telemetry, sender) = start(&variables);
    sender.send(turn_completed("a")).unwrap();
    telemetry.end().await;
    assert_eq!(telemetry.dropped(), 1);
}

#[tokio::test]
async fn otlp_json_encodes_ids_as_hex_and_integers_as_strings() {
    let server = MockServer::builder().start().await;
    Mock::given(header("content-type", "application/json"))
        .respond_with(ResponseTemplate::new(200))
        .mount(&server)
        .await;
    let address = server.uri();
    let (telemetry, sender) = start(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &address),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
    ]);
    sender.send(turn_completed("a")).unwrap();
    telemetry.end().await;
    assert_eq!(telemetry.dropped(), 0);
    let request = server.received_requests().await.unwrap().remove(0);
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(
        (&span["kind"], &span["endTimeUnixNano"]),
        (&1.into(), &"0".into())
    );
    assert!(span.get("parentSpanId").is_none());
    let steps = serde_json::json!({"key": "goondan.turn.steps", "value": {"intValue": "1"}});
    assert!(
        span["attributes"].as_array().unwrap().contains(&steps),
        "{span}"
    );
}

#[test]
fn retry_delays_double_up_to_a_limit() {
    let waits: Vec<_> = (1..9)
        .map(|failures| back_off(failures).as_secs())
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(back_off(500), MAX_RETRY_DELAY);
}
