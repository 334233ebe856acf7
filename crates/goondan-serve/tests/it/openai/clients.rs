//! Requests of public clients, and the parts of the responses that the clients rely on.

use serde_json::{Value, json};

use super::{OpenAiServer, Reply, assistant, content, user};

/// Part of a response that a client relies on.
enum ExpectedAnswer {
    /// A model list that contains the agent.
    Models,
    /// A completion with this text.
    Completion(&'static str),
    /// Chunks with this text, their usage if it is requested, and `[DONE]`.
    Chunks(&'static str),
    /// Events of a response with this text.
    Events(&'static str),
    /// An error in the OpenAI format: status and parameter.
    Refused(u16, Value),
}

/// Client, method, path, headers, body, and expected answer.
type ClientRequest = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    Value,
    ExpectedAnswer,
);

const OPEN_WEBUI: &[(&str, &str)] = &[
    ("user-agent", "Python/3.11 aiohttp/3.13"),
    ("x-openwebui-user-name", "Ada%20Lovelace"),
    ("x-openwebui-user-id", "0b1c"),
    ("x-openwebui-user-email", "ada@example.com"),
    ("x-openwebui-user-role", "admin"),
    ("x-openwebui-chat-id", "7f3e"),
];
const LIBRECHAT: &[(&str, &str)] = &[
    ("user-agent", "OpenAI/JS 5.8.2"),
    ("x-stainless-lang", "js"),
    ("x-stainless-retry-count", "0"),
];
const CONTINUE: &[(&str, &str)] = &[("x-api-key", "any"), ("accept", "application/json")];
const CLINE: &[(&str, &str)] = &[
    ("http-referer", "https://cline.bot"),
    ("x-title", "Cline"),
    ("x-stainless-lang", "js"),
];
const AIDER: &[(&str, &str)] = &[
    ("user-agent", "AsyncOpenAI/Python 1.99.1"),
    ("x-stainless-lang", "python"),
    ("x-stainless-raw-response", "true"),
];
const CODEX: &[(&str, &str)] = &[
    ("originator", "codex_cli_rs"),
    ("version", "0.63.0"),
    ("session_id", "0198-a"),
    ("conversation_id", "0198-a"),
    ("accept", "text/event-stream"),
];

fn chat(messages: Value, more: Value) -> Value {
    with(json!({"model": "a", "messages": messages}), more)
}

fn with(mut body: Value, more: Value) -> Value {
    let fields = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    body
}

fn streamed() -> Value {
    json!({"stream": true, "stream_options": {"include_usage": true}})
}

fn function() -> Value {
    json!([{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}])
}

fn open_webui() -> Vec<ClientRequest> {
    let image = "data:image/png;base64,iVBORw0KGgo=";
    let parts = json!([
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": image}},
    ]);
    let ids = json!({
        "stream": true, "chat_id": "7f3e", "session_id": "s", "id": "m", "features": {"web_search": false},
        "background_tasks": {"title_generation": true}, "params": {}, "tool_ids": [], "files": [],
    });
    let title =
        json!({"stream": false, "max_tokens": 1000, "metadata": {"task": "title_generation"}});
    let name = "Open WebUI";
    vec![
        (
            name,
            "GET",
            "models",
            OPEN_WEBUI,
            Value::Null,
            ExpectedAnswer::Models,
        ),
        (
            name,
            "POST",
            "chat/completions",
            OPEN_WEBUI,
            chat(json!([user("hi")]), ids),
            ExpectedAnswer::Chunks("hi"),
        ),
        (
            name,
            "POST",
            "chat/completions",
            OPEN_WEBUI,
            chat(json!([{"role": "user", "content": parts}]), streamed()),
            ExpectedAnswer::Chunks("look"),
        ),
        (
            name,
            "POST",
            "chat/completions",
            OPEN_WEBUI,
            chat(json!([user("Name this chat")]), title),
            ExpectedAnswer::Completion("Name this chat"),
        ),
    ]
}

fn librechat() -> Vec<ClientRequest> {
    let sampling = json!({
        "user": "66f0", "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "n": 1,
    });
    let system = json!({"role": "system", "content": "Be brief."});
    let name = "LibreChat";
    vec![
        (
            name,
            "GET",
            "models",
            LIBRECHAT,
            Value::Null,
            ExpectedAnswer::Models,
        ),
        (
            name,
            "POST",
            "chat/completions",
            LIBRECHAT,
            with(
                chat(json!([system, user("hi")]), streamed()),
                sampling.clone(),
            ),
            ExpectedAnswer::Chunks("hi"),
        ),
        (
            name,
            "POST",
            "chat/completions",
            LIBRECHAT,
            chat(json!([user("Title?")]), sampling),
            ExpectedAnswer::Completion("Title?"),
        ),
    ]
}

fn continue_and_cline() -> Vec<ClientRequest> {
    let system = json!({"role": "system", "content": "You edit code."});
    let parts =
        json!([{"type": "text", "text": "<task>fix</task>"}, {"type": "text", "text": "# Time"}]);
    let limited = with(streamed(), json!({"max_tokens": 4096, "temperature": 0}));
    let tools = with(
        streamed(),
        json!({"tools": function(), "parallel_tool_calls": false}),
    );
    vec![
        (
            "Continue",
            "POST",
            "chat/completions",
            CONTINUE,
            chat(json!([system, user("hi")]), limited),
            ExpectedAnswer::Chunks("hi"),
        ),
        // In agent mode the client offers tools.
        (
            "Continue",
            "POST",
            "chat/completions",
            CONTINUE,
            chat(json!([user("hi")]), tools),
            ExpectedAnswer::Refused(400, json!("tools")),
        ),
        // Autocompletion uses the legacy completions route.
        (
            "Continue",
            "POST",
            "completions",
            CONTINUE,
            json!({"model": "a", "prompt": "fn ", "stream": true, "stop": ["\n\n"]}),
            ExpectedAnswer::Refused(404, Value::Null),
        ),
        (
            "Cline",
            "POST",
            "chat/completions",
            CLINE,
            chat(
                json!([system, {"role": "user", "content": parts}]),
                with(streamed(), json!({"temperature": 0})),
            ),
            ExpectedAnswer::Chunks("# Time"),
        ),
    ]
}

/// Returns the requests of aider, which sends examples as an invented conversation.
fn aider() -> Vec<ClientRequest> {
    let examples = json!([
        {"role": "system", "content": "Act as an expert developer."},
        user("I switched to a new code base."), assistant("Ok."),
        user("Here is a summary of the files."), assistant("Ok, I see."),
        user("add a test"),
    ]);
    let sampling = json!({"stream": true, "temperature": 0});
    vec![
        (
            "aider",
            "POST",
            "chat/completions",
            AIDER,
            chat(examples, sampling),
            ExpectedAnswer::Chunks("add a test"),
        ),
        (
            "aider",
            "POST",
            "chat/completions",
            AIDER,
            chat(
                json!([user("Write a commit message")]),
                json!({"temperature": 0}),
            ),
            ExpectedAnswer::Completion("Write a commit message"),
        ),
    ]
}

fn codex() -> Vec<ClientRequest> {
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let body = |input: Value, tools: Value| {
        json!({
            "model": "a", "instructions": "You are a coding agent.", "input": input, "tools": tools,
            "tool_choice": "auto", "parallel_tool_calls": false, "store": false, "stream": true,
            "reasoning": {"effort": "medium", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "0198-a", "text": {"verbosity": "low"},
        })
    };
    let first = json!([
        message("developer", "input_text", "Sandbox: read-only."),
        message("user", "input_text", "<environment_context/>"),
        message("user", "input_text", "hi"),
    ]);
    let mut second = first.clone();
    second.as_array_mut().unwrap().extend([
        json!({"type": "reasoning", "summary": [], "content": null, "encrypted_content": "gAAA"}),
        message("assistant", "output_text", "3: hi"),
        message("user", "input_text", "and now?"),
    ]);
    let tools = json!([{"type": "function", "name": "shell", "strict": false, "parameters": {"type": "object", "properties": {}}}]);
    vec![
        (
            "Codex",
            "POST",
            "responses",
            CODEX,
            body(first.clone(), json!([])),
            ExpectedAnswer::Events("hi"),
        ),
        (
            "Codex",
            "POST",
            "responses",
            CODEX,
            body(second, json!([])),
            ExpectedAnswer::Events("and now?"),
        ),
        (
            "Codex",
            "POST",
            "responses",
            CODEX,
            body(first, tools),
            ExpectedAnswer::Refused(400, json!("tools")),
        ),
    ]
}

async fn check(name: &str, reply: Reply, body: &Value, expected: ExpectedAnswer) {
    match expected {
        ExpectedAnswer::Models => {
            let (status, list) = reply.json().await;
            assert_eq!((status, &list["object"]), (200, &json!("list")), "{name}");
            let first = &list["data"][0];
            assert!(
                first["id"].is_string() && first["created"].is_u64(),
                "{name}: {list}"
            );
        }
        ExpectedAnswer::Completion(text) => {
            let answer = reply.answer().await;
            assert!(answer.ends_with(text), "{name}: {answer}");
        }
        ExpectedAnswer::Chunks(text) => {
            let chunks = reply.events().await;
            assert!(content(&chunks).ends_with(text), "{name}: {chunks:?}");
            assert_eq!(chunks.last().unwrap(), "[DONE]", "{name}");
            let is_stop = |chunk: &Value| chunk["choices"][0]["finish_reason"] == "stop";
            assert!(chunks.iter().any(is_stop), "{name}: {chunks:?}");
            let usage = chunks.iter().find(|chunk| chunk["usage"].is_object());
            let wants_usage = body.pointer("/stream_options/include_usage").is_some();
            assert_eq!(usage.is_some(), wants_usage, "{name}: {chunks:?}");
        }
        ExpectedAnswer::Events(text) => {
            let events = reply.events().await;
            let find = |kind: &str| {
                let found = events.iter().find(|event| event["type"] == kind);
                found.unwrap_or_else(|| panic!("{name}: no {kind}: {events:?}"))
            };
            find("response.created");
            find("response.output_text.delta");
            let item = &find("response.output_item.done")["item"];
            let answer = item["content"][0]["text"].as_str().unwrap();
            assert!(
                item["type"] == "message" && answer.ends_with(text),
                "{name}: {item}"
            );
            let response = &find("response.completed")["response"];
            assert!(
                response["usage"]["total_tokens"].is_u64(),
                "{name}: {response}"
            );
        }
        ExpectedAnswer::Refused(status, parameter) => {
            let (given, body) = reply.json().await;
            let error = &body["error"];
            assert_eq!(
                (given, &error["param"]),
                (status, &parameter),
                "{name}: {body}"
            );
            assert!(
                error["message"].is_string() && error["type"].is_string(),
                "{name}: {body}"
            );
        }
    }
}

#[tokio::test]
async fn public_openai_clients_receive_the_expected_responses() {
    let server = OpenAiServer::start().await;
    let requests = [
        open_webui(),
        librechat(),
        continue_and_cline(),
        aider(),
        codex(),
    ];
    for (name, method, path, headers, body, relied) in requests.into_iter().flatten() {
        let text = match &body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let headers: Vec<_> = [("content-type", "application/json")]
            .into_iter()
            .chain(headers.iter().copied())
            .collect();
        let reply = server.request(method, path, &text, &headers).await;
        check(name, reply, &body, relied).await;
    }
}
