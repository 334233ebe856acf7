//! Faults of stdio servers. Users of various MCP clients reported each fault: a call never ended,
//! all tools were missing, or the program crashed.

use std::time::Duration;

use goondan_core::JsonObject;
use serde_json::{Value, json};

use crate::stdio_server::{
    HANG_TIMEOUT, MockServer, ReceivedRequest, Script, ServerAction, call, initialize_result,
    outcome, session, tool,
};

struct StdioFault {
    name: &'static str,
    script: Script,
    /// Result of fetching the tools: their names, or an error code.
    tools: &'static str,
    /// Results of consecutive calls with 1, 2 ….
    calls: &'static [&'static str],
}

const FAULTS: &[StdioFault] = &[
    StdioFault {
        name: "no answer to initialize",
        script: |request| request.is("initialize").then(Vec::new),
        tools: "E_MCP_TIMEOUT",
        calls: &[],
    },
    StdioFault {
        name: "an exit in the middle of initialize",
        script: |request| {
            request.is("initialize").then(|| {
                vec![
                    ServerAction::Print("{\"jsonrpc\":".to_owned()),
                    ServerAction::Exit,
                ]
            })
        },
        tools: "E_MCP_CONNECT",
        calls: &[],
    },
    StdioFault {
        name: "an invalid answer to initialize",
        script: |request| {
            request
                .is("initialize")
                .then(|| vec![request.answer(json!(7))])
        },
        tools: "E_MCP_CONNECT",
        calls: &[],
    },
    StdioFault {
        name: "a revision that does not exist",
        script: |request| {
            request
                .is("initialize")
                .then(|| vec![request.answer(initialize_result("1999-01-01"))])
        },
        tools: "E_MCP_CONNECT",
        calls: &[],
    },
    StdioFault {
        name: "an exit in the middle of a call",
        script: |request| {
            (request.is("tools/call") && request.start == 0).then(|| vec![ServerAction::Exit])
        },
        tools: "add",
        calls: &["E_MCP_DIED", "2"],
    },
    StdioFault {
        name: "text on standard output",
        script: |request| {
            let words = "\u{1b}[32mListening…\u{1b}[0m\n{\"level\":\"info\"}\n[]\nnull\n\n\"\n";
            let answer = if request.is("tools/call") {
                request.echo()
            } else {
                return None;
            };
            Some(vec![
                ServerAction::Print(words.to_owned()),
                answer,
                ServerAction::Print(words.to_owned()),
            ])
        },
        tools: "add",
        calls: &["1", "2"],
    },
    StdioFault {
        name: "600 kB of text before each answer",
        script: |request| {
            let words = || ServerAction::Print("one more word\n".repeat(43_000));
            request
                .is("tools/call")
                .then(|| vec![words(), request.echo()])
        },
        tools: "add",
        calls: &["1", "2", "3"],
    },
    StdioFault {
        name: "an answer of 17 MiB in a line",
        script: |request| {
            let large = || vec![request.text(&"x".repeat(17 << 20))];
            (request.is("tools/call") && request.start == 0).then(large)
        },
        tools: "add",
        calls: &["E_MCP_TOO_LARGE", "2"],
    },
    StdioFault {
        name: "an answer with too many nested levels",
        script: |request| {
            let deep = || format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
            let answer = || {
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}}\n",
                    request.message["id"],
                    deep()
                )
            };
            (request.is("tools/call") && request.before("tools/call") == 0)
                .then(|| vec![ServerAction::Print(answer())])
        },
        tools: "add",
        calls: &["E_MCP_PROTOCOL", "2"],
    },
    StdioFault {
        name: "answers without a request, and a duplicate answer",
        script: |request| {
            let stray = |id: Value| {
                ServerAction::Send(json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}))
            };
            let none = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}});
            request.is("tools/call").then(|| {
                let twice = [request.echo(), request.text("stale")];
                [
                    stray(json!(4711)),
                    stray(json!("x")),
                    ServerAction::Send(none),
                ]
                .into_iter()
                .chain(twice)
                .collect()
            })
        },
        tools: "add",
        calls: &["1", "2"],
    },
    StdioFault {
        name: "a numeric ID that is returned as a string",
        script: |request| {
            let id = request.message["id"].to_string();
            let answer = || json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "ok"}]}});
            request
                .is("tools/call")
                .then(|| vec![ServerAction::Send(answer())])
        },
        tools: "add",
        calls: &["ok"],
    },
    StdioFault {
        name: "invalid and partly valid results",
        script: |request| {
            let odd = [
                json!("words"),
                json!({"sum": 3}),
                json!({"content": "words"}),
                json!({"content": [{"type": "video", "url": "x"}, {"type": "text", "text": "a"}]}),
            ];
            request
                .is("tools/call")
                .then(|| vec![request.answer(odd[request.before("tools/call")].clone())])
        },
        tools: "add",
        calls: &[
            "E_MCP_PROTOCOL",
            "E_MCP_PROTOCOL",
            "words",
            "[unreadable content]\na",
        ],
    },
    StdioFault {
        name: "invalid tools next to a valid tool",
        script: |request| {
            let schema = |schema: Value| json!({"name": format!("s{}", schema.to_string().len()), "inputSchema": schema});
            let deep = (0..40).fold(json!({}), |inner, _| json!({"properties": {"p": inner}}));
            let twin = tool("add");
            request.is("tools/list").then(|| {
                let tools = json!([
                    tool("add"), {"name": "none"}, 7, schema(json!("object")), schema(json!({"type": "array"})), schema(deep),
                    schema(json!({"type": "object", "description": "x".repeat(70_000)})), twin, tool(""), tool("다람쥐"),
                ]);
                vec![request.answer(json!({"tools": tools}))]
            })
        },
        tools: "add tool-e3b0c4 tool-0516ed",
        calls: &["1"],
    },
    StdioFault {
        name: "a tool that is removed before the call",
        script: |request| {
            let other = || request.answer(json!({"tools": [tool("other")]}));
            match () {
                () if request.is("tools/call") => {
                    Some(vec![request.refuse(-32602, "Unknown tool: add")])
                }
                () if request.is("tools/list") && request.before("tools/call") > 0 => {
                    Some(vec![other()])
                }
                () => None,
            }
        },
        tools: "add",
        calls: &["E_MCP_NO_TOOL"],
    },
    StdioFault {
        name: "a cursor that repeats",
        script: |request| {
            request
                .is("tools/list")
                .then(|| vec![request.answer(json!({"tools": [tool("add")], "nextCursor": "1"}))])
        },
        tools: "add",
        calls: &["1"],
    },
    StdioFault {
        name: "endless pages",
        script: |request| {
            let page = request.before("tools/list").to_string();
            request
                .is("tools/list")
                .then(|| vec![request.answer(json!({"tools": [tool("add")], "nextCursor": page}))])
        },
        tools: "add",
        calls: &["1"],
    },
    StdioFault {
        name: "structured content of an error, and structured content that violates its schema",
        script: |request| {
            let announced = json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
            let results = [
                json!({"isError": true, "content": [{"type": "text", "text": "full"}], "structuredContent": {"e": 1}}),
                json!({"content": [{"type": "text", "text": "3"}], "structuredContent": {"total": "3"}}),
                json!({"content": [{"type": "text", "text": "3"}]}),
            ];
            match () {
                () if request.is("tools/call") => Some(vec![
                    request.answer(results[request.before("tools/call")].clone()),
                ]),
                () if request.is("tools/list") => {
                    let mut tool = tool("add");
                    tool["outputSchema"] = announced;
                    Some(vec![request.answer(json!({"tools": [tool]}))])
                }
                () => None,
            }
        },
        tools: "add",
        calls: &["E_MCP_TOOL", "{\"total\":\"3\"}", "3"],
    },
    StdioFault {
        name: "an image of 12 MB",
        script: |request| {
            let content = || json!({"content": [{"type": "image", "mimeType": "image/png", "data": "QQQQ".repeat(4 << 20)}]});
            request
                .is("tools/call")
                .then(|| vec![request.answer(content())])
        },
        tools: "add",
        calls: &["E_MCP_TOO_LARGE"],
    },
    StdioFault {
        name: "10,000 progress notifications before an answer",
        script: |request| {
            let token = &request.message["params"]["_meta"]["progressToken"];
            let progress = |n: u32| {
                let params =
                    json!({"progressToken": token, "progress": n, "message": "still here"});
                ServerAction::Send(
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                )
            };
            request
                .is("tools/call")
                .then(|| (0..10_000).map(progress).chain([request.echo()]).collect())
        },
        tools: "add",
        calls: &["1"],
    },
    StdioFault {
        name: "requests to a client without the required capabilities",
        script: sends_requests_to_the_client,
        tools: "add",
        calls: &["-32601 -32601 decline -32601"],
    },
];

