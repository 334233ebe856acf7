//! Faults of line-based servers. Users of various MCP clients reported each of them: a call never
//! ended, all tools were missing, or the program crashed.

use std::time::Duration;

use goondan_core::JsonObject;
use serde_json::{Value, json};

use crate::lines::{
    Does, HANGS, Played, ReceivedRequest, Script, call, hello, outcome, session, tool,
};

struct Fault {
    name: &'static str,
    script: Script,
    /// Result of fetching the tools: their names, or an error code.
    tools: &'static str,
    /// Results of consecutive calls with 1, 2 ….
    calls: &'static [&'static str],
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "no answer to initialize",
        script: |heard| heard.is("initialize").then(Vec::new),
        tools: "E_MCP_TIMEOUT",
        calls: &[],
    },
    Fault {
        name: "an end in the middle of initialize",
        script: |heard| {
            heard
                .is("initialize")
                .then(|| vec![Does::Prints("{\"jsonrpc\":".to_owned()), Does::Ends])
        },
        tools: "E_MCP_CONNECT",
        calls: &[],
    },
    Fault {
        name: "an answer to initialize that is none",
        script: |heard| heard.is("initialize").then(|| vec![heard.answer(json!(7))]),
        tools: "E_MCP_CONNECT",
        calls: &[],
    },
    Fault {
        name: "a revision that does not exist",
        script: |heard| {
            heard
                .is("initialize")
                .then(|| vec![heard.answer(hello("1999-01-01"))])
        },
        tools: "E_MCP_CONNECT",
        calls: &[],
    },
    Fault {
        name: "an end in the middle of a call",
        script: |heard| (heard.is("tools/call") && heard.start == 0).then(|| vec![Does::Ends]),
        tools: "add",
        calls: &["E_MCP_DIED", "2"],
    },
    Fault {
        name: "words on standard output",
        script: |heard| {
            let words = "\u{1b}[32mListening…\u{1b}[0m\n{\"level\":\"info\"}\n[]\nnull\n\n\"\n";
            let answer = if heard.is("tools/call") {
                heard.echo()
            } else {
                return None;
            };
            Some(vec![
                Does::Prints(words.to_owned()),
                answer,
                Does::Prints(words.to_owned()),
            ])
        },
        tools: "add",
        calls: &["1", "2"],
    },
    Fault {
        name: "600 kB of words before each answer",
        script: |heard| {
            let words = || Does::Prints("one more word\n".repeat(43_000));
            heard.is("tools/call").then(|| vec![words(), heard.echo()])
        },
        tools: "add",
        calls: &["1", "2", "3"],
    },
    Fault {
        name: "an answer of 17 MiB in a line",
        script: |heard| {
            let large = || vec![heard.text(&"x".repeat(17 << 20))];
            (heard.is("tools/call") && heard.start == 0).then(large)
        },
        tools: "add",
        calls: &["E_MCP_TOO_LARGE", "2"],
    },
    Fault {
        name: "an answer that goes deeper than anything reads",
        script: |heard| {
            let deep = || format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
            let answer = || {
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}}\n",
                    heard.message["id"],
                    deep()
                )
            };
            (heard.is("tools/call") && heard.before("tools/call") == 0)
                .then(|| vec![Does::Prints(answer())])
        },
        tools: "add",
        calls: &["E_MCP_PROTOCOL", "2"],
    },
    Fault {
        name: "answers that nobody asked for, and the same one twice",
        script: |heard| {
            let stray = |id: Value| {
                Does::Says(json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}))
            };
            let none = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}});
            heard.is("tools/call").then(|| {
                let twice = [heard.echo(), heard.text("stale")];
                [stray(json!(4711)), stray(json!("x")), Does::Says(none)]
                    .into_iter()
                    .chain(twice)
                    .collect()
            })
        },
        tools: "add",
        calls: &["1", "2"],
    },
    Fault {
        name: "an id that comes back as text",
        script: |heard| {
            let id = heard.message["id"].to_string();
            let answer = || json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "ok"}]}});
            heard.is("tools/call").then(|| vec![Does::Says(answer())])
        },
        tools: "add",
        calls: &["ok"],
    },
    Fault {
        name: "results that are none, or only in part",
        script: |heard| {
            let odd = [
                json!("words"),
                json!({"sum": 3}),
                json!({"content": "words"}),
                json!({"content": [{"type": "video", "url": "x"}, {"type": "text", "text": "a"}]}),
            ];
            heard
                .is("tools/call")
                .then(|| vec![heard.answer(odd[heard.before("tools/call")].clone())])
        },
        tools: "add",
        calls: &[
            "E_MCP_PROTOCOL",
            "E_MCP_PROTOCOL",
            "words",
            "[unreadable content]\na",
        ],
    },
    Fault {
        name: "tools that make no sense, among others",
        script: |heard| {
            let schema = |schema: Value| json!({"name": format!("s{}", schema.to_string().len()), "inputSchema": schema});
            let deep = (0..40).fold(json!({}), |inner, _| json!({"properties": {"p": inner}}));
            let twin = tool("add");
            heard.is("tools/list").then(|| {
                let tools = json!([
                    tool("add"), {"name": "none"}, 7, schema(json!("object")), schema(json!({"type": "array"})), schema(deep),
                    schema(json!({"type": "object", "description": "x".repeat(70_000)})), twin, tool(""), tool("다람쥐"),
                ]);
                vec![heard.answer(json!({"tools": tools}))]
            })
        },
        tools: "add tool-e3b0c4 tool-0516ed",
        calls: &["1"],
    },
    Fault {
        name: "a tool that is gone when it is called",
        script: |heard| {
            let other = || heard.answer(json!({"tools": [tool("other")]}));
            match () {
                () if heard.is("tools/call") => {
                    Some(vec![heard.refuse(-32602, "Unknown tool: add")])
                }
                () if heard.is("tools/list") && heard.before("tools/call") > 0 => {
                    Some(vec![other()])
                }
                () => None,
            }
        },
        tools: "add",
        calls: &["E_MCP_NO_TOOL"],
    },
    Fault {
        name: "a cursor that leads back",
        script: |heard| {
            heard
                .is("tools/list")
                .then(|| vec![heard.answer(json!({"tools": [tool("add")], "nextCursor": "1"}))])
        },
        tools: "add",
        calls: &["1"],
    },
    Fault {
        name: "pages without end",
        script: |heard| {
            let page = heard.before("tools/list").to_string();
            heard
                .is("tools/list")
                .then(|| vec![heard.answer(json!({"tools": [tool("add")], "nextCursor": page}))])
        },
        tools: "add",
        calls: &["1"],
    },
    Fault {
        name: "an error with a structure that explains it, and structures that are not as announced",
        script: |heard| {
            let announced = json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
            let results = [
                json!({"isError": true, "content": [{"type": "text", "text": "full"}], "structuredContent": {"e": 1}}),
                json!({"content": [{"type": "text", "text": "3"}], "structuredContent": {"total": "3"}}),
                json!({"content": [{"type": "text", "text": "3"}]}),
            ];
            match () {
                () if heard.is("tools/call") => Some(vec![
                    heard.answer(results[heard.before("tools/call")].clone()),
                ]),
                () if heard.is("tools/list") => {
                    let mut told = tool("add");
                    told["outputSchema"] = announced;
                    Some(vec![heard.answer(json!({"tools": [told]}))])
                }
                () => None,
            }
        },
        tools: "add",
        calls: &["E_MCP_TOOL", "{\"total\":\"3\"}", "3"],
    },
    Fault {
        name: "a picture of 12 MB",
        script: |heard| {
            let content = || json!({"content": [{"type": "image", "mimeType": "image/png", "data": "QQQQ".repeat(4 << 20)}]});
            heard
                .is("tools/call")
                .then(|| vec![heard.answer(content())])
        },
        tools: "add",
        calls: &["E_MCP_TOO_LARGE"],
    },
    Fault {
        name: "10,000 messages about progress before an answer",
        script: |heard| {
            let token = &heard.message["params"]["_meta"]["progressToken"];
            let told = |n: u32| {
                let params =
                    json!({"progressToken": token, "progress": n, "message": "still here"});
                Does::Says(
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                )
            };
            heard
                .is("tools/call")
                .then(|| (0..10_000).map(told).chain([heard.echo()]).collect())
        },
        tools: "add",
        calls: &["1"],
    },
    Fault {
        name: "questions to a client that said that it answers none",
        script: asks_back,
        tools: "add",
        calls: &["-32601 -32601 decline -32601"],
    },
];

