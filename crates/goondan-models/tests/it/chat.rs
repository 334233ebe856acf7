//! OpenAI's chat completions, and what others make of them.

use serde_json::{Value, json};

use super::common::*;
use super::mock::{Canned, Mock};
use goondan_core::message::{Part, Role};
use goondan_core::ports::model::{ModelChunk, ModelErrorKind, ModelRequest};
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
    let (mock, client) = openai(vec![stream(
        &[&pieces[..], &[delta(json!({"content": "lo"}))]].concat(),
        "stop",
    )])
    .await;
    assert_eq!(
        answer(&client, hello()).await,
        [said("Hel"), said("lo"), finish(11, 4)]
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
    let expected = [
        said("I look."),
        called("a", json!({"city": "Ulm"})),
        called("b", json!({"city": "Bonn"})),
        finish(11, 4),
    ];
    assert_eq!(answer(&client, hello()).await, expected);
}

#[tokio::test]
async fn careless_servers_are_understood() {
    let whole = "{\"city\":\"Ulm\"}";
    let careless: [(&[Value], &[_]); 5] = [
        // Every call at index 0, whole.
        (
            &[
                tool(0, Some("a"), Some("weather__now"), whole),
                tool(0, Some("b"), Some("weather__now"), whole),
            ],
            &["a", "b"],
        ),
        // No ids at all.
        (
            &[
                tool(0, None, Some("weather__now"), "{\"city\":"),
                tool(0, None, None, "\"Ulm\"}"),
            ],
            &["call_0"],
        ),
        // The same id twice.
        (
            &[
                tool(0, Some("x"), Some("weather__now"), whole),
                tool(1, Some("x"), Some("weather__now"), whole),
            ],
            &["x", "call_2"],
        ),
        // Id and name with every piece.
        (
            &[
                tool(0, Some("a"), Some("weather__now"), "{\"city\":"),
                tool(0, Some("a"), Some("weather__now"), "\"Ulm\"}"),
            ],
            &["a"],
        ),
        // An index that nobody could keep room for.
        (
            &[tool(
                u64::from(u32::MAX),
                Some("a"),
                Some("weather__now"),
                whole,
            )],
            &["a"],
        ),
    ];
    for (pieces, ids) in careless {
        let (_mock, client) = openai(vec![stream(pieces, "tool_calls")]).await;
        let mut expected: Vec<_> = ids
            .iter()
            .map(|id| called(id, json!({"city": "Ulm"})))
            .collect();
        expected.push(finish(11, 4));
        assert_eq!(answer(&client, hello()).await, expected);
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_stay_text_and_none_are_an_empty_object() {
    let pieces = [
        tool(0, Some("a"), Some("weather__now"), "{\"city\": Ulm"),
        tool(1, Some("b"), Some("weather__now"), ""),
        tool(2, Some("c"), Some("weather__now"), "[1]"),
    ];
    let (_mock, client) = openai(vec![stream(&pieces, "tool_calls")]).await;
    let expected = [
        called("a", json!("{\"city\": Ulm")),
        called("b", json!({})),
        called("c", json!([1])),
        finish(11, 4),
    ];
    assert_eq!(answer(&client, hello()).await, expected);
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
async fn streams_of_all_forms_are_read() {
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
            "no line behind the end",
            format!("data: {}\n\ndata: [DONE]", piece("Hi")),
        ),
        (
            "a reason and no end",
            format!("data: {}\n\ndata: {last}\n\n", piece("Hi")),
        ),
        (
            "something behind the end",
            format!("data: {}\n\ndata: [DONE]\n\ndata: {{oops\n\n", piece("Hi")),
        ),
        (
            "an error that is none",
            format!(
                "data: {}\n\ndata: {{\"error\":null}}\n\ndata: [DONE]\n\n",
                piece("Hi")
            ),
        ),
        (
            "reasoning",
            format!(
                "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
                delta(json!({"reasoning": "hm"})),
                piece("Hi")
            ),
        ),
    ];
    for (name, body) in forms {
        let (_mock, client) = openai(vec![Canned::events(body)]).await;
        let chunks = answer(&client, hello()).await;
        assert_eq!(
            chunks,
            [said("Hi"), ModelChunk::Finish { usage: None }],
            "{name}"
        );
    }
}

#[tokio::test]
async fn what_no_text_is_is_refused_and_what_came_before_it_is_kept() {
    let body = events(&[delta(json!({"content": "Hel"}))]) + "data: {]\n\n" + &end("stop");
    let (_mock, client) = openai(vec![Canned::events(body)]).await;
    let (chunks, error) = all(&client, hello()).await;
    let error = error.expect("an error");
    assert_eq!(
        (chunks, error.kind),
        (vec![said("Hel")], ModelErrorKind::Protocol)
    );
}

#[tokio::test]
async fn a_conversation_that_grows_is_sent_whole_in_each_request() {
    let (mock, client) = openai(vec![stream(&[], "stop")]).await;
    let whole = second_turn();
    for count in 1..=whole.messages.len() {
        // As a conversation does it: the same messages, and what was kept of them.
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
async fn ids_that_the_conversation_has_used_are_given_anew() {
    let pieces = [
        tool(0, Some("c1"), Some("weather__now"), "{}"),
        tool(1, None, Some("weather__now"), "{}"),
    ];
    let (_mock, client) = openai(vec![stream(&pieces, "tool_calls")]).await;
    let chunks = answer(&client, second_turn()).await;
    assert_eq!(
        chunks[..2],
        [called("call_3", json!({})), called("call_1", json!({}))]
    );
}

#[tokio::test]
async fn images_are_shown_and_what_cannot_be_is_noted() {
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
    // An ending that looks like an amount of reasoning belongs to the name.
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