/// Sends four requests before it answers a call. The answer contains the received responses.
fn sends_requests_to_the_client(request: &ReceivedRequest<'_>) -> Option<Vec<ServerAction>> {
    let ask = |id: &str, method: &str, params: Value| {
        ServerAction::Send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    if request.is("tools/call") {
        let messages = json!([{"role": "user", "content": {"type": "text", "text": "hi"}}]);
        let form =
            json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
        return Some(vec![
            ask(
                "a",
                "sampling/createMessage",
                json!({"messages": messages, "maxTokens": 1}),
            ),
            ask("b", "roots/list", json!({})),
            ask("c", "elicitation/create", form),
            ask("d", "no/such", json!({})),
        ]);
    }
    let call = request
        .past
        .iter()
        .find(|message| message["method"] == "tools/call")?;
    let mut answers: Vec<&Value> = request
        .past
        .iter()
        .chain([request.message])
        .filter(|message| message.get("method").is_none())
        .collect();
    if answers.len() < 4 {
        return Some(Vec::new());
    }
    answers.sort_by_key(|answer| answer["id"].to_string());
    let result = |answer: &Value| match &answer["result"]["action"] {
        Value::String(action) => action.clone(),
        _ => answer["error"]["code"].to_string(),
    };
    let results: Vec<String> = answers.into_iter().map(result).collect();
    let content = json!([{"type": "text", "text": results.join(" ")}]);
    Some(vec![ServerAction::Send(
        json!({"jsonrpc": "2.0", "id": call["id"], "result": {"content": content}}),
    )])
}

#[tokio::test]
async fn every_stdio_server_fault_ends_the_call_with_the_expected_result() {
    let mut unexpected = Vec::new();
    for fault in FAULTS {
        let (found_tools, calls) = tokio::time::timeout(HANG_TIMEOUT, run_fault(fault))
            .await
            .expect(fault.name);
        if found_tools != fault.tools || calls != fault.calls {
            unexpected.push((fault.name, found_tools, calls));
        }
    }
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}

async fn run_fault(fault: &StdioFault) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let is_silent = fault.tools == "E_MCP_TIMEOUT";
    let timeout = if is_silent {
        Duration::from_millis(300)
    } else {
        HANG_TIMEOUT
    };
    let session = session(&MockServer::new(fault.script, 0), folder.path(), timeout);
    let found_tools = match session.catalog().await {
        Ok(catalog) => catalog
            .tools
            .iter()
            .map(|tool| tool.export.name.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => error.code.unwrap_or(error.message),
    };
    let mut calls = Vec::new();
    for n in 1..=fault.calls.len() {
        calls.push(call(&session, n).await);
    }
    session.end().await;
    (found_tools, calls)
}

#[tokio::test]
async fn a_server_that_exits_between_calls_is_restarted() {
    let folder = tempfile::tempdir().unwrap();
    let ends: Script = |request| {
        (request.is("tools/call") && request.start == 0)
            .then(|| vec![request.echo(), ServerAction::Exit])
    };
    let server = MockServer::new(ends, 0);
    let session = session(&server, folder.path(), HANG_TIMEOUT);
    assert_eq!(call(&session, 1).await, "1");
    server.ended.acquire().await.unwrap().forget();
    assert_eq!(call(&session, 2).await, "2");
    session.end().await;
}

#[tokio::test]
async fn a_server_of_an_older_revision_is_probed_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::new(|_| None, 0);
    for n in 1..=2 {
        let session = session(&server, folder.path(), HANG_TIMEOUT);
        assert_eq!(session.catalog().await.unwrap().protocol, "2025-11-25");
        session.end().await;
        assert_eq!(server.count_received("initialize"), n);
        assert_eq!(server.count_received("server/discover"), 1, "start {n}");
    }
}

