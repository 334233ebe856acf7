use serde_json::json;

use crate::bench::{Bench, with_unknown};

#[tokio::test]
async fn a_list_is_written_as_a_whole_and_read_back() {
    let bench = Bench::new();
    let empty = bench.ok("todo__read", json!({})).await;
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
    let output = bench
        .call("todo__write", json!({"todos": todos}))
        .await
        .unwrap();
    assert_eq!(output.title.as_deref(), Some("1 of 3 tasks done"));
    assert_eq!(
        output.metadata["todos"][2],
        json!({"content": "act", "status": "pending"})
    );
    let read = bench.ok("todo__read", json!({})).await;
    assert_eq!(read, output.output);
    assert_eq!(
        (&read["pending"], &read["in_progress"], &read["cancelled"]),
        (&json!(1), &json!(1), &json!(1))
    );
    bench.ok("todo__write", json!({"todos": []})).await;
    assert_eq!(bench.ok("todo__read", json!({})).await, empty);
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let bench = Bench::new();
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
        let (code, _) = bench.err(&format!("todo__{export}"), args.clone()).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}
