//! Tool calls of the chat format, in the pieces of many servers.

use serde_json::{Value, json};

use super::chat::{delta, openai, stream, tool};
use super::common::*;
use super::mock::Mock;

#[tokio::test]
async fn parallel_calls_in_pieces_are_put_together() {
    let pieces = [
        delta(json!({"content": "I look."})),
        tool(0, Some("a"), Some("weather__now"), ""),
        tool(0, None, None, "{\"city\":"),
        tool(1, Some("b"), Some("weather__now"), "{\"city\":"),
        tool(0, None, None, "\"Ulm\"}"),
        tool(1, None, None, "\"Bonn\"}"),
    ];
    let (_mock, client) = openai(vec![stream(&pieces, "tool_calls")]).await;
    let expected = vec![
        text("I look."),
        called("a", json!({"city": "Ulm"})),
        called("b", json!({"city": "Bonn"})),
    ];
    assert_eq!(answer(&client, hello()).await, finished(expected, 11, 4));
}

#[tokio::test]
async fn careless_servers_are_understood() {
    let whole = "{\"city\":\"Ulm\"}";
    let name = Some("weather__now");
    let careless: [(&str, &[Value], &[&str]); 9] = [
        (
            "every call at index 0, whole",
            &[
                tool(0, Some("a"), name, whole),
                tool(0, Some("b"), name, whole),
            ],
            &["a", "b"],
        ),
        (
            "no ids",
            &[
                tool(0, None, name, "{\"city\":"),
                tool(0, None, None, "\"Ulm\"}"),
            ],
            &["call_1"],
        ),
        (
            "the same id twice",
            &[
                tool(0, Some("x"), name, whole),
                tool(1, Some("x"), name, whole),
            ],
            &["x", "call_2"],
        ),
        (
            "id and name in every piece",
            &[
                tool(0, Some("a"), name, "{\"city\":"),
                tool(0, Some("a"), name, "\"Ulm\"}"),
                tool(0, Some("a"), name, ""),
            ],
            &["a"],
        ),
        (
            "a very large index",
            &[tool(u64::from(u32::MAX), Some("a"), name, whole)],
            &["a"],
        ),
        (
            "interleaved pieces with empty ids and names",
            &[
                tool(0, Some("a"), name, ""),
                tool(1, Some("b"), name, ""),
                tool(0, Some(""), Some(""), "{\"city\":"),
                tool(1, Some(""), Some(""), "{\"city\":"),
                tool(0, Some(""), Some(""), "\"Ulm\"}"),
                tool(1, Some(""), Some(""), "\"Ulm\"}"),
            ],
            &["a", "b"],
        ),
        (
            "an empty name before the name",
            &[
                tool(0, Some("a"), Some(""), ""),
                tool(0, Some("a"), name, whole),
            ],
            &["a"],
        ),
        (
            "an empty object before the arguments",
            &[
                tool(0, Some("a"), name, "{}"),
                tool(0, Some("a"), None, whole),
            ],
            &["a"],
        ),
        (
            "arguments that are encoded twice",
            &[tool(0, Some("a"), name, &json!(whole).to_string())],
            &["a"],
        ),
    ];
    for (case, pieces, ids) in careless {
        let (_mock, client) = openai(vec![stream(pieces, "tool_calls")]).await;
        let calls = ids.iter().map(|id| called(id, json!({"city": "Ulm"})));
        let expected = finished(calls.collect(), 11, 4);
        assert_eq!(answer(&client, hello()).await, expected, "{case}");
    }
}

#[tokio::test]
async fn broken_arguments_stay_text_and_absent_ones_are_an_empty_object() {
    let pieces = [
        tool(0, Some("a"), Some("weather__now"), "{\"city\": Ulm"),
        tool(1, Some("b"), Some("weather__now"), ""),
        tool(2, Some("c"), Some("weather__now"), "[1]"),
    ];
    let (_mock, client) = openai(vec![stream(&pieces, "tool_calls")]).await;
    let expected = vec![
        called("a", json!("{\"city\": Ulm")),
        called("b", json!({})),
        called("c", json!([1])),
    ];
    assert_eq!(answer(&client, hello()).await, finished(expected, 11, 4));
}

#[tokio::test]
async fn call_ids_are_unique_in_the_conversation() {
    let pieces = [
        tool(0, Some("c1"), Some("weather__now"), "{}"),
        tool(1, None, Some("weather__now"), "{}"),
    ];
    let (_mock, client) = openai(vec![stream(&pieces, "tool_calls")]).await;
    let answer = answer(&client, second_turn()).await;
    assert_eq!(
        answer.parts,
        [called("call_3", json!({})), called("call_4", json!({}))]
    );
}

#[tokio::test]
async fn mistral_gets_ids_of_nine_letters_and_digits() {
    let mock = Mock::start(vec![stream(&[], "stop")]).await;
    let client = client("mistral", &mock.url("/v1"), json!({}));
    answer(&client, second_turn()).await;
    let messages = mock.asked()[0].body["messages"].clone();
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = [0, 1].map(|at| id(&messages[2]["tool_calls"][at]["id"]));
    let results = [3, 4].map(|at| id(&messages[at]["tool_call_id"]));
    assert_eq!(calls, results);
    assert_ne!(calls[0], calls[1]);
    for id in calls {
        let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert!(id.len() == 9 && is_plain, "{id}");
    }
}