#[tokio::test]
async fn a_server_that_drops_its_older_revision_is_probed_again() {
    let folder = tempfile::tempdir().unwrap();
    let updated: Script = |request| match request.start {
        0 => None,
        _ if request.is("initialize") => Some(vec![request.refuse(-32601, "no such method")]),
        _ => modern(request),
    };
    let server = MockServer::new(updated, 0);
    let mut protocols = Vec::new();
    for _ in 0..3 {
        let session = session(&server, folder.path(), HANG_TIMEOUT);
        protocols.push(session.catalog().await.unwrap().protocol.clone());
        session.end().await;
    }
    assert_eq!(protocols, ["2025-11-25", "2026-07-28", "2026-07-28"]);
    // The third start does not send `initialize` again.
    assert_eq!(server.count_received("initialize"), 2);
}

/// Answers like a server that only supports the newer revision.
fn modern(request: &ReceivedRequest<'_>) -> Option<Vec<ServerAction>> {
    let discovered = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "played", "version": "2"},
        "ttlMs": 0,
        "cacheScope": "private",
    });
    request
        .is("server/discover")
        .then(|| vec![request.answer(discovered)])
}

#[tokio::test]
async fn a_late_answer_to_a_cancelled_call_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let late: Script = |request| {
        if request.is("notifications/cancelled") {
            let id = &request.message["params"]["requestId"];
            let result = json!({"content": [{"type": "text", "text": "late"}]});
            return Some(vec![ServerAction::Send(
                json!({"jsonrpc": "2.0", "id": id, "result": result}),
            )]);
        }
        (request.is("tools/call") && request.before("tools/call") == 0).then(Vec::new)
    };
    let server = MockServer::new(late, 0);
    let session = session(&server, folder.path(), HANG_TIMEOUT);
    session.catalog().await.unwrap();
    tokio::select! {
        answer = call(&session, 1) => panic!("{answer}"),
        () = until(|| server.count_received("tools/call") == 1) => {}
    }
    until(|| server.count_received("notifications/cancelled") == 1).await;
    assert_eq!(call(&session, 2).await, "2");
    session.end().await;
}

