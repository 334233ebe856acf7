//! Answers of an independent mock server, `@copilotkit/aimock`.
//!
//! The tests run if `GOONDAN_AIMOCK` contains the path of its script or executable. Otherwise, they
//! print that they are skipped:
//!
//! ```sh
//! npm install --prefix /tmp/aimock @copilotkit/aimock@1.43.0
//! GOONDAN_AIMOCK=/tmp/aimock/node_modules/.bin/llmock cargo test -p goondan-models --test it aimock
//! ```

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use super::common::{
    self, answer, calls_of, client, failure, message, receive_all, request, result, text_of,
};
use super::structured_output::with_output_schema;
use goondan_core::message::MessageRole;
use goondan_core::ports::model::{CompletedAnswer, ModelClient, ModelErrorKind, ModelRequest};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Provider, the path of its format on the server, and JSON of the Model's options.
const FORMATS: [(&str, &str, &str); 6] = [
    ("openai", "/v1", "{}"),
    ("openai", "/v1", r#"{"api": "responses"}"#),
    ("anthropic", "/v1", "{}"),
    ("google", "/v1beta", "{}"),
    ("ollama", "", "{}"),
    ("bedrock", "", "{}"),
];

struct Aimock {
    address: String,
    _process: Child,
    _directory: tempfile::TempDir,
}

impl Aimock {
    /// Starts a server with `fixtures`, or returns `None` if `GOONDAN_AIMOCK` is not set.
    #[allow(clippy::print_stdout, reason = "skipped tests are reported")]
    async fn start(fixtures: Value) -> Option<Aimock> {
        let Some(script) = std::env::var_os("GOONDAN_AIMOCK").map(PathBuf::from) else {
            println!("skipped: set GOONDAN_AIMOCK to the script of @copilotkit/aimock");
            return None;
        };
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("fixtures.json");
        std::fs::write(&file, json!({"fixtures": fixtures}).to_string()).expect("fixtures");
        let mut process = command(script)
            .args(["--port", "0", "--fixtures"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .expect("aimock starts");
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        while let Some(line) = lines.next_line().await.expect("a line") {
            if let Some((_, address)) = line.split_once("listening on ") {
                let address = address.trim().to_owned();
                // The server blocks if its output is not read.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Some(Aimock {
                    address,
                    _process: process,
                    _directory: directory,
                });
            }
        }
        panic!("aimock exited before it listened");
    }

    fn client(&self, (provider, path, options): (&str, &str, &str)) -> Arc<dyn ModelClient> {
        let options = serde_json::from_str(options).expect("JSON");
        client(provider, &format!("{}{path}", self.address), options)
    }
}

/// Returns the command for a script or an executable. Of the two scripts in the package, only
/// `cli.js` accepts fixtures on the command line.
fn command(script: PathBuf) -> Command {
    let path = script.canonicalize().unwrap_or(script);
    let path = if path.ends_with("aimock-cli.js") {
        path.with_file_name("cli.js")
    } else {
        path
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("js" | "cjs" | "mjs") => {
            let mut node = Command::new("node");
            node.arg(path);
            node
        }
        _ => Command::new(path),
    }
}

fn user_request(input: &str) -> ModelRequest {
    request(vec![message(MessageRole::User, vec![common::text(input)])])
}

/// Returns names and arguments of the calls, whose ids must differ.
fn calls(answer: &CompletedAnswer) -> Vec<(String, Value)> {
    let mut ids = std::collections::HashSet::new();
    let calls = calls_of(answer).into_iter().map(|call| {
        let id = &call.tool_call_id;
        assert!(!id.is_empty() && ids.insert(id.clone()), "{answer:?}");
        (call.tool_name.clone(), call.input.clone())
    });
    calls.collect()
}

fn weather_in(city: &str) -> Value {
    json!({"name": "weather__now", "arguments": {"city": city}})
}

fn expected_call(city: &str) -> (String, Value) {
    ("weather__now".to_owned(), json!({"city": city}))
}

#[tokio::test]
async fn aimock_text_is_streamed_with_usage() {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "input_tokens": 7,
        "output_tokens": 5, "promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12});
    let expected_text = "Hello from the other side of the wire.";
    let fixture = json!([{"match": {"userMessage": "hello"}, "response": {"content": expected_text, "usage": usage}}]);
    let Some(server) = Aimock::start(fixture).await else {
        return;
    };
    for format in FORMATS {
        let received = receive_all(&server.client(format), user_request("hello")).await;
        assert_eq!(received.texts.concat(), expected_text, "{format:?}");
        assert!(
            received.texts.len() > 1,
            "expected several chunks: {received:?}"
        );
        let usage = received.completed.and_then(|answer| answer.usage);
        let usage = usage.unwrap_or_else(|| panic!("{format:?}: no usage"));
        // The server counts no tokens in Ollama's format.
        let expected = if format.0 == "ollama" { (0, 0) } else { (7, 5) };
        assert_eq!(
            (usage.prompt_tokens, usage.completion_tokens),
            expected,
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn aimock_structured_answers_are_json() {
    let data = json!({"city": "Ulm"});
    let json_answer =
        |condition: Value| json!({"match": condition, "response": {"content": data.to_string()}});
    // The server checks the schema only in the chat format.
    let fixtures = json!([
        json_answer(json!({"userMessage": "openai", "responseFormat": "json_schema"})),
        json_answer(json!({"userMessage": "other"}))
    ]);
    let Some(server) = Aimock::start(fixtures).await else {
        return;
    };
    for format in FORMATS {
        let words = if format == FORMATS[0] {
            "openai"
        } else {
            "other"
        };
        let answer = answer(
            &server.client(format),
            with_output_schema(user_request(words)),
        )
        .await;
        assert_eq!(
            serde_json::from_str::<Value>(&text_of(&answer)).ok(),
            Some(data.clone()),
            "{format:?}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn aimock_answers_after_a_tool_result() {
    let Some(server) = Aimock::start(json!([
        {"match": {"userMessage": "weather", "hasToolResult": false}, "response": {"toolCalls": [weather_in("Ulm")]}},
        {"match": {"toolResultContains": "degrees"}, "response": {"content": "7 degrees"}},
        {"match": {"userMessage": "thanks", "turnIndex": 2}, "response": {"content": "You are welcome."}},
    ]))
    .await
    else {
        return;
    };
    for format in FORMATS {
        let client = server.client(format);
        let first = answer(&client, user_request("the weather?")).await;
        assert_eq!(calls(&first), [expected_call("Ulm")], "{format:?}");
        let id = calls_of(&first)[0].tool_call_id.clone();
        let mut messages = vec![
            message(MessageRole::User, vec![common::text("the weather?")]),
            message(MessageRole::Assistant, first.parts),
            message(
                MessageRole::Tool,
                vec![result(&id, "weather__now", json!({"degrees": 7}))],
            ),
        ];
        assert_eq!(
            text_of(&answer(&client, request(messages.clone())).await),
            "7 degrees",
            "{format:?}"
        );
        messages.push(message(
            MessageRole::Assistant,
            vec![common::text("7 degrees")],
        ));
        messages.push(message(MessageRole::User, vec![common::text("thanks")]));
        assert_eq!(
            text_of(&answer(&client, request(messages)).await),
            "You are welcome.",
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn aimock_parallel_calls_have_different_ids() {
    let calls_of =
        json!({"content": "I look.", "toolCalls": [weather_in("Ulm"), weather_in("Bonn")]});
    let fixture = json!([{"match": {"userMessage": "both"}, "response": calls_of}]);
    let Some(server) = Aimock::start(fixture).await else {
        return;
    };
    for format in FORMATS {
        let answer = answer(&server.client(format), user_request("both")).await;
        assert_eq!(text_of(&answer), "I look.", "{format:?}");
        assert_eq!(
            calls(&answer),
            [expected_call("Ulm"), expected_call("Bonn")],
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn aimock_rate_limit_has_a_retry_delay_and_the_next_call_succeeds() {
    let error =
        json!({"error": {"message": "Rate limited", "type": "rate_limit_error"}, "status": 429});
    for format in FORMATS {
        let Some(server) = Aimock::start(json!([
            {"match": {"userMessage": "busy", "sequenceIndex": 0}, "response": error},
            {"match": {"userMessage": "busy", "sequenceIndex": 1}, "response": {"content": "Now."}},
        ]))
        .await
        else {
            return;
        };
        let client = server.client(format);
        let error = failure(&client, user_request("busy")).await;
        assert_eq!(error.kind, ModelErrorKind::Status(429), "{format:?}");
        assert!(
            error
                .message
                .ends_with("429 Too Many Requests: Rate limited."),
            "{}",
            error.message
        );
        assert_eq!(
            error.retry_after,
            Some(std::time::Duration::from_secs(1)),
            "{format:?}"
        );
        assert_eq!(
            text_of(&answer(&client, user_request("busy")).await),
            "Now.",
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn aimock_truncated_stream_is_a_connection_error() {
    let long = "A text that is long enough for a good number of pieces.";
    let Some(server) = Aimock::start(json!([{
        "match": {"userMessage": "break"}, "response": {"content": long},
        "chunkSize": 4, "latency": 20, "truncateAfterChunks": 6,
    }]))
    .await
    else {
        return;
    };
    for format in FORMATS {
        let received = receive_all(&server.client(format), user_request("break")).await;
        let error = received.error.expect("an error");
        assert_eq!(
            error.kind,
            ModelErrorKind::Connection,
            "{format:?}: {}",
            error.message
        );
        let streamed = received.texts.concat();
        assert!(
            !streamed.is_empty() && long.starts_with(&streamed) && streamed != long,
            "{format:?}: {streamed}"
        );
    }
}

#[tokio::test]
async fn aimock_arguments_that_are_not_json_are_kept() {
    let bad = "{\"city\": Ulm";
    let response = json!({"toolCalls": [{"name": "weather__now", "arguments": bad}]});
    let Some(server) =
        Aimock::start(json!([{"match": {"userMessage": "bad"}, "response": response}])).await
    else {
        return;
    };
    for format in FORMATS {
        let answer = answer(&server.client(format), user_request("bad")).await;
        // Only OpenAI's formats can contain invalid JSON. In the other formats, the server sends an
        // empty object.
        let expected = if format.0 == "openai" {
            json!(bad)
        } else {
            json!({})
        };
        assert_eq!(
            calls(&answer),
            [("weather__now".to_owned(), expected)],
            "{format:?}"
        );
    }
}
