use serde_json::json;

use crate::mock_engine::{MockEngine, with_unknown};

#[tokio::test]
async fn sessions_are_listed_with_the_newest_first() {
    let engine = MockEngine::new();
    let output = engine.ok("sessions__list", json!({})).await;
    assert_eq!((&output["count"], &output["total"]), (&json!(2), &json!(2)));
    assert_eq!(output["sessions"][0]["session_id"], "worker:k");
    assert_eq!(output["sessions"][0]["owner"], "assistant:main");
    assert_eq!(output["sessions"][1]["self"], true);
    let one = engine.ok("sessions__list", json!({"limit": 1})).await;
    assert_eq!((&one["count"], &one["total"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn history_returns_the_last_messages() {
    let engine = MockEngine::new();
    let output = engine
        .ok(
            "sessions__history",
            json!({"session_id": "worker:k", "limit": 2}),
        )
        .await;
    assert_eq!(output["total"], 3);
    assert_eq!(output["messages"][0]["text"], "two");
    assert_eq!(output["messages"][1]["text"], "hi");
    for id in ["worker:nope", "worker", "../x"] {
        let (code, message) = engine
            .err("sessions__history", json!({"session_id": id}))
            .await;
        assert_eq!(code, "E_TOOL_SESSION_NOT_FOUND");
        assert!(message.contains(id), "{message}");
    }
}

#[tokio::test]
async fn send_delivers_a_message_to_the_session() {
    let engine = MockEngine::new();
    let output = engine
        .ok(
            "sessions__send",
            json!({"session_id": "worker:k", "content": "fyi"}),
        )
        .await;
    assert_eq!(
        output,
        json!({"session_id": "worker:k", "eventId": "e1", "accepted": true})
    );
    let log = engine.runtime.log.lock().unwrap().join("\n");
    assert!(
        log.contains("send worker") && log.contains("\"k\""),
        "{log}"
    );
}

#[tokio::test]
async fn a_spawned_subagent_has_restricted_permissions() {
    let engine = MockEngine::new();
    let output = engine
        .ok("sessions__spawn", json!({"prompt": "look"}))
        .await;
    assert_eq!(
        output,
        json!({"session_id": "assistant:assistant-1", "response": "kool"})
    );
    let log = engine.runtime.log.lock().unwrap().clone();
    for entry in &log {
        assert!(
            entry.contains("fs__read") && !entry.contains("fs__write"),
            "{entry}"
        );
    }
    assert_eq!(log.len(), 2);
}

#[tokio::test]
async fn subagents_and_status_return_the_session_state() {
    let engine = MockEngine::new();
    let output = engine.ok("sessions__subagents", json!({})).await;
    assert_eq!(
        (&output["count"], &output["subagents"][0]["status"]),
        (&json!(1), &json!("processing"))
    );
    let own = engine.ok("sessions__status", json!({})).await;
    assert_eq!(own["session_id"], "assistant:main");
    assert_eq!(
        own["tokens"],
        json!({"prompt": 10, "completion": 5, "total": 15})
    );
    assert!(own.get("cost").is_none());
    let other = engine
        .ok("sessions__status", json!({"session_id": "worker:k"}))
        .await;
    assert_eq!(
        (&other["messages"], &other["cost"]),
        (&json!(3), &json!({"amount": 0.3, "currency": "EUR"}))
    );
}

#[tokio::test]
async fn task_run_uses_the_named_agent() {
    let engine = MockEngine::new();
    let args = json!({"description": "Count things", "prompt": "abc", "agent": "worker"});
    let output = engine.call("task__run", args).await.unwrap();
    assert_eq!(output.title.as_deref(), Some("Count things"));
    assert_eq!(
        output.output,
        json!({"agent": "worker", "session_id": "worker:worker-1", "result": "cba"})
    );
    let args = json!({"description": "x", "prompt": "abc", "agent": "nobody"});
    assert_eq!(engine.err("task__run", args).await.0, "AGENT_NOT_FOUND");
}

#[tokio::test]
async fn sessions_and_task_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    for (tool, args) in [
        ("sessions__list", json!({"limit": 0})),
        ("sessions__list", with_unknown(json!({}))),
        ("sessions__history", json!({})),
        ("sessions__send", json!({"session_id": "worker:k"})),
        (
            "sessions__send",
            json!({"session_id": "worker:k", "content": ""}),
        ),
        ("sessions__spawn", json!({"prompt": ""})),
        ("sessions__spawn", json!({"prompt": 5})),
        ("task__run", json!({"prompt": "x", "agent": "worker"})),
        ("task__run", json!({"description": "x", "prompt": "x"})),
    ] {
        assert_eq!(
            engine.err(tool, args.clone()).await.0,
            "E_TOOL_INVALID_ARGS",
            "{tool} {args}"
        );
    }
}
