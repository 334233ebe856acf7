//! A library that calls other agents.

use serde_json::json;

use crate::support::{LibraryFixture, MockEngine};

#[tokio::test]
async fn a_tool_can_call_another_agent() {
    let fixture = LibraryFixture::new();
    let agent = fixture.example("ask_agent").await;
    for export in ["ask", "ask-blocking"] {
        let engine = MockEngine::new();
        let output = agent
            .call_in(
                &engine,
                export,
                json!({ "agent": "writer", "question": "why?" }),
            )
            .await;
        let output = output.expect("the call succeeds");
        assert_eq!(output.output, json!({ "answer": "you asked: why?" }));
        assert_eq!(
            *engine.recorded.agent_requests.lock().expect("not poisoned"),
            ["request writer: why?"]
        );
        if export == "ask" {
            assert_eq!(output.title.as_deref(), Some("asked writer"));
            assert_eq!(output.metadata["correlationId"], "k1");
        }
    }
}

#[tokio::test]
async fn runtime_errors_reach_the_tool_and_its_caller() {
    let fixture = LibraryFixture::new();
    let agent = fixture.example("ask_agent").await;
    let error = agent
        .call("ask", json!({ "agent": "nobody", "question": "?" }))
        .await
        .expect_err("the call fails");
    assert_eq!(error.code.as_deref(), Some("AGENT_NOT_FOUND"));
    assert_eq!(error.suggestion.as_deref(), Some("ask writer"));
}

#[tokio::test]
async fn a_tool_can_spawn_message_and_list_agents() {
    let fixture = LibraryFixture::new();
    let agent = fixture.example("ask_agent").await;
    let engine = MockEngine::new();
    let output = agent
        .call_in(
            &engine,
            "delegate",
            json!({ "agent": "writer", "task": "write" }),
        )
        .await;
    let expected = json!({ "helper": "writer-1", "accepted": true, "helpers": ["writer-1"] });
    assert_eq!(output.expect("the call succeeds").output, expected);
    assert_eq!(
        *engine.recorded.agent_requests.lock().expect("not poisoned"),
        ["send writer:writer-1: write"]
    );
    let error = agent
        .call("delegate", json!({ "agent": "nobody", "task": "x" }))
        .await
        .expect_err("the call fails");
    assert_eq!(error.suggestion.as_deref(), Some("ask one of writer"));
}

#[tokio::test]
async fn a_waiting_agent_request_ends_when_its_call_is_cancelled() {
    let fixture = LibraryFixture::new();
    let agent = fixture.example("ask_agent").await;
    for export in ["ask", "ask-blocking"] {
        let engine = MockEngine::new();
        let cancel = async {
            engine.wait_for_progress().await;
            engine.context.cancellation.cancel();
        };
        let question = json!({ "agent": "silent", "question": "?" });
        let (result, ()) = tokio::join!(agent.call_in(&engine, export, question), cancel);
        let error = result.expect_err("the call is cancelled");
        assert_eq!(error.code.as_deref(), Some("E_TOOL_CANCELLED"));
        assert_eq!(
            error.message,
            "the call ended while `runtime.request` was waiting"
        );
    }
}
