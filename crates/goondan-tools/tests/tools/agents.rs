use serde_json::json;

use crate::mock_engine::{MockEngine, with_unknown};

#[tokio::test]
async fn agents_request_returns_the_response() {
    let engine = MockEngine::new();
    assert_eq!(
        engine
            .ok(
                "agents__request",
                json!({"target": "worker", "input": "2+2"})
            )
            .await,
        json!({"target": "worker", "eventId": "e2", "correlationId": "k1", "accepted": true, "async": false, "response": "2+2"})
    );
    let log = engine.runtime.log.lock().unwrap().join("\n");
    assert!(
        log.contains("agent.request") && log.contains("timeout_ms: None"),
        "{log}"
    );
}

#[tokio::test]
async fn request_timeout_comes_from_the_call_or_the_config() {
    let engine = MockEngine::new().config(json!({"timeoutMs": 700}));
    engine
        .ok("agents__request", json!({"target": "worker", "input": "a"}))
        .await;
    engine
        .ok(
            "agents__request",
            json!({"target": "worker", "input": "b", "timeoutMs": 5}),
        )
        .await;
    let log = engine.runtime.log.lock().unwrap();
    assert!(
        log[0].contains("timeout_ms: Some(700)") && log[1].contains("timeout_ms: Some(5)"),
        "{log:?}"
    );
}

#[tokio::test]
async fn an_asynchronous_request_returns_no_response() {
    let engine = MockEngine::new();
    let args = json!({
        "target": "worker", "input": "go", "async": true, "instanceKey": "k7", "eventType": "job", "timeoutMs": 5,
        "metadata": {"a": 1},
    });
    let output = engine.ok("agents__request", args).await;
    assert_eq!(output["response"], json!(null));
    assert_eq!(output["async"], true);
    let log = engine.runtime.log.lock().unwrap().join("\n");
    for part in ["\"job\"", "\"k7\"", "Some(5)", "\"a\""] {
        assert!(log.contains(part), "{part} in {log}");
    }
}

#[tokio::test]
async fn send_spawn_list_and_catalog_return_their_results() {
    let engine = MockEngine::new();
    assert_eq!(
        engine
            .ok("agents__send", json!({"target": "worker", "input": "fyi"}))
            .await,
        json!({"target": "worker", "eventId": "e1", "accepted": true})
    );
    assert!(
        engine
            .runtime
            .log
            .lock()
            .unwrap()
            .join("")
            .contains("agent.send")
    );
    assert_eq!(
        engine
            .ok("agents__spawn", json!({"target": "worker"}))
            .await,
        json!({"target": "worker", "instanceKey": "worker-1", "spawned": true, "cwd": null})
    );
    let list = engine.ok("agents__list", json!({})).await;
    assert_eq!(list["count"], 1);
    assert_eq!(
        list["agents"][0],
        json!({"target": "worker", "instanceKey": "k", "ownerAgent": "assistant", "ownerInstanceKey": "main", "createdAt": "2026-01-15T10:00:00.000Z", "cwd": null})
    );
    assert_eq!(
        engine.ok("agents__list", json!({"includeAll": true})).await["count"],
        2
    );
    assert_eq!(
        engine.ok("agents__catalog", json!({})).await,
        json!({
            "swarmName": "default", "entryAgent": "assistant", "selfAgent": "assistant", "availableCount": 2,
            "callableCount": 1, "availableAgents": ["assistant", "worker"], "callableAgents": ["worker"],
        })
    );
}

#[tokio::test]
async fn spawn_cwd_must_be_inside_the_working_directory_of_the_caller() {
    let engine = MockEngine::new();
    let spawn = |cwd: &str| json!({"target": "worker", "cwd": cwd});
    let output = engine.ok("agents__spawn", spawn("sub/folder")).await;
    assert_eq!(output["cwd"], json!(engine.work().join("sub/folder")));
    for cwd in ["..", "/", "sub/../.."] {
        assert_eq!(
            engine.err("agents__spawn", spawn(cwd)).await.0,
            "E_TOOL_PATH_ESCAPE",
            "{cwd}"
        );
    }
}

#[tokio::test]
async fn an_unknown_target_agent_returns_the_runtime_error() {
    let engine = MockEngine::new();
    for tool in ["agents__request", "agents__send"] {
        assert_eq!(
            engine
                .err(tool, json!({"target": "nobody", "input": "x"}))
                .await
                .0,
            "AGENT_NOT_FOUND"
        );
    }
    assert_eq!(
        engine
            .err("agents__spawn", json!({"target": "nobody"}))
            .await
            .0,
        "AGENT_NOT_FOUND"
    );
}

#[tokio::test]
async fn agents_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let bad = [
        ("request", json!({"target": "worker"})),
        ("request", json!({"target": "", "input": "x"})),
        (
            "request",
            json!({"target": "worker", "input": "x", "timeoutMs": 0}),
        ),
        (
            "request",
            json!({"target": "worker", "input": "x", "timeoutMs": 86_400_001}),
        ),
        (
            "request",
            json!({"target": "worker", "input": "x", "async": "yes"}),
        ),
        ("send", json!({"target": "worker", "input": ""})),
        ("send", json!({"target": 1, "input": "x"})),
        (
            "send",
            json!({"target": "worker", "input": "x", "metadata": []}),
        ),
        ("spawn", json!({})),
        ("spawn", json!({"target": "worker", "cwd": 1})),
        ("spawn", with_unknown(json!({"target": "worker"}))),
        ("list", json!({"includeAll": 1})),
        ("list", with_unknown(json!({}))),
        ("catalog", with_unknown(json!({}))),
    ];
    for (export, args) in bad {
        let (code, _) = engine.err(&format!("agents__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}

#[tokio::test]
async fn cancelling_the_call_ends_a_pending_request() {
    let engine = MockEngine::new();
    let call = engine.err(
        "agents__request",
        json!({"target": "worker", "input": "never"}),
    );
    let ((code, _), ()) = tokio::join!(call, async { engine.cancellation.cancel() });
    assert_eq!(code, "E_TOOL_CANCELLED");
}

/// The tool timeout of the engine must not expire before the timeout of the longest request.
#[test]
fn agents_tool_timeout_exceeds_the_longest_request_timeout() {
    let agents = goondan_tools::base_tools()
        .into_iter()
        .find(|tool| tool.name == "agents")
        .unwrap();
    let request = agents
        .exports
        .iter()
        .find(|export| export.name == "request")
        .unwrap();
    let longest = request.parameters["properties"]["timeoutMs"]["maximum"]
        .as_u64()
        .unwrap();
    assert!(agents.timeout_ms.unwrap() > longest);
}
