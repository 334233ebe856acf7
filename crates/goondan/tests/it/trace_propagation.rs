//! Trace context in requests to model providers, MCP servers and A2A agents.

use goondan::start::telemetry::otlp::TracesRequest;
use goondan::start::telemetry::{CallerTrace, TelemetrySettings};
use goondan::{Input, Swarm};
use prost::Message;
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Mock model provider that first calls both tools and then finishes.
struct MockProvider;

impl Respond for MockProvider {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let is_first = body["messages"].as_array().unwrap().last().unwrap()["role"] == "user";
        let call = |index: u64, name: &str, arguments: Value| {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            json!({"index": index, "id": format!("c{index}"), "type": "function", "function": function})
        };
        let delta = match is_first {
            true => {
                json!({"tool_calls": [call(0, "far__pid", json!({})), call(1, "travel__ask", json!({"message": "hi"}))]})
            }
            false => json!({"content": "done"}),
        };
        let reason = if is_first { "tool_calls" } else { "stop" };
        let piece = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        ResponseTemplate::new(200).set_body_raw(
            format!("data: {piece}\n\ndata: [DONE]\n\n"),
            "text/event-stream",
        )
    }
}

/// Mock MCP server with one tool.
struct MockMcpServer;

impl Respond for MockMcpServer {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let message: Value = serde_json::from_slice(&request.body).unwrap();
        let info = json!({"name": "far", "version": "1"});
        let result = match message["method"].as_str().unwrap() {
            "initialize" => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
            }
            "tools/list" => json!({"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": [{"type": "text", "text": "7"}]}),
            _ if message.get("id").is_none() => return ResponseTemplate::new(202),
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
                return ResponseTemplate::new(200).set_body_json(answer);
            }
        };
        ResponseTemplate::new(200)
            .set_body_json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}

/// Starts mocks of all servers at one address.
async fn start_mock_server() -> MockServer {
    let server = MockServer::builder().start().await;
    let mock = |verb: &str, route: &str| Mock::given(method(verb)).and(path(route));
    let card = json!({
        "name": "planner", "description": "Plans.", "version": "1", "capabilities": {}, "skills": [],
        "supportedInterfaces": [
            {"url": format!("{}/a2a", server.uri()), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        ],
    });
    let message = json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "by train"}]}});
    let a2a_response = json!({"jsonrpc": "2.0", "id": 1, "result": message});
    mock("POST", "/v1/traces")
        .respond_with(ResponseTemplate::new(200))
        .mount(&server)
        .await;
    mock("POST", "/v1/chat/completions")
        .respond_with(MockProvider)
        .mount(&server)
        .await;
    mock("POST", "/mcp")
        .respond_with(MockMcpServer)
        .mount(&server)
        .await;
    mock("GET", "/mcp")
        .respond_with(ResponseTemplate::new(405))
        .mount(&server)
        .await;
    mock("GET", "/.well-known/agent-card.json")
        .respond_with(ResponseTemplate::new(200).set_body_json(card))
        .mount(&server)
        .await;
    mock("POST", "/a2a")
        .respond_with(ResponseTemplate::new(200).set_body_json(a2a_response))
        .mount(&server)
        .await;
    server
}

fn project(address: &str) -> String {
    format!(
        r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec: {{provider: lmstudio, model: any, endpoint: "{address}/v1"}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {{name: far}}
spec: {{mcp: {{url: "{address}/mcp"}}}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {{name: travel}}
spec: {{a2a: {{url: "{address}"}}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: a}}
spec:
  modelConfig: {{modelRef: Model/m}}
  tools: [{{ref: Tool/far}}, {{ref: Tool/travel}}]
  permissions: {{default: allow}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: default}}
spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}]}}
"#
    )
}

/// Requests of a turn to the mock servers.
struct RecordedRequests {
    requests: Vec<Request>,
}

