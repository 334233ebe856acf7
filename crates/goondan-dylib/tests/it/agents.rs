//! A library that calls other agents.

use serde_json::json;

use crate::support::{Bench, Engine};

#[tokio::test]
async fn a_tool_asks_another_agent() {
    let bench = Bench::new();
    let agent = bench.example("ask_agent").await;
    for export in ["ask", "ask-blocking"] {
        let engine = Engine::new();
        let output = agent
            .call_in(
                &engine,
                export,
                json!({ "agent": "writer", "question": "why?" }),
            )
            .await;
        let output = output.expect("it answers");
        assert_eq!(output.output, json!({ "answer": "you asked: why?" }));
        assert_eq!(
            *engine.heard.asked.lock().expect("not poisoned"),
            ["request writer: why?"]
        );
        if export == "ask" {
            assert_eq!(output.title.as_deref(), Some("asked writer"));
            assert_eq!(output.metadata["correlationId"], "k1");
        }
    }
}

#[tokio::test]
async fn the_errors_of_the_runtime_reach_the_tool_and_pass_through_it() {
    let bench = Bench::new();
    let agent = bench.example("ask_agent").await;
    let error = agent
        .call("ask", json!({ "agent": "nobody", "question": "?" }))
        .await
        .expect_err("it fails");
    assert_eq!(error.code.as_deref(), Some("AGENT_NOT_FOUND"));
    assert_eq!(error.suggestion.as_deref(), Some("ask writer"));
}

#[tokio::test]
async fn spawn_send_list_and_catalog_work() {
    let bench = Bench::new();
    let agent = bench.example("ask_agent").await;
    let engine = Engine::new();
    let output = agent
        .call_in(
            &engine,
            "delegate",
            json!({ "agent": "writer", "task": "write" }),
        )
        .await;
    let expected = json!({ "helper": "writer-1", "accepted": true, "helpers": ["writer-1"] });
    assert_eq!(output.expect("it answers").output, expected);
    assert_eq!(
        *engine.heard.asked.lock().expect("not poisoned"),
        ["send writer:writer-1: write"]
    );
    let error = agent
        .call("delegate", json!({ "agent": "nobody", "task": "x" }))
        .await
        .expect_err("it fails");
    assert_eq!(error.suggestion.as_deref(), Some("ask one of writer"));
}

#[tokio::test]
async fn a_question_that_waits_ends_with_its_call() {
    let bench = Bench::new();
    let agent = bench.example("ask_agent").await;
    for export in ["ask", "ask-blocking"] {
        let engine = Engine::new();
        let cancel = async {
            engine.progress().await;
            engine.context.cancellation.cancel();
        };
        let question = json!({ "agent": "silent", "question": "?" });
        let (result, ()) = tokio::join!(agent.call_in(&engine, export, question), cancel);
        let error = result.expect_err("it was cancelled");
        assert_eq!(error.code.as_deref(), Some("E_TOOL_CANCELLED"));
        assert_eq!(
            error.message,
            "the call ended while `runtime.request` was waiting"
        );
    }
}
