use serde_json::json;

use crate::mock_engine::{MockEngine, with_unknown};

#[tokio::test]
async fn write_replaces_the_whole_todo_list_and_read_returns_it() {
    let engine = MockEngine::new();
    let empty = engine.ok("todo__read", json!({})).await;
    assert_eq!(
        empty,
        json!({"todos": [], "pending": 0, "in_progress": 0, "completed": 0, "cancelled": 0})
    );
    let todos = json!([
        {"content": "look", "status": "completed"},
        {"content": "think", "status": "in_progress"},
        {"content": "act"},
        {"content": "drop it", "status": "cancelled"},
    ]);
    let output = engine
        .call("todo__write", json!({"todos": todos}))
        .await
        .unwrap();
    assert_eq!(output.title.as_deref(), Some("1 of 3 tasks done"));
    assert_eq!(
        output.metadata["todos"][2],
        json!({"content": "act", "status": "pending"})
    );
    let read = engine.ok("todo__read", json!({})).await;
    assert_eq!(read, output.output);
    assert_eq!(
        (&read["pending"], &read["in_progress"], &read["cancelled"]),
        (&json!(1), &json!(1), &json!(1))
    );
    engine.ok("todo__write", json!({"todos": []})).await;
    assert_eq!(engine.ok("todo__read", json!({})).await, empty);
}

#[tokio::test]
async fn todo_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let many: Vec<_> = (0..201)
        .map(|n| json!({"content": n.to_string()}))
        .collect();
    let bad = [
        ("write", json!({})),
        ("write", json!({"todos": "a"})),
        ("write", json!({"todos": [{"content": ""}]})),
        (
            "write",
            json!({"todos": [{"content": "a", "status": "done"}]}),
        ),
        (
            "write",
            json!({"todos": [{"content": "a", "due": "today"}]}),
        ),
        ("write", json!({"todos": many})),
        ("read", with_unknown(json!({}))),
    ];
    for (export, args) in bad {
        let (code, _) = engine.err(&format!("todo__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}
