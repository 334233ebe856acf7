//! OpenAI's chat completions, in the spellings of many servers.

use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};
use goondan_core::message::{Part, Role};
use goondan_core::ports::model::{CompletedAnswer, ModelErrorKind, ModelRequest};
use goondan_core::ports::tool::Attachment;

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn tool(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    let mut function = json!({"arguments": arguments});
    if let Some(name) = name {
        function["name"] = json!(name);
    }
    let mut call = json!({"index": index, "type": "function", "function": function});
    if let Some(id) = id {
        call["id"] = json!(id);
    }
    delta(json!({"tool_calls": [call]}))
}

fn end(reason: &str) -> String {
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15});
    let done = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    events(&[done, json!({"choices": [], "usage": usage})]) + "data: [DONE]\n\n"
}

fn stream(deltas: &[Value], reason: &str) -> Canned {
    Canned::events(events(deltas) + &end(reason))
}

async fn openai(
    answers: Vec<Canned>,
) -> (
    Mock,
    std::sync::Arc<dyn goondan_core::ports::model::ModelClient>,
) {
    let mock = Mock::start(answers).await;
    let client = client(
        "openai-compatible",
        &format!("http://{}/v1", mock.address),
        json!({}),
    );
    (mock, client)
}

#[tokio::test]
async fn text_streams_and_the_request_is_complete() {
    let pieces = [
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Hel"})),
    ];
    let pieces = [&pieces[..], &[delta(json!({"content": "lo"}))]].concat();
    let (mock, client) = openai(vec![stream(&pieces, "stop")]).await;
    let received = all(&client, hello()).await;
    assert_eq!(received.texts, ["Hel", "lo"]);
    assert_eq!(
        received.completed,
        Some(finished(vec![text("Hello")], 11, 4))
    );

    let asked = &mock.asked()[0];
    assert_eq!(asked.line, "POST /v1/chat/completions HTTP/1.1");
    assert!(
        asked
            .head
            .to_lowercase()
            .contains(&format!("authorization: bearer {KEY}"))
    );
    assert_eq!(
        asked.body["messages"],
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}])
    );
    assert_eq!(asked.body["stream"], true);
    assert_eq!(asked.body["temperature"], 0.5);
    assert_eq!(asked.body["max_tokens"], 100);
    assert_eq!(asked.body["tools"][0]["function"]["name"], "weather__now");
    assert_eq!(
        asked.body["tools"][0]["function"]["parameters"],
        weather().parameters
    );
}

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
async fn a_second_turn_carries_calls_results_and_errors() {
    let (mock, client) = openai(vec![stream(&[delta(json!({"content": "7"}))], "stop")]).await;
    answer(&client, second_turn()).await;
    let messages = mock.asked()[0].body["messages"].clone();
    let calls = &messages[2]["tool_calls"];
    assert_eq!(messages[2]["content"], "I look it up.");
    assert_eq!(calls[0]["function"]["arguments"], "{\"city\":\"Ulm\"}");
    assert_eq!(
        calls[1]["function"]["arguments"],
        r#"{"malformedArguments":"{\"city\": "}"#
    );
    assert_eq!(
        messages[3],
        json!({"role": "tool", "tool_call_id": "c1", "content": "{\"degrees\":7}"})
    );
    assert_eq!(
        messages[4]["content"],
        "ERROR: no such city\nCODE: E_TOOL\nSUGGESTION: spell it out"
    );
    assert_eq!(
        messages[5],
        json!({"role": "user", "content": "and\n\ntomorrow?"})
    );
}

