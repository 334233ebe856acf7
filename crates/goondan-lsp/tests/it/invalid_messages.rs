//! The server survives arbitrary messages.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::{Client, full_project, uri};

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..5u32).prop_map(Value::from),
        Just(json!(uri("goondan.yaml"))),
        Just(json!("file:///p/%00")),
        "[a-z/:.é😀\\n]{0,12}".prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "textDocument",
        "uri",
        "position",
        "line",
        "character",
        "range",
        "start",
        "end",
        "contentChanges",
        "text",
        "version",
        "newName",
        "context",
        "query",
    ]);
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn methods() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "initialize",
        "textDocument/didOpen",
        "textDocument/didChange",
        "textDocument/didClose",
        "textDocument/completion",
        "textDocument/hover",
        "textDocument/definition",
        "textDocument/references",
        "textDocument/rename",
        "textDocument/prepareRename",
        "textDocument/documentSymbol",
        "workspace/symbol",
        "textDocument/codeAction",
        "$/cancelRequest",
        "odd",
    ])
}

/// Parameters with the right structure, but with arbitrary positions.
fn nearly_valid_params() -> impl Strategy<Value = Value> {
    (
        0..40u32,
        any::<u32>(),
        0..40u32,
        0..20u32,
        "[a-z:{\\[ \\n-]{0,12}",
    )
        .prop_map(|(line, far, end, character, text)| {
            let position =
                json!({ "line": line, "character": if line % 3 == 0 { far } else { character } });
            let range =
                json!({ "start": position, "end": { "line": end, "character": character } });
            json!({
                "textDocument": { "uri": uri("goondan.yaml"), "version": 3, "text": text },
                "position": position, "range": range, "newName": text, "query": text,
                "contentChanges": [{ "range": range, "text": text }],
            })
        })
}

fn client() -> Client {
    let mut client = Client::new(&full_project());
    client.open("goondan.yaml", full_project()[0].1);
    client
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_get_at_most_one_answer(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8)) {
        let mut client = client();
        for body in messages {
            prop_assert!(client.send_bytes(&body).len() <= 1);
        }
    }

    #[test]
    fn every_invalid_request_gets_exactly_one_answer(
        messages in prop::collection::vec((methods(), prop_oneof![values(), nearly_valid_params()], any::<bool>()), 1..20)
    ) {
        let mut client = client();
        for (method, params, is_request) in messages {
            let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
            if is_request {
                message["id"] = json!(7);
            }
            let answers = client.send_bytes(message.to_string().as_bytes());
            prop_assert_eq!(answers.len(), usize::from(is_request), "{}", message);
            client.receive_diagnostics();
        }
    }
}

#[test]
fn deeply_nested_json_is_rejected() {
    let mut client = client();
    let answer = client.send_bytes("[".repeat(1_000_000).as_bytes());
    assert_eq!(answer[0]["error"]["code"], -32_700);
    assert_eq!(client.send_bytes(b"[]")[0]["error"]["code"], -32_600);
    assert_eq!(
        client.send_bytes(b"{\"id\":1}")[0]["error"]["code"],
        -32_600
    );
    assert!(client.send_bytes(b"{\"id\":1,\"result\":null}").is_empty());
}
