//! Faults of web servers and of proxies in front of them.

use serde_json::{Value, json};

use crate::lines::{HANGS, call};
use crate::web::{Reply, Request, Script, Served, data, events, page, status};

struct Fault {
    name: &'static str,
    script: Script,
    /// Results of consecutive calls with 1, 2 ….
    calls: &'static [&'static str],
    /// Total number of calls that the server receives.
    heard: usize,
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "a session that is lost between calls",
        script: |request, past| after_the_first_session(request, past, || status(404)),
        calls: &["1", "2"],
        // The second call reaches both the old and the new session.
        heard: 3,
    },
    Fault {
        name: "a lost session that is refused with 400 and a JSON-RPC error",
        script: |request, past| {
            let refused = || Reply {
                status: 400,
                ..data(json_rpc_refusal(
                    "Bad Request: No valid session ID provided",
                ))
            };
            after_the_first_session(request, past, refused)
        },
        calls: &["1", "2"],
        heard: 3,
    },
    Fault {
        name: "a lost session that is refused with 400 and words",
        script: |request, past| {
            let refused = || Reply {
                headers: "content-type: text/plain\r\n",
                status: 400,
                body: "Invalid or missing session ID".to_owned(),
            };
            after_the_first_session(request, past, refused)
        },
        calls: &["1", "2"],
        heard: 3,
    },
    Fault {
        name: "a lost session that is refused with 503",
        script: |request, past| {
            let refused = || Reply {
                status: 503,
                ..data(json_rpc_refusal("Session not found"))
            };
            after_the_first_session(request, past, refused)
        },
        calls: &["1", "2"],
        heard: 3,
    },
    Fault {
        name: "a session that the server refuses again and again",
        script: |request, _| {
            let refused = || Reply {
                status: 503,
                ..data(json_rpc_refusal("Session not found"))
            };
            request.is("tools/call").then(refused)
        },
        calls: &["E_MCP_CONNECT"],
        heard: 2,
    },
    Fault {
        name: "a login that has run out between calls",
        script: |request, past| {
            let refusal = || Reply {
                headers: "www-authenticate: Bearer error=\"invalid_token\"\r\n",
                ..status(401)
            };
            (request.is("tools/call") && count(past, "tools/call") == 1).then(refusal)
        },
        calls: &["1", "E_MCP_AUTH", "3"],
        heard: 3,
    },
    Fault {
        name: "a stream that is cut in the middle of an answer, and goes on where it was",
        script: |request, past| match request.header("last-event-id") {
            Some("7") => {
                let call = past.iter().rev().find(|past| past.is("tools/call"))?;
                Some(events(format!("id: 8\ndata: {}\n\n", call.echo())))
            }
            Some(_) => Some(status(400)),
            None => request
                .is("tools/call")
                .then(|| events("id: 7\nretry: 1\ndata: \n\n".to_owned())),
        },
        calls: &["1", "2"],
        heard: 2,
    },
    Fault {
        name: "a stream that is cut and can't go on",
        script: |request, past| {
            (request.is("tools/call") && count(past, "tools/call") == 0)
                .then(|| events(": hello\n\n".to_owned()))
        },
        calls: &["E_MCP_DIED", "2"],
        heard: 2,
    },
    Fault {
        name: "a page of a gateway instead of an answer",
        script: |request, past| {
            let calls = count(past, "tools/call");
            (request.is("tools/call") && calls < 2)
                .then(|| page(if calls == 0 { 502 } else { 200 }))
        },
        calls: &["E_MCP_CONNECT", "E_MCP_CONNECT", "3"],
        heard: 3,
    },
    Fault {
        name: "an answer of 17 MiB",
        script: |request, past| {
            let large = || json!({"content": [{"type": "text", "text": "x".repeat(17 << 20)}]});
            (request.is("tools/call") && count(past, "tools/call") == 0)
                .then(|| data(request.result(large())))
        },
        calls: &["E_MCP_TOO_LARGE", "2"],
        heard: 2,
    },
    Fault {
        name: "an event of 17 MiB",
        script: |request, past| {
            let large = || json!({"content": [{"type": "text", "text": "x".repeat(17 << 20)}]});
            let sent = || events(format!("data: {}\n\n", request.result(large())));
            (request.is("tools/call") && count(past, "tools/call") == 0).then(sent)
        },
        // The oversized event ends the stream.
        calls: &["E_MCP_DIED", "2"],
        heard: 2,
    },
    Fault {
        name: "an answer to another question",
        script: |request, past| {
            let other = || {
                data(
                    json!({"jsonrpc": "2.0", "id": "server-error", "result": Value::Null})
                        .to_string(),
                )
            };
            (request.is("tools/call") && count(past, "tools/call") == 0).then(other)
        },
        calls: &["E_MCP_PROTOCOL", "2"],
        heard: 2,
    },
    Fault {
        name: "a refusal without the id of what it refuses",
        script: |request, past| {
            let error = || json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "busy"}});
            let refused = || Reply {
                status: 400,
                ..data(error().to_string())
            };
            (request.is("tools/call") && count(past, "tools/call") == 0).then(refused)
        },
        calls: &["E_MCP_PROTOCOL", "2"],
        heard: 2,
    },
];

fn json_rpc_refusal(message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": message}}).to_string()
}

/// Answers calls in the first session with `refused` after the first one.
fn after_the_first_session(
    request: &Request,
    past: &[Request],
    refused: impl Fn() -> Reply,
) -> Option<Reply> {
    let is_lost =
        count(past, "tools/call") > 0 && request.header("mcp-session-id") == Some("first");
    match () {
        () if is_lost && request.is("tools/call") => Some(refused()),
        () if request.is("initialize") && count(past, "initialize") > 0 => Some(Reply {
            headers: "content-type: application/json\r\nmcp-session-id: second\r\n",
            ..data(request.result(crate::lines::hello("2025-11-25")))
        }),
        () => None,
    }
}

fn count(past: &[Request], method: &str) -> usize {
    past.iter().filter(|past| past.is(method)).count()
}

#[tokio::test]
async fn whatever_a_server_of_the_web_does_a_call_ends() {
    let mut wrong = Vec::new();
    for fault in FAULTS {
        let folder = tempfile::tempdir().unwrap();
        let server = Served::new(fault.script).await;
        let session = server.session(folder.path());
        let calling = async {
            let mut calls = Vec::new();
            for n in 1..=fault.calls.len() {
                calls.push(call(&session, n).await);
            }
            calls
        };
        let calls = tokio::time::timeout(HANGS, calling)
            .await
            .expect(fault.name);
        let heard = server.heard("tools/call");
        if calls != fault.calls || heard != fault.heard {
            wrong.push((fault.name, calls, heard));
        }
        session.end().await;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