/// Runs a turn with these telemetry variables. Without variables, no spans are exported.
async fn record_turn(variables: &[(&str, &str)], caller: Option<&str>) -> RecordedRequests {
    let server = start_mock_server().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("goondan.yaml"), project(&server.uri())).unwrap();
    let bundle = goondan::load(folder.path()).bundle.unwrap();
    let get = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => variables.first().map(|_| server.uri()),
        name => variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned()),
    };
    let builder = Swarm::builder(bundle).state_root(folder.path().join("state"));
    let swarm = builder
        .telemetry(TelemetrySettings::read(get).unwrap())
        .start()
        .await
        .unwrap();
    let caller = caller.and_then(|header| CallerTrace::read(header, ["a=1"]));
    let turn = swarm
        .send(Input {
            caller,
            ..Input::text("go")
        })
        .await
        .unwrap();
    let result = turn.result().await.unwrap();
    assert_eq!(result.response_text(), "done", "{result:?}");
    swarm.shutdown().await;
    RecordedRequests {
        requests: server.received_requests().await.unwrap(),
    }
}

impl RecordedRequests {
    fn requests_to<'s>(&'s self, route: &'s str) -> impl Iterator<Item = &'s Request> {
        self.requests
            .iter()
            .filter(move |request| request.url.path() == route)
    }

    /// Returns `traceparent` and `tracestate` of the requests to the model provider, the A2A agent
    /// and the MCP server, which receives them in `_meta`.
    fn trace_headers(&self) -> [(Option<String>, Option<String>); 3] {
        let header = |request: &Request, name: &str| {
            request
                .headers
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let headers = |request: &Request| {
            (
                header(request, "traceparent"),
                header(request, "tracestate"),
            )
        };
        let call = self.requests_to("/mcp").find_map(|request| {
            let message: Value = serde_json::from_slice(&request.body).ok()?;
            (message["method"] == "tools/call").then(|| message["params"]["_meta"].clone())
        });
        let meta = |name: &str| call.as_ref().unwrap()[name].as_str().map(str::to_owned);
        let model = headers(self.requests_to("/v1/chat/completions").next().unwrap());
        [
            model,
            headers(self.requests_to("/a2a").next().unwrap()),
            (meta("traceparent"), meta("tracestate")),
        ]
    }

    /// Returns the first exported span with this name as a `traceparent` value.
    fn span(&self, name: &str) -> String {
        let bodies = self
            .requests_to("/v1/traces")
            .map(|request| TracesRequest::decode(&*request.body).unwrap());
        let spans = bodies
            .flat_map(|body| body.resource_spans)
            .flat_map(|spans| spans.scope_spans);
        let mut spans = spans
            .flat_map(|spans| spans.spans)
            .filter(|span| span.name == name)
            .collect::<Vec<_>>();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        let hex = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        format!(
            "00-{}-{}-01",
            hex(&spans[0].trace_id),
            hex(&spans[0].span_id)
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_receive_the_span_of_their_request() {
    let recorded = record_turn(&[("OTEL_SERVICE_NAME", "s")], Some(CALLER)).await;
    let spans = [
        "chat any",
        "execute_tool travel__ask",
        "execute_tool far__pid",
    ]
    .map(|name| recorded.span(name));
    for (headers, span) in recorded.trace_headers().into_iter().zip(spans) {
        assert!(
            span.contains(&CALLER[3..35]),
            "{span} is in the trace of the caller"
        );
        assert_eq!(headers, (Some(span), Some("a=1".to_owned())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_telemetry_the_caller_trace_is_forwarded() {
    for headers in record_turn(&[], Some(CALLER)).await.trace_headers() {
        assert_eq!(headers, (Some(CALLER.to_owned()), Some("a=1".to_owned())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_trace_no_trace_headers_are_sent() {
    assert_eq!(
        record_turn(&[], None).await.trace_headers(),
        [(None, None), (None, None), (None, None)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsampled_trace_is_forwarded_with_the_unsampled_flag() {
    let recorded = record_turn(&[("OTEL_TRACES_SAMPLER", "always_off")], None).await;
    for (parent, state) in recorded.trace_headers() {
        assert!(parent.unwrap().ends_with("-00"));
        assert_eq!(state, None);
    }
    assert_eq!(recorded.requests_to("/v1/traces").count(), 0);
}
