//! The same answers from a server of another project, `@copilotkit/aimock`.
//!
//! The tests run if `GOONDAN_AIMOCK` names its script or executable, and print that they were skipped otherwise:
//!
//! ```sh
//! npm install --prefix /tmp/aimock @copilotkit/aimock@1.43.0
//! GOONDAN_AIMOCK=/tmp/aimock/node_modules/.bin/llmock cargo test -p goondan-models --test it aimock
//! ```

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use super::common::{
    self, all, answer, calls_of, client, failure, message, request, result, text_of,
};
use super::output::as_data;
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
    _folder: tempfile::TempDir,
}

impl Aimock {
    /// Starts a server with `fixtures`, if this machine has one.
    #[allow(clippy::print_stdout, reason = "skipped tests are reported")]
    async fn start(fixtures: Value) -> Option<Aimock> {
        let Some(script) = std::env::var_os("GOONDAN_AIMOCK").map(PathBuf::from) else {
            println!("skipped: set GOONDAN_AIMOCK to the script of @copilotkit/aimock");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("fixtures.json");
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
                // The server would block if nothing read its output.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Some(Aimock {
                    address,
                    _process: process,
                    _folder: folder,
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

/// Scripts run in node. Of the package's two programs only `cli.js` takes fixtures on the command line.
fn command(given: PathBuf) -> Command {
    let path = given.canonicalize().unwrap_or(given);
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

fn ask(input: &str) -> ModelRequest {
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

fn called(city: &str) -> (String, Value) {
    ("weather__now".to_owned(), json!({"city": city}))
}

#[tokio::test]
async fn text() {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "input_tokens": 7,
        "output_tokens": 5, "promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12});
    let said = "Hello from the other side of the wire.";
    let fixture =
        json!([{"match": {"userMessage": "hello"}, "response": {"content": said, "usage": usage}}]);
    let Some(server) = Aimock::start(fixture).await else {
        return;
    };
    for format in FORMATS {
        let received = all(&server.client(format), ask("hello")).await;
        assert_eq!(received.texts.concat(), said, "{format:?}");
        assert!(received.texts.len() > 1, "it streams: {received:?}");
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
async fn an_answer_as_data() {
    let data = json!({"city": "Ulm"});
    let answer_of =
        |wanted: Value| json!({"match": wanted, "response": {"content": data.to_string()}});
    // The server checks the schema only in the chat format.
    let fixtures = json!([
        answer_of(json!({"userMessage": "openai", "responseFormat": "json_schema"})),
        answer_of(json!({"userMessage": "other"}))
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
        let answer = answer(&server.client(format), as_data(ask(words))).await;
        assert_eq!(
            serde_json::from_str::<Value>(&text_of(&answer)).ok(),
            Some(data.clone()),
            "{format:?}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn one_call_then_an_answer_that_uses_its_result() {
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
        let first = answer(&client, ask("the weather?")).await;
        assert_eq!(calls(&first), [called("Ulm")], "{format:?}");
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
async fn parallel_calls() {
    let calls_of =
        json!({"content": "I look.", "toolCalls": [weather_in("Ulm"), weather_in("Bonn")]});
    let fixture = json!([{"match": {"userMessage": "both"}, "response": calls_of}]);
    let Some(server) = Aimock::start(fixture).await else {
        return;
    };
    for format in FORMATS {
        let answer = answer(&server.client(format), ask("both")).await;
        assert_eq!(text_of(&answer), "I look.", "{format:?}");
        assert_eq!(
            calls(&answer),
            [called("Ulm"), called("Bonn")],
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn too_many_requests_then_success() {
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
        let error = failure(&client, ask("busy")).await;
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
            text_of(&answer(&client, ask("busy")).await),
            "Now.",
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn a_broken_stream() {
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
        let received = all(&server.client(format), ask("break")).await;
        let error = received.error.expect("an error");
        assert_eq!(
            error.kind,
            ModelErrorKind::Connection,
            "{format:?}: {}",
            error.message
        );
        let begun = received.texts.concat();
        assert!(
            !begun.is_empty() && long.starts_with(&begun) && begun != long,
            "{format:?}: {begun}"
        );
    }
}

#[tokio::test]
async fn arguments_that_are_no_json() {
    let bad = "{\"city\": Ulm";
    let response = json!({"toolCalls": [{"name": "weather__now", "arguments": bad}]});
    let Some(server) =
        Aimock::start(json!([{"match": {"userMessage": "bad"}, "response": response}])).await
    else {
        return;
    };
    for format in FORMATS {
        let answer = answer(&server.client(format), ask("bad")).await;
        // Only OpenAI's formats can contain them. In the others, the server sends an empty object instead.
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
