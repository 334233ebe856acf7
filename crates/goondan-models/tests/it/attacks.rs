//! Hostile providers: every response ends in a bounded answer or an error.

use std::time::Duration;

use serde_json::{Value, json};

use super::common::*;
use super::mock::{MockResponse, MockServer};

/// Time limit of a call, generous for busy machines. A call without limits would never end.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

fn piece(delta: Value) -> String {
    events(&[json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})])
}

fn end() -> String {
    events(&[json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})])
        + "data: [DONE]\n\n"
}

fn call_of(index: usize, id: &str, name: &str, arguments: &str) -> String {
    piece(
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}),
    )
}

/// Expected outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// An error.
    Error,
    /// An answer with this number of tool calls.
    Calls(usize),
}

use Outcome::{Calls, Error};

fn attacks() -> Vec<(&'static str, MockResponse, Outcome)> {
    let chat = |body: String| MockResponse::events(body);
    let megabytes = |count: usize| "x".repeat(count << 20);
    vec![
        (
            "text without end",
            MockResponse::endless(piece(json!({"content": "x".repeat(10_000)}))),
            Error,
        ),
        (
            "reasoning without end",
            MockResponse::endless(piece(json!({"reasoning_content": "x".repeat(10_000)}))),
            Error,
        ),
        (
            "arguments without end",
            MockResponse::endless(call_of(0, "c", "weather__now", &"x".repeat(10_000))),
            Error,
        ),
        (
            "calls without end",
            MockResponse::endless(call_of(0, "c", &"n".repeat(10_000), "{}")),
            Error,
        ),
        (
            "a text of 20 MiB at once",
            chat(piece(json!({"content": megabytes(20)})) + &end()),
            Error,
        ),
        (
            "arguments of 50 MB",
            chat(
                call_of(
                    0,
                    "c",
                    "weather__now",
                    &json!({"city": megabytes(50)}).to_string(),
                ) + &end(),
            ),
            Error,
        ),
        (
            "an answer that stalls",
            MockResponse::stalled(piece(json!({"content": "x"}))),
            Error,
        ),
        ("an answer without bytes", MockResponse::stalled(""), Error),
        (
            "a line that stalls",
            MockResponse::stalled("data: {\"choices\": [{\"delta\": {\"content\": \"x"),
            Error,
        ),
        (
            "a line without end",
            MockResponse::endless("x".repeat(1_000)),
            Error,
        ),
        (
            "broken JSON",
            chat("data: {\"choices\": [\n\n".to_owned()),
            Error,
        ),
        (
            "JSON of another shape",
            chat("data: [1, 2, 3]\n\n".to_owned()),
            Error,
        ),
        (
            "deeply nested JSON",
            chat(format!("data: {}\n\n", "[".repeat(100_000))),
            Error,
        ),
        (
            "NaN as a value",
            chat("data: {\"choices\": NaN}\n\n".to_owned()),
            Error,
        ),
        (
            "choices of the wrong type",
            chat(events(&[json!({"choices": "x"})]) + &end()),
            Calls(0),
        ),
        ("no choices", chat(events(&[json!({"choices": []})])), Error),
        (
            "the largest index",
            chat(call_of(usize::MAX, "c", "weather__now", "{}") + &end()),
            Calls(1),
        ),
        (
            "a negative index",
            chat(
                piece(
                    json!({"tool_calls": [{"index": -1, "id": "c", "function": {"name": "x", "arguments": "{}"}}]}),
                ) + &end(),
            ),
            Calls(1),
        ),
        (
            "negative token counts",
            chat(
                events(&[
                    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": -5, "completion_tokens": 1e300}}),
                ]) + &end(),
            ),
            Calls(0),
        ),
        (
            "10,000 calls",
            chat(
                (0..10_000)
                    .map(|n| call_of(n, &format!("c{n}"), "weather__now", "{}"))
                    .collect::<String>()
                    + &end(),
            ),
            Calls(10_000),
        ),
        (
            "100,000 empty lines",
            chat("data: \n\n".repeat(100_000) + &end()),
            Calls(0),
        ),
        (
            "comments without data",
            chat(": ping\n\n".repeat(100_000)),
            Error,
        ),
        (
            "two calls with the same id",
            chat(
                call_of(0, "c", "weather__now", "{}")
                    + &call_of(1, "c", "weather__now", "{}")
                    + &end(),
            ),
            Calls(2),
        ),
        (
            "a call without an id",
            chat(call_of(0, "", "weather__now", "{}") + &end()),
            Calls(1),
        ),
        (
            "a call without a name",
            chat(call_of(0, "c", "", "{}") + &end()),
            Calls(1),
        ),
        (
            "a call with paths as id and name",
            chat(call_of(0, "../../c", "../../evil", "{}") + &end()),
            Calls(1),
        ),
        (
            "arguments that are not JSON",
            chat(call_of(0, "c", "weather__now", "{\"city\": ") + &end()),
            Calls(1),
        ),
        (
            "arguments that are a list",
            chat(call_of(0, "c", "weather__now", "[1]") + &end()),
            Calls(1),
        ),
        (
            "deeply nested arguments",
            chat(call_of(0, "c", "weather__now", &"[".repeat(50_000)) + &end()),
            Calls(1),
        ),
        (
            "arguments with a duplicate key",
            chat(call_of(0, "c", "weather__now", "{\"city\": 1, \"city\": 2}") + &end()),
            Calls(1),
        ),
        (
            "a wrong content type",
            MockResponse::new("200 OK", "image/png", "\u{1}PNG"),
            Error,
        ),
        (
            "a web page",
            MockResponse::new("200 OK", "text/html", "<html>hello</html>"),
            Error,
        ),
        (
            "an empty body",
            MockResponse::new("200 OK", "text/event-stream", ""),
            Error,
        ),
        (
            "no content",
            MockResponse::new("204 No Content", "text/event-stream", ""),
            Error,
        ),
        (
            "an undefined status",
            MockResponse::new("999 Odd", "text/plain", "x"),
            Error,
        ),
        (
            "a status that is not a number",
            MockResponse::new("x", "text/plain", "x"),
            Error,
        ),
        (
            "a wrong content length",
            MockResponse::events(piece(json!({"content": "x"})))
                .header("content-length", "999999999"),
            Error,
        ),
        (
            "a negative content length",
            MockResponse::events(end()).header("content-length", "-1"),
            Error,
        ),
        (
            "invalid chunks",
            MockResponse::events("zz\r\nhello").header("transfer-encoding", "chunked"),
            Error,
        ),
        (
            "a chunk of the largest size",
            MockResponse::events("ffffffffffffffff\r\nhello")
                .header("transfer-encoding", "chunked"),
            Error,
        ),
        (
            "a redirect to the cloud metadata service",
            MockResponse::new("307 Temporary Redirect", "text/plain", "")
                .header("location", "http://169.254.169.254/"),
            Error,
        ),
        (
            "a redirect to a file",
            MockResponse::new("302 Found", "text/plain", "")
                .header("location", "file:///etc/passwd"),
            Error,
        ),
        (
            "an error of 5 MiB",
            MockResponse::new("500 Internal Server Error", "text/plain", megabytes(5)),
            Error,
        ),
        (
            "an error that contains the key",
            MockResponse::json(
                "400 Bad Request",
                json!({"error": {"message": format!("no {KEY}")}}),
            ),
            Error,
        ),
        (
            "an error in a stream that contains the key",
            chat(events(&[
                json!({"error": {"message": format!("no {KEY}"), "code": 400}}),
            ])),
            Error,
        ),
        (
            "a huge retry delay",
            MockResponse::json("429 Too Many Requests", json!({}))
                .header("retry-after", "99999999999999999999"),
            Error,
        ),
        (
            "a header of a megabyte",
            MockResponse::events(end()).header("x-long", &megabytes(1)),
            Error,
        ),
        (
            "10,000 headers",
            (0..10_000).fold(MockResponse::events(end()), |response, n| {
                response.header(&format!("x-{n}"), "x")
            }),
            Error,
        ),
    ]
}

#[tokio::test]
async fn hostile_answers_end_within_the_time_limit() {
    let rows = attacks();
    let count = rows.len();
    let mut wrong = Vec::new();
    for (name, response, expected) in rows {
        let mock = MockServer::start(vec![response]).await;
        let client = client(
            "openai-compatible",
            &format!("http://{}/v1", mock.address),
            json!({"timeoutSeconds": 3}),
        );
        let Ok(received) = tokio::time::timeout(CALL_TIMEOUT, receive_all(&client, hello())).await
        else {
            wrong.push(format!("{name}: the call did not end"));
            continue;
        };
        let error = received.error;
        let calls = received
            .completed
            .map_or(0, |answer| calls_of(&answer).len());
        let fits = match expected {
            Error => error.is_some(),
            Calls(number) => error.is_none() && calls == number,
        };
        let message_length = error.as_ref().map_or(0, |error| error.message.len());
        if !fits || message_length > 10_000 {
            wrong.push(format!(
                "{name}: {calls} calls, {:.300}",
                format!("{error:?}")
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("attacks: hostile answers: {count}, all ended");
}