/// Sends four requests before it answers a call. The answer contains the received responses.
fn asks_back(heard: &ReceivedRequest<'_>) -> Option<Vec<Does>> {
    let ask = |id: &str, method: &str, params: Value| {
        Does::Says(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    if heard.is("tools/call") {
        let said = json!([{"role": "user", "content": {"type": "text", "text": "hi"}}]);
        let form =
            json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
        return Some(vec![
            ask(
                "a",
                "sampling/createMessage",
                json!({"messages": said, "maxTokens": 1}),
            ),
            ask("b", "roots/list", json!({})),
            ask("c", "elicitation/create", form),
            ask("d", "no/such", json!({})),
        ]);
    }
    let call = heard
        .past
        .iter()
        .find(|message| message["method"] == "tools/call")?;
    let mut answers: Vec<&Value> = heard
        .past
        .iter()
        .chain([heard.message])
        .filter(|message| message.get("method").is_none())
        .collect();
    if answers.len() < 4 {
        return Some(Vec::new());
    }
    answers.sort_by_key(|answer| answer["id"].to_string());
    let said = |answer: &Value| match &answer["result"]["action"] {
        Value::String(action) => action.clone(),
        _ => answer["error"]["code"].to_string(),
    };
    let said: Vec<String> = answers.into_iter().map(said).collect();
    let content = json!([{"type": "text", "text": said.join(" ")}]);
    Some(vec![Does::Says(
        json!({"jsonrpc": "2.0", "id": call["id"], "result": {"content": content}}),
    )])
}

#[tokio::test]
async fn whatever_a_server_does_a_call_ends() {
    let mut wrong = Vec::new();
    for fault in FAULTS {
        let (seen, calls) = tokio::time::timeout(HANGS, of(fault))
            .await
            .expect(fault.name);
        if seen != fault.tools || calls != fault.calls {
            wrong.push((fault.name, seen, calls));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn of(fault: &Fault) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let is_silent = fault.tools == "E_MCP_TIMEOUT";
    let patience = if is_silent {
        Duration::from_millis(300)
    } else {
        HANGS
    };
    let session = session(&Played::new(fault.script, 0), folder.path(), patience);
    let seen = match session.catalog().await {
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
    (seen, calls)
}

#[tokio::test]
async fn a_server_that_ends_between_calls_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let ends: Script = |heard| {
        (heard.is("tools/call") && heard.start == 0).then(|| vec![heard.echo(), Does::Ends])
    };
    let server = Played::new(ends, 0);
    let session = session(&server, folder.path(), HANGS);
    assert_eq!(call(&session, 1).await, "1");
    server.ended.acquire().await.unwrap().forget();
    assert_eq!(call(&session, 2).await, "2");
    session.end().await;
}

#[tokio::test]
async fn a_server_of_an_older_revision_is_probed_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Played::new(|_| None, 0);
    for n in 1..=2 {
        let session = session(&server, folder.path(), HANGS);
        assert_eq!(session.catalog().await.unwrap().protocol, "2025-11-25");
        session.end().await;
        assert_eq!(server.heard("initialize"), n);
        assert_eq!(server.heard("server/discover"), 1, "start {n}");
    }
}

#[tokio::test]
async fn a_server_that_gives_up_its_older_revision_is_probed_again() {
    let folder = tempfile::tempdir().unwrap();
    let updated: Script = |heard| match heard.start {
        0 => None,
        _ if heard.is("initialize") => Some(vec![heard.refuse(-32601, "no such method")]),
        _ => modern(heard),
    };
    let server = Played::new(updated, 0);
    let mut protocols = Vec::new();
    for _ in 0..3 {
        let session = session(&server, folder.path(), HANGS);
        protocols.push(session.catalog().await.unwrap().protocol.clone());
        session.end().await;
    }
    assert_eq!(protocols, ["2025-11-25", "2026-07-28", "2026-07-28"]);
    // The third start does not send `initialize` again.
    assert_eq!(server.heard("initialize"), 2);
}

/// Answers like a server that only has the newer revision.
fn modern(heard: &ReceivedRequest<'_>) -> Option<Vec<Does>> {
    let discovered = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "played", "version": "2"},
        "ttlMs": 0,
        "cacheScope": "private",
    });
    heard
        .is("server/discover")
        .then(|| vec![heard.answer(discovered)])
}

