//! Tool calls of the chat format, in pieces as different servers send them.

use serde_json::{Value, json};

use super::chat::{delta, openai, stream, tool};
use super::common::*;
use super::mock::MockServer;

#[tokio::test]
async fn interleaved_pieces_of_parallel_calls_are_assembled() {
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
        weather_call("a", json!({"city": "Ulm"})),
        weather_call("b", json!({"city": "Bonn"})),
    ];
    assert_eq!(
        answer(&client, hello()).await,
        completed_answer(expected, 11, 4)
    );
}

#[tokio::test]
async fn calls_with_irregular_ids_and_indexes_are_assembled() {
    let whole = "{\"city\":\"Ulm\"}";
    let name = Some("weather__now");
    let irregular: [(&str, &[Value], &[&str]); 9] = [
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
    for (case, pieces, ids) in irregular {
        let (_mock, client) = openai(vec![stream(pieces, "tool_calls")]).await;
        let calls = ids
            .iter()
            .map(|id| weather_call(id, json!({"city": "Ulm"})));
        let expected = completed_answer(calls.collect(), 11, 4);
        assert_eq!(answer(&client, hello()).await, expected, "{case}");
    }
}

#[tokio::test]
async fn invalid_arguments_stay_a_string_and_missing_ones_are_an_object() {
    let pieces = [
        tool(0, Some("a"), Some("weather__now"), "{\"city\": Ulm"),
        tool(1, Some("b"), Some("weather__now"), ""),
        tool(2, Some("c"), Some("weather__now"), "[1]"),
    ];
    let (_mock, client) = openai(vec![stream(&pieces, "tool_calls")]).await;
    let expected = vec![
        weather_call("a", json!("{\"city\": Ulm")),
        weather_call("b", json!({})),
        weather_call("c", json!([1])),
    ];
    assert_eq!(
        answer(&client, hello()).await,
        completed_answer(expected, 11, 4)
    );
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
        [
            weather_call("call_3", json!({})),
            weather_call("call_4", json!({}))
        ]
    );
}

#[tokio::test]
async fn mistral_gets_ids_of_nine_letters_and_digits() {
    let mock = MockServer::start(vec![stream(&[], "stop")]).await;
    let client = client("mistral", &mock.url("/v1"), json!({}));
    answer(&client, second_turn()).await;
    let messages = mock.requests()[0].body["messages"].clone();
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