#[tokio::test]
async fn repeated_list_changed_notifications_do_not_cause_endless_fetches() {
    let folder = tempfile::tempdir().unwrap();
    let repeated_changes: Script = |request| {
        let notification = || {
            ServerAction::Send(
                json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
            )
        };
        request.is("tools/call").then(|| {
            (0..10_000)
                .map(|_| notification())
                .chain([request.echo()])
                .collect()
        })
    };
    let server = MockServer::new(repeated_changes, 0);
    let session = session(&server, folder.path(), HANG_TIMEOUT);
    for n in 1..4 {
        assert_eq!(call(&session, n).await, n.to_string());
    }
    session.end().await;
    assert!(
        server.count_received("tools/list") < 1_000,
        "{} times",
        server.count_received("tools/list")
    );
}

#[tokio::test]
async fn a_server_that_floods_standard_error_can_be_called() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::new(|_| None, 64 << 20);
    let session = session(&server, folder.path(), HANG_TIMEOUT);
    assert_eq!(call(&session, 1).await, "1");
    session.end().await;
}

#[tokio::test]
async fn endless_tool_pages_stop_at_a_limit_with_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let endless: Script = |request| {
        let page = request.before("tools/list");
        let tools = [tool(&format!("t{}", page % 3))];
        request
            .is("tools/list")
            .then(|| vec![request.answer(json!({"tools": tools, "nextCursor": page.to_string()}))])
    };
    let server = MockServer::new(endless, 0);
    let session = session(&server, folder.path(), HANG_TIMEOUT);
    let catalog = session.catalog().await.unwrap();
    assert_eq!(catalog.tools.len(), 3);
    assert!(
        catalog
            .notes
            .iter()
            .any(|note| note.contains("more than 200 pages")),
        "{:?}",
        catalog.notes
    );
    assert!(catalog.notes.len() <= 21, "{:?}", catalog.notes);
    assert_eq!(outcome(session.call("t1", JsonObject::new()).await), "null");
    session.end().await;
}

/// Polls until a condition is true, and lets other tasks run.
pub(crate) async fn until(is_true: impl Fn() -> bool) {
    while !is_true() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
