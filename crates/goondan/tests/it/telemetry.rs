//! Spans that a swarm exports to an OTLP endpoint.
use std::collections::BTreeMap;

use goondan::spec::Environment;
use goondan::start::telemetry::otlp::{AttributeValue, OtlpSpan, TracesRequest};
use goondan::start::telemetry::{CallerTrace, TelemetrySettings};
use goondan::{Input, Swarm};
use prost::Message;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

const PROJECT: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: any
  pricing: {input: 2, cachedInput: 1, output: 10}
  options:
    agents:
      boss:
        - calls: [{id: ask, tool: agents__request, args: {target: worker, input: "the word is opensesame"}}]
          usage: {promptTokens: 1000000, completionTokens: 100000, cachedTokens: 500000}
        - text: done
      worker:
        - calls: [{id: no, tool: nope__nope, args: {}}]
        - text: yes
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: boss}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/agents}]}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: worker}
spec: {modelConfig: {modelRef: Model/m}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/boss, agents: [{ref: Agent/boss}, {ref: Agent/worker}]}
"#;

/// Runs one turn and returns its spans by agent and name.
async fn spans(extra_variables: &[(&str, &str)]) -> BTreeMap<String, OtlpSpan> {
    spans_of(extra_variables, Input::text("go")).await
}