#[tokio::test]
async fn an_answer_that_comes_after_its_call_was_given_up_is_nobodys() {
    let folder = tempfile::tempdir().unwrap();
    let late: Script = |heard| {
        if heard.is("notifications/cancelled") {
            let id = &heard.message["params"]["requestId"];
            let result = json!({"content": [{"type": "text", "text": "late"}]});
            return Some(vec![Does::Says(
                json!({"jsonrpc": "2.0", "id": id, "result": result}),
            )]);
        }
        (heard.is("tools/call") && heard.before("tools/call") == 0).then(Vec::new)
    };
    let server = Played::new(late, 0);
    let session = session(&server, folder.path(), HANGS);
    session.catalog().await.unwrap();
    tokio::select! {
        answer = call(&session, 1) => panic!("{answer}"),
        () = until(|| server.heard("tools/call") == 1) => {}
    }
    until(|| server.heard("notifications/cancelled") == 1).await;
    assert_eq!(call(&session, 2).await, "2");
    session.end().await;
}

#[tokio::test]
async fn a_server_that_says_without_end_that_its_tools_changed_is_not_asked_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let storm: Script = |heard| {
        let told =
            || Does::Says(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        heard
            .is("tools/call")
            .then(|| (0..10_000).map(|_| told()).chain([heard.echo()]).collect())
    };
    let server = Played::new(storm, 0);
    let session = session(&server, folder.path(), HANGS);
    for n in 1..4 {
        assert_eq!(call(&session, n).await, n.to_string());
    }
    session.end().await;
    assert!(
        server.heard("tools/list") < 1_000,
        "{} times",
        server.heard("tools/list")
    );
}

#[tokio::test]
async fn a_server_that_floods_standard_error_is_understood_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let server = Played::new(|_| None, 64 << 20);
    let session = session(&server, folder.path(), HANGS);
    assert_eq!(call(&session, 1).await, "1");
    session.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_list_is_told_and_pages_end() {
    let folder = tempfile::tempdir().unwrap();
    let endless: Script = |heard| {
        let page = heard.before("tools/list");
        let tools = [tool(&format!("t{}", page % 3))];
        heard
            .is("tools/list")
            .then(|| vec![heard.answer(json!({"tools": tools, "nextCursor": page.to_string()}))])
    };
    let server = Played::new(endless, 0);
    let session = session(&server, folder.path(), HANGS);
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
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