#[tokio::test]
async fn every_spelling_of_a_stream_is_read() {
    let piece = |text: &str| delta(json!({"content": text})).to_string();
    let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).to_string();
    let forms = [
        (
            "no space",
            format!("data:{}\n\ndata:{last}\n\ndata:[DONE]\n\n", piece("Hi")),
        ),
        (
            "carriage returns",
            format!(
                "data: {}\r\n\r\ndata: {last}\r\n\r\ndata: [DONE]\r\n\r\n",
                piece("Hi")
            ),
        ),
        (
            "comments and names",
            format!(
                ": ping\n\nevent: x\nid: 1\ndata: {}\n\n:\n\ndata: [DONE]\n\n",
                piece("Hi")
            ),
        ),
        (
            "two lines of data",
            format!(
                "data: {}\n\ndata: [DONE]\n\n",
                piece("Hi").replacen(',', ",\ndata: ", 1)
            ),
        ),
        (
            "no line after the end",
            format!("data: {}\n\ndata: [DONE]", piece("Hi")),
        ),
        (
            "a reason without [DONE]",
            format!("data: {}\n\ndata: {last}\n\n", piece("Hi")),
        ),
        (
            "an event after the end",
            format!("data: {}\n\ndata: [DONE]\n\ndata: {{oops\n\n", piece("Hi")),
        ),
        (
            "an error that is null",
            format!(
                "data: {}\n\ndata: {{\"error\":null}}\n\ndata: [DONE]\n\n",
                piece("Hi")
            ),
        ),
    ];
    for (name, body) in forms {
        let (_mock, client) = openai(vec![Canned::events(body)]).await;
        let expected = CompletedAnswer::of_parts(vec![text("Hi")], None);
        assert_eq!(answer(&client, hello()).await, expected, "{name}");
    }
}

#[tokio::test]
async fn an_event_that_is_not_json_ends_the_answer() {
    let body = events(&[delta(json!({"content": "Hel"}))]) + "data: {]\n\n" + &end("stop");
    let (_mock, client) = openai(vec![Canned::events(body)]).await;
    let received = all(&client, hello()).await;
    assert_eq!(received.texts, ["Hel"]);
    let error = received.error.expect("an error");
    assert_eq!(error.kind, ModelErrorKind::Protocol, "{}", error.message);
}

#[tokio::test]
async fn a_growing_conversation_is_sent_whole_in_each_request() {
    let (mock, client) = openai(vec![stream(&[], "stop")]).await;
    let whole = second_turn();
    for count in 1..=whole.messages.len() {
        // The messages are shared with the whole conversation, as in a turn.
        answer(
            &client,
            ModelRequest {
                messages: whole.messages[..count].to_vec().into(),
                ..whole.clone()
            },
        )
        .await;
        answer(&client, whole.clone()).await;
    }
    let asked = mock.asked();
    let bodies: Vec<_> = asked
        .iter()
        .skip(1)
        .step_by(2)
        .map(|asked| &asked.body)
        .collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:#?}");
    assert_eq!(asked[asked.len() - 2].body, asked[asked.len() - 1].body);
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
async fn images_are_sent_and_unknown_files_are_noted() {
    let (mock, client) = openai(vec![stream(&[], "stop")]).await;
    let file = |media_type: &str, data: &str| {
        let (media_type, data) = (media_type.to_owned(), data.to_owned());
        Part::File(Attachment {
            media_type,
            data,
            name: Some("f".to_owned()),
        })
    };
    let seen = vec![
        text("look"),
        file("image/png", "iVBO"),
        file("text/plain", "aGk="),
        file("x/y", "AA=="),
    ];
    answer(&client, request(vec![message(Role::User, seen)])).await;
    let content = &mock.asked()[0].body["messages"][1]["content"];
    assert_eq!(content[1]["image_url"]["url"], "data:image/png;base64,iVBO");
    assert_eq!(content[2]["text"], "[f]\nhi");
    assert_eq!(
        content[3]["text"],
        "[f (x/y): this model can't be shown it]"
    );
}

#[tokio::test]
async fn options_reach_the_request() {
    let mock = Mock::start(vec![stream(&[], "stop")]).await;
    let mut model = model(
        "lmstudio",
        Some(format!("http://{}/v1/chat/completions", mock.address)),
        json!({"headers": {"X-Team": "red", "authorization": "Bearer other"}, "body": {"seed": 7}}),
    );
    // An ending that resembles a reasoning effort belongs to the name.
    model.spec.model = "mistral-medium".to_owned();
    let client = open(&model, &Default::default()).unwrap();
    let mut request = hello();
    std::sync::Arc::make_mut(&mut request.params).top_k = Some(3);
    answer(&client, request).await;
    let asked = &mock.asked()[0];
    assert_eq!(asked.line, "POST /v1/chat/completions HTTP/1.1");
    let head = asked.head.to_lowercase();
    assert!(
        head.contains("x-team: red")
            && head.contains("authorization: bearer other")
            && !head.contains(KEY)
    );
    assert_eq!(
        (&asked.body["seed"], &asked.body["top_k"]),
        (&json!(7), &json!(3))
    );
    assert_eq!(asked.body["model"], "mistral-medium");
    assert_eq!(asked.body.get("reasoning_effort"), None);
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