async fn spans_of(extra_variables: &[(&str, &str)], input: Input) -> BTreeMap<String, OtlpSpan> {
    let server = MockServer::builder().start().await;
    Mock::given(path("/v1/traces"))
        .respond_with(ResponseTemplate::new(200))
        .mount(&server)
        .await;
    let address = server.uri();
    let variables: Vec<_> = [("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str())]
        .iter()
        .chain(extra_variables)
        .copied()
        .collect();
    let get = |name: &str| {
        variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("goondan.yaml"), PROJECT).unwrap();
    let bundle = goondan::load(folder.path()).bundle.unwrap();
    let swarm = Swarm::builder(bundle)
        .state_root(folder.path().join("state"))
        .environment(Environment::from_iter([(
            "WORD_KEY".to_owned(),
            "opensesame".to_owned(),
        )]))
        .telemetry(TelemetrySettings::read(get).unwrap())
        .start()
        .await
        .unwrap();
    let turn = swarm.send(input).await.unwrap();
    assert_eq!(turn.result().await.unwrap().response_text(), "done");
    swarm.shutdown().await;
    let requests = server.received_requests().await.unwrap();
    let bodies = requests
        .iter()
        .map(|request| TracesRequest::decode(&*request.body).unwrap());
    let spans = bodies
        .flat_map(|body| body.resource_spans)
        .flat_map(|spans| spans.scope_spans);
    let mut by_name = BTreeMap::new();
    for span in spans.flat_map(|spans| spans.spans) {
        let agent = text(&span, "gen_ai.agent.name");
        by_name.insert(format!("{agent}: {}", span.name), span);
    }
    by_name
}

fn text(span: &OtlpSpan, key: &str) -> String {
    match value(span, key) {
        Some(AttributeValue::Text(text)) => text,
        other => panic!("{key} of {} is {other:?}", span.name),
    }
}

fn value(span: &OtlpSpan, key: &str) -> Option<AttributeValue> {
    span.attributes
        .iter()
        .find(|attribute| attribute.key == key)?
        .value
        .clone()?
        .value
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spans_of_a_turn_form_one_tree_across_agents() {
    let spans = spans(&[]).await;
    let assert_is_child = |child: &str, parent: &str| {
        assert_eq!(
            spans[child].parent_span_id, spans[parent].span_id,
            "{child} is a child of {parent}"
        );
        assert_eq!(spans[child].trace_id, spans[parent].trace_id);
        assert!(
            spans[child].start_time_unix_nano >= spans[parent].start_time_unix_nano,
            "{child} starts after {parent}"
        );
        assert!(
            spans[child].end_time_unix_nano <= spans[parent].end_time_unix_nano,
            "{child} ends before {parent}"
        );
    };
    assert!(spans["boss: invoke_agent boss"].parent_span_id.is_empty());
    assert_is_child("boss: step 0", "boss: invoke_agent boss");
    assert_is_child("boss: execute_tool agents__request", "boss: step 0");
    assert_is_child(
        "worker: invoke_agent worker",
        "boss: execute_tool agents__request",
    );
    assert_is_child("worker: step 0", "worker: invoke_agent worker");
    assert_is_child("worker: execute_tool nope__nope", "worker: step 0");
    assert_is_child("worker: chat any", "worker: step 1");
    let names: Vec<_> = spans.keys().map(String::as_str).collect();
    assert_eq!(names.len(), 10, "{names:?}");
    assert_eq!(
        text(&spans["worker: execute_tool nope__nope"], "error.type"),
        "E_TOOL_NOT_IN_CATALOG"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_tokens_cost_the_cached_input_price_of_the_model() {
    let spans = spans(&[]).await;
    let turn = &spans["boss: invoke_agent boss"];
    assert_eq!(
        value(turn, "gen_ai.usage.cache_read.input_tokens"),
        Some(AttributeValue::Int(500_000))
    );
    assert_eq!(
        value(turn, "goondan.cost.amount"),
        Some(AttributeValue::Double(2.5))
    );
    assert_eq!(text(turn, "goondan.cost.currency"), "USD");
}

#[tokio::test(flavor = "multi_thread")]
async fn captured_message_content_contains_no_secrets() {
    let variable = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let spans = spans(&[variable]).await;
    let arguments = text(
        &spans["boss: execute_tool agents__request"],
        "gen_ai.tool.call.arguments",
    );
    assert_eq!(
        arguments,
        r#"{"target":"worker","input":"the word is ***"}"#
    );
    let chat = &spans["boss: chat any"];
    let json = |key: &str| serde_json::from_str::<serde_json::Value>(&text(chat, key)).unwrap();
    let input = json("gen_ai.input.messages");
    assert_eq!(
        input[0],
        serde_json::json!({"role": "user", "parts": [{"type": "text", "content": "go"}]})
    );
    let call = serde_json::json!({"target": "worker", "input": "the word is ***"});
    assert_eq!(
        input[1]["parts"],
        serde_json::json!([{"type": "tool_call", "id": "ask", "name": "agents__request", "arguments": call}])
    );
    assert_eq!(
        (&input[2]["role"], &input[2]["parts"][0]["type"]),
        (&"tool".into(), &"tool_call_response".into())
    );
    let output_parts = serde_json::json!([{"type": "text", "content": "done"}]);
    assert_eq!(
        json("gen_ai.output.messages"),
        serde_json::json!([{"role": "assistant", "parts": output_parts, "finish_reason": "stop"}])
    );
    assert!(!format!("{spans:?}").contains("opensesame"));
}

#[tokio::test(flavor = "multi_thread")]
async fn message_content_is_not_captured_by_default() {
    let spans = spans(&[]).await;
    let keys = spans
        .values()
        .flat_map(|span| &span.attributes)
        .map(|attribute| &*attribute.key);
    let content_keys =
        keys.filter(|key| key.ends_with("messages") || key.starts_with("gen_ai.tool.call.a"));
    assert_eq!(content_keys.collect::<Vec<_>>(), [""; 0]);
}

fn input_with_caller(flags: &str) -> Input {
    let traceparent = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
    Input {
        caller: CallerTrace::read(&traceparent, ["a=1"]),
        ..Input::text("go")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_continues_the_trace_of_its_caller() {
    let spans = spans_of(&[], input_with_caller("01")).await;
    assert_eq!(spans.len(), 10);
    for span in spans.values() {
        assert_eq!(
            span.trace_id,
            0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes(),
            "{}",
            span.name
        );
        assert_eq!(span.trace_state, "a=1");
    }
    assert_eq!(
        spans["boss: invoke_agent boss"].parent_span_id,
        0xb7ad_6b71_6920_3331_u64.to_be_bytes()
    );
    let request = &spans["boss: execute_tool agents__request"];
    assert_eq!(
        spans["worker: invoke_agent worker"].parent_span_id,
        request.span_id
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsampled_caller_trace_is_not_exported_by_default() {
    assert!(spans_of(&[], input_with_caller("00")).await.is_empty());
    let spans = spans_of(
        &[("OTEL_TRACES_SAMPLER", "always_on")],
        input_with_caller("00"),
    )
    .await;
    assert_eq!(
        spans.len(),
        10,
        "`always_on` ignores the flag of the caller"
    );
}
