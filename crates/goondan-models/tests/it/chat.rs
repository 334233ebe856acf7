//! OpenAI's chat completions, in the variants of many servers.

use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};
use goondan_core::message::{MessagePart, MessageRole};
use goondan_core::ports::model::{CompletedAnswer, ModelErrorKind, ModelRequest};
use goondan_core::ports::tool::Attachment;

pub(crate) fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub(crate) fn tool(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
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

pub(crate) fn stream(deltas: &[Value], reason: &str) -> MockResponse {
    MockResponse::events(events(deltas) + &end(reason))
}

pub(crate) async fn openai(
    answers: Vec<MockResponse>,
) -> (
    MockServer,
    std::sync::Arc<dyn goondan_core::ports::model::ModelClient>,
) {
    let mock = MockServer::start(answers).await;
    let client = client(
        "openai-compatible",
        &format!("http://{}/v1", mock.address),
        json!({}),
    );
    (mock, client)
}

#[tokio::test]
async fn chat_text_is_streamed_and_the_request_is_complete() {
    let pieces = [
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Hel"})),
    ];
    let pieces = [&pieces[..], &[delta(json!({"content": "lo"}))]].concat();
    let (mock, client) = openai(vec![stream(&pieces, "stop")]).await;
    let received = receive_all(&client, hello()).await;
    assert_eq!(received.texts, ["Hel", "lo"]);
    assert_eq!(
        received.completed,
        Some(completed_answer(vec![text("Hello")], 11, 4))
    );

    let request = &mock.requests()[0];
    assert_eq!(request.line, "POST /v1/chat/completions HTTP/1.1");
    assert!(
        request
            .head
            .to_lowercase()
            .contains(&format!("authorization: bearer {KEY}"))
    );
    assert_eq!(
        request.body["messages"],
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}])
    );
    assert_eq!(request.body["stream"], true);
    assert_eq!(request.body["temperature"], 0.5);
    assert_eq!(request.body["max_tokens"], 100);
    assert_eq!(request.body["tools"][0]["function"]["name"], "weather__now");
    assert_eq!(
        request.body["tools"][0]["function"]["parameters"],
        weather().parameters
    );
}

#[tokio::test]
async fn chat_requests_contain_calls_results_and_errors() {
    let (mock, client) = openai(vec![stream(&[delta(json!({"content": "7"}))], "stop")]).await;
    answer(&client, second_turn()).await;
    let messages = mock.requests()[0].body["messages"].clone();
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
async fn chat_streams_are_read_in_every_framing() {
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
        let (_mock, client) = openai(vec![MockResponse::events(body)]).await;
        let expected = CompletedAnswer::of_parts(vec![text("Hi")], None);
        assert_eq!(answer(&client, hello()).await, expected, "{name}");
    }
}

#[tokio::test]
async fn an_event_that_is_not_json_ends_the_answer() {
    let body = events(&[delta(json!({"content": "Hel"}))]) + "data: {]\n\n" + &end("stop");
    let (_mock, client) = openai(vec![MockResponse::events(body)]).await;
    let received = receive_all(&client, hello()).await;
    assert_eq!(received.texts, ["Hel"]);
    let error = received.error.expect("an error");
    assert_eq!(error.kind, ModelErrorKind::Protocol, "{}", error.message);
}

#[tokio::test]
async fn requests_with_a_message_prefix_do_not_change_the_full_request() {
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
    let requests = mock.requests();
    assert_eq!(requests.len(), 2 * whole.messages.len());
    for (count, pair) in (1..).zip(requests.chunks(2)) {
        // A client that received only these messages sends the same request.
        let (alone, client) = openai(vec![stream(&[], "stop")]).await;
        let prefix = second_turn();
        answer(
            &client,
            ModelRequest {
                messages: prefix.messages[..count].to_vec().into(),
                ..prefix.clone()
            },
        )
        .await;
        assert_eq!(pair[0].body, alone.requests()[0].body, "{count} messages");
        assert_eq!(pair[1].body, requests[1].body, "{count} messages");
    }
    let last = &requests[requests.len() - 2];
    assert_eq!(last.body, requests[1].body);
}

#[tokio::test]
async fn images_are_sent_and_unknown_files_are_noted() {
    let (mock, client) = openai(vec![stream(&[], "stop")]).await;
    let file = |media_type: &str, data: &str| {
        let (media_type, data) = (media_type.to_owned(), data.to_owned());
        MessagePart::File(Attachment {
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
    answer(&client, request(vec![message(MessageRole::User, seen)])).await;
    let content = &mock.requests()[0].body["messages"][1]["content"];
    assert_eq!(content[1]["image_url"]["url"], "data:image/png;base64,iVBO");
    assert_eq!(content[2]["text"], "[f]\nhi");
    assert_eq!(content[3]["text"], "[f (x/y): not supported by this model]");
}

#[tokio::test]
async fn model_options_are_part_of_the_request() {
    let mock = MockServer::start(vec![stream(&[], "stop")]).await;
    let mut model = model(
        "lmstudio",
        Some(format!("http://{}/v1/chat/completions", mock.address)),
        json!({"headers": {"X-Team": "red", "authorization": "Bearer other"}, "body": {"seed": 7}}),
    );
    // A suffix that resembles a reasoning effort is part of the model name.
    model.spec.model = "mistral-medium".to_owned();
    let client = open(&model, &Default::default()).unwrap();
    let mut request = hello();
    std::sync::Arc::make_mut(&mut request.params).top_k = Some(3);
    answer(&client, request).await;
    let request = &mock.requests()[0];
    assert_eq!(request.line, "POST /v1/chat/completions HTTP/1.1");
    let head = request.head.to_lowercase();
    assert!(
        head.contains("x-team: red")
            && head.contains("authorization: bearer other")
            && !head.contains(KEY)
    );
    assert_eq!(
        (&request.body["seed"], &request.body["top_k"]),
        (&json!(7), &json!(3))
    );
    assert_eq!(request.body["model"], "mistral-medium");
    assert_eq!(request.body.get("reasoning_effort"), None);
}
