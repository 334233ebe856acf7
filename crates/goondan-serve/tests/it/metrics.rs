//! Metrics for Prometheus.

use goondan::event::FinishReason;
use goondan_serve::ServerLimits;

use crate::support::{TestServer, with_timeout};

const PROJECT: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: any
  pricing: {input: 1, output: 2}
  options:
    rules:
      - when: {contains: invent, role: user}
        reply: {calls: [{id: c, tool: made__up-by-the-model, args: {}}, {id: d, tool: wait__seconds, args: {seconds: 0}}]}
      - {when: {contains: break}, reply: {error: {status: 400, message: no}}}
    default: {text: done, usage: {promptTokens: 1000000, completionTokens: 500000, cachedTokens: 250000}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/wait}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
"#;

impl TestServer {
    /// Waits until the metrics contain `line`, and returns all metrics.
    async fn counts_with(&self, line: &str) -> String {
        let token = self.endpoint.token.expose();
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/openmetrics-text\r\nConnection: close\r\n\r\n"
        );
        with_timeout(async {
            loop {
                let counts = self.raw(request.as_bytes()).await;
                if counts.lines().any(|counted| counted == line) {
                    return counts;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }
}

#[tokio::test]
async fn turns_model_calls_and_tool_calls_are_counted() {
    let state = tempfile::tempdir().unwrap();
    let server =
        TestServer::start_project(state.path(), ServerLimits::default(), PROJECT, |builder| {
            builder
        })
        .await;
    let ended = server.run_turn("invent a tool").await;
    assert_eq!(
        ended.result.unwrap().finish_reason,
        FinishReason::TextResponse
    );
    let ended = server.run_turn("break").await;
    assert_eq!(ended.result.unwrap().finish_reason, FinishReason::Error);
    let counts = server
        .counts_with(r#"gdn_turns_total{agent="a",finish_reason="error"} 1"#)
        .await;
    for line in [
        r#"gdn_build_info{version="0"} 1"#,
        r#"gdn_turns_total{agent="a",finish_reason="text_response"} 1"#,
        r#"gdn_turn_duration_seconds_count{agent="a"} 2"#,
        r#"gdn_steps_total{agent="a",outcome="ok"} 2"#,
        r#"gdn_steps_total{agent="a",outcome="error"} 1"#,
        r#"gdn_model_calls_total{agent="a",provider="scripted",model="any",outcome="ok"} 2"#,
        r#"gdn_model_calls_total{agent="a",provider="scripted",model="any",outcome="E_MODEL_STATUS"} 1"#,
        r#"gdn_model_tokens_total{agent="a",provider="scripted",model="any",kind="input"} 750000"#,
        r#"gdn_model_tokens_total{agent="a",provider="scripted",model="any",kind="cached_input"} 250000"#,
        r#"gdn_model_tokens_total{agent="a",provider="scripted",model="any",kind="output"} 500000"#,
        r#"gdn_model_cost_total{agent="a",provider="scripted",model="any",currency="USD"} 2.0"#,
        r#"gdn_tool_calls_total{agent="a",tool="wait__seconds",outcome="ok"} 1"#,
        r#"gdn_tool_calls_total{agent="a",tool="(unknown)",outcome="error"} 1"#,
        "gdn_turns_running 0",
        "# EOF",
    ] {
        assert!(
            counts.lines().any(|counted| counted == line),
            "{line}\n{counts}"
        );
    }
    assert!(
        counts.contains("content-type: application/openmetrics-text"),
        "{counts}"
    );
    assert!(
        !counts.contains("made__up"),
        "tool names that a model invents are not labels"
    );
}
