use serde_json::{Value, json};

use crate::mock_engine::{MockEngine, with_unknown};

async fn ok(export: &str, args: Value) -> Value {
    MockEngine::new()
        .ok(&format!("text-transform__{export}"), args)
        .await
}

#[tokio::test]
async fn replace_treats_the_search_text_literally() {
    assert_eq!(
        ok(
            "replace",
            json!({"text": "a.b.c", "search": ".", "replacement": "$1"})
        )
        .await,
        json!({"original": "a.b.c", "result": "a$1b.c", "replacements": 1})
    );
    assert_eq!(
        ok(
            "replace",
            json!({"text": "a.b.c", "search": ".", "all": true})
        )
        .await["result"],
        "abc"
    );
    assert_eq!(
        ok("replace", json!({"text": "abc", "search": "x"})).await["replacements"],
        0
    );
}

#[tokio::test]
async fn slice_counts_characters() {
    assert_eq!(
        ok("slice", json!({"text": "héllo", "start": 1, "end": 3})).await,
        json!({"original": "héllo", "result": "él", "start": 1, "end": 3, "length": 2})
    );
    assert_eq!(
        ok("slice", json!({"text": "héllo"})).await,
        json!({"original": "héllo", "result": "héllo", "start": 0, "end": 5, "length": 5})
    );
    assert_eq!(
        ok("slice", json!({"text": "hello", "start": -3, "end": -1})).await["result"],
        "ll"
    );
    assert_eq!(
        ok("slice", json!({"text": "hello", "start": 3, "end": 1})).await["result"],
        ""
    );
    assert_eq!(
        ok("slice", json!({"text": "hello", "start": -99, "end": 99})).await["result"],
        "hello"
    );
    assert_eq!(
        ok("slice", json!({"text": "hello", "start": 1.0})).await["result"],
        "ello"
    );
}

#[tokio::test]
async fn split_drops_parts_beyond_max_parts() {
    assert_eq!(
        ok("split", json!({"text": "a\nb\nc"})).await,
        json!({"delimiter": "\n", "count": 3, "parts": ["a", "b", "c"]})
    );
    assert_eq!(
        ok(
            "split",
            json!({"text": "a,b,c", "delimiter": ",", "maxParts": 2})
        )
        .await["parts"],
        json!(["a", "b"])
    );
    assert_eq!(
        ok("split", json!({"text": "añb", "delimiter": ""})).await["parts"],
        json!(["a", "ñ", "b"])
    );
}

#[tokio::test]
async fn join_accepts_scalars() {
    assert_eq!(
        ok(
            "join",
            json!({"parts": ["a", 1, 2.5, true], "delimiter": "-"})
        )
        .await,
        json!({"delimiter": "-", "count": 4, "result": "a-1-2.5-true"})
    );
    assert_eq!(
        ok("join", json!({"parts": []})).await,
        json!({"delimiter": "\n", "count": 0, "result": ""})
    );
}

#[tokio::test]
async fn trim_removes_whitespace_at_either_end() {
    assert_eq!(
        ok("trim", json!({"text": " \u{FEFF}x \n"})).await,
        json!({"original": " \u{FEFF}x \n", "result": "x", "mode": "both", "trimmedLength": 4})
    );
    assert_eq!(
        ok("trim", json!({"text": " x ", "mode": "start"})).await["result"],
        "x "
    );
    assert_eq!(
        ok("trim", json!({"text": " x ", "mode": "end"})).await["result"],
        " x"
    );
}

#[tokio::test]
async fn case_conversion_supports_unicode() {
    assert_eq!(
        ok("case", json!({"text": "straße", "to": "upper"})).await,
        json!({"original": "straße", "result": "STRASSE", "to": "upper"})
    );
    assert_eq!(
        ok("case", json!({"text": "ÀB", "to": "lower"})).await["result"],
        "àb"
    );
}

#[tokio::test]
async fn text_transform_exports_reject_invalid_arguments() {
    let engine = MockEngine::new();
    let bad = [
        ("replace", json!({"text": "a", "search": ""})),
        ("replace", json!({"search": "a"})),
        ("replace", json!({"text": 1, "search": "a"})),
        ("slice", json!({"text": "a", "start": "1"})),
        ("slice", json!({"text": "a", "start": 1.5})),
        ("slice", json!({"text": ""})),
        ("split", json!({"text": "a", "maxParts": 0})),
        ("split", json!({"text": "a", "delimiter": 1})),
        ("split", json!({})),
        ("join", json!({"parts": [[]]})),
        ("join", json!({"parts": [null]})),
        ("join", json!({"parts": "ab"})),
        ("trim", json!({"text": "a", "mode": "middle"})),
        ("trim", json!({"text": null})),
        ("trim", with_unknown(json!({"text": "a"}))),
        ("case", json!({"text": "a"})),
        ("case", json!({"text": "a", "to": "title"})),
        ("case", json!({"text": ["a"], "to": "upper"})),
    ];
    for (export, args) in bad {
        let (code, _) = engine
            .err(&format!("text-transform__{export}"), args.clone())
            .await;
        assert_eq!(code, "E_TOOL_INVALID_ARGS", "{export} {args}");
    }
}

#[tokio::test]
async fn oversized_results_are_errors() {
    let engine = MockEngine::new();
    let big = "a".repeat(100_000);
    let (code, message) = engine
        .err(
            "text-transform__replace",
            json!({"text": big, "search": "a", "replacement": big, "all": true}),
        )
        .await;
    assert_eq!(code, "E_TOOL_TOO_LARGE");
    assert!(message.contains("10000100000 bytes"), "{message}");
    let many = vec!["x"; 1000];
    let (code, _) = engine
        .err(
            "text-transform__join",
            json!({"parts": many, "delimiter": big}),
        )
        .await;
    assert_eq!(code, "E_TOOL_TOO_LARGE");
}
