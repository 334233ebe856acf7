use serde_json::{Value, json};

use crate::mock_engine::{MockEngine, with_unknown};

async fn ok(export: &str, args: Value) -> Value {
    MockEngine::new()
        .ok(&format!("json-query__{export}"), args)
        .await
}

#[tokio::test]
async fn query_finds_values_by_path() {
    let data = r#"{"users":[{"name":"Ann"},{"name":null}]}"#;
    assert_eq!(
        ok("query", json!({"data": data, "path": "users[0].name"})).await,
        json!({"path": "users[0].name", "found": true, "value": "Ann"})
    );
    assert_eq!(
        ok("query", json!({"data": data, "path": "users[7]"})).await,
        json!({"path": "users[7]", "found": false, "value": null})
    );
    assert_eq!(
        ok("query", json!({"data": data, "path": "users[1].name"})).await["found"],
        true
    );
    assert_eq!(
        ok("query", json!({"data": "[1]"})).await,
        json!({"path": ".", "found": true, "value": [1]})
    );
}

#[tokio::test]
async fn pick_returns_existing_keys_in_the_requested_order() {
    let output = ok(
        "pick",
        json!({"data": r#"{"a":1,"b":2,"c":3}"#, "keys": ["c", "x", "a"]}),
    )
    .await;
    assert_eq!(
        output.to_string(),
        r#"{"keys":["c","x","a"],"result":{"c":3,"a":1}}"#
    );
}

#[tokio::test]
async fn count_supports_every_json_type() {
    let data = r#"{"a":[1,2],"o":{"x":1},"t":"añb","n":7,"b":false,"z":null}"#;
    let cases = [
        ("a", 2, "array"),
        ("o", 1, "object"),
        ("t", 3, "string"),
        ("n", 1, "number"),
        ("b", 1, "boolean"),
        ("z", 0, "null"),
        ("missing", 0, "null"),
    ];
    for (path, count, kind) in cases {
        let output = ok("count", json!({"data": data, "path": path})).await;
        assert_eq!(output, json!({"path": path, "count": count, "type": kind}));
    }
    assert_eq!(ok("count", json!({"data": data})).await["count"], 6);
}

#[tokio::test]
async fn flatten_removes_the_given_number_of_levels() {
    let data = "[1,[2,[3,[4]]]]";
    assert_eq!(
        ok("flatten", json!({"data": data})).await,
        json!({"depth": 1, "count": 3, "result": [1, 2, [3, [4]]]})
    );
    assert_eq!(
        ok("flatten", json!({"data": data, "depth": 9})).await["result"],
        json!([1, 2, 3, 4])
    );
    assert_eq!(
        ok("flatten", json!({"data": data, "depth": 0})).await["count"],
        2
    );
}

#[tokio::test]
async fn json_query_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let bad = [
        ("query", json!({"data": "{oops"}), "not valid JSON"),
        ("query", json!({"data": "{}", "path": "a..b"}), "`a..b`"),
        ("query", json!({"data": {}}), "args.data: "),
        ("pick", json!({"data": "[1]", "keys": ["a"]}), "object"),
        ("pick", json!({"data": "{}"}), "keys"),
        ("pick", json!({"data": "{}", "keys": [1]}), "args.keys[0]: "),
        ("count", json!({"data": ""}), "args.data: "),
        (
            "count",
            json!({"data": "[1", "path": "."}),
            "not valid JSON",
        ),
        (
            "count",
            with_unknown(json!({"data": "1"})),
            "noSuchParameter",
        ),
        ("flatten", json!({"data": "{}"}), "array"),
        (
            "flatten",
            json!({"data": "[]", "depth": -1}),
            "args.depth: ",
        ),
        (
            "flatten",
            json!({"data": "[".repeat(100_000)}),
            "not valid JSON",
        ),
    ];
    for (export, args, words) in bad {
        let (code, message) = engine.err(&format!("json-query__{export}"), args).await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS");
        assert!(message.contains(words), "{message}");
    }
}
