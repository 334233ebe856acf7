//! Faults of HTTP servers, and of proxies between client and server.

use serde_json::{Value, json};

use crate::http_server::{
    MockHttpServer, Reply, Request, Script, event_stream_reply, html_reply, json_reply, status,
};
use crate::stdio_server::{HANG_TIMEOUT, call};

struct HttpFault {
    name: &'static str,
    script: Script,
    /// Results of consecutive calls with 1, 2 ….
    calls: &'static [&'static str],
    /// Total number of calls that the server receives.
    received_calls: usize,
}

const FAULTS: &[HttpFault] = &[
    HttpFault {
        name: "a session that is lost between calls",
        script: |request, past| refuse_calls_of_lost_session(request, past, || status(404)),
        calls: &["1", "2"],
        // The second call reaches both the old and the new session.
        received_calls: 3,
    },
    HttpFault {
        name: "a lost session that is refused with 400 and a JSON-RPC error",
        script: |request, past| {
            let refused = || Reply {
                status: 400,
                ..json_reply(json_rpc_refusal(
                    "Bad Request: No valid session ID provided",
                ))
            };
            refuse_calls_of_lost_session(request, past, refused)
        },
        calls: &["1", "2"],
        received_calls: 3,
    },
    HttpFault {
        name: "a lost session that is refused with 400 and plain text",
        script: |request, past| {
            let refused = || Reply {
                headers: "content-type: text/plain\r\n",
                status: 400,
                body: "Invalid or missing session ID".to_owned(),
            };
            refuse_calls_of_lost_session(request, past, refused)
        },
        calls: &["1", "2"],
        received_calls: 3,
    },
    HttpFault {
        name: "a lost session that is refused with 503",
        script: |request, past| {
            let refused = || Reply {
                status: 503,
                ..json_reply(json_rpc_refusal("Session not found"))
            };
            refuse_calls_of_lost_session(request, past, refused)
        },
        calls: &["1", "2"],
        received_calls: 3,
    },
    HttpFault {
        name: "a session that the server always refuses",
        script: |request, _| {
            let refused = || Reply {
                status: 503,
                ..json_reply(json_rpc_refusal("Session not found"))
            };
            request.is("tools/call").then(refused)
        },
        calls: &["E_MCP_CONNECT"],
        received_calls: 2,
    },
    HttpFault {
        name: "a login that expires between calls",
        script: |request, past| {
            let refusal = || Reply {
                headers: "www-authenticate: Bearer error=\"invalid_token\"\r\n",
                ..status(401)
            };
            (request.is("tools/call") && count(past, "tools/call") == 1).then(refusal)
        },
        calls: &["1", "E_MCP_AUTH", "3"],
        received_calls: 3,
    },
    HttpFault {
        name: "a stream that is cut in the middle of an answer, and resumes",
        script: |request, past| match request.header("last-event-id") {
            Some("7") => {
                let call = past.iter().rev().find(|past| past.is("tools/call"))?;
                Some(event_stream_reply(format!(
                    "id: 8\ndata: {}\n\n",
                    call.echo()
                )))
            }
            Some(_) => Some(status(400)),
            None => request
                .is("tools/call")
                .then(|| event_stream_reply("id: 7\nretry: 1\ndata: \n\n".to_owned())),
        },
        calls: &["1", "2"],
        received_calls: 2,
    },
    HttpFault {
        name: "a stream that is cut and cannot resume",
        script: |request, past| {
            (request.is("tools/call") && count(past, "tools/call") == 0)
                .then(|| event_stream_reply(": hello\n\n".to_owned()))
        },
        calls: &["E_MCP_DIED", "2"],
        received_calls: 2,
    },
    HttpFault {
        name: "an HTML page of a gateway instead of an answer",
        script: |request, past| {
            let calls = count(past, "tools/call");
            (request.is("tools/call") && calls < 2)
                .then(|| html_reply(if calls == 0 { 502 } else { 200 }))
        },
        calls: &["E_MCP_CONNECT", "E_MCP_CONNECT", "3"],
        received_calls: 3,
    },
    HttpFault {
        name: "an answer of 17 MiB",
        script: |request, past| {
            let large = || json!({"content": [{"type": "text", "text": "x".repeat(17 << 20)}]});
            (request.is("tools/call") && count(past, "tools/call") == 0)
                .then(|| json_reply(request.result(large())))
        },
        calls: &["E_MCP_TOO_LARGE", "2"],
        received_calls: 2,
    },
    HttpFault {
        name: "an event of 17 MiB",
        script: |request, past| {
            let large = || json!({"content": [{"type": "text", "text": "x".repeat(17 << 20)}]});
            let sent = || event_stream_reply(format!("data: {}\n\n", request.result(large())));
            (request.is("tools/call") && count(past, "tools/call") == 0).then(sent)
        },
        // The oversized event ends the stream.
        calls: &["E_MCP_DIED", "2"],
        received_calls: 2,
    },
    HttpFault {
        name: "an answer to another request",
        script: |request, past| {
            let other = || {
                json_reply(
                    json!({"jsonrpc": "2.0", "id": "server-error", "result": Value::Null})
                        .to_string(),
                )
            };
            (request.is("tools/call") && count(past, "tools/call") == 0).then(other)
        },
        calls: &["E_MCP_PROTOCOL", "2"],
        received_calls: 2,
    },
    HttpFault {
        name: "an error without the ID of the request",
        script: |request, past| {
            let error = || json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "busy"}});
            let refused = || Reply {
                status: 400,
                ..json_reply(error().to_string())
            };
            (request.is("tools/call") && count(past, "tools/call") == 0).then(refused)
        },
        calls: &["E_MCP_PROTOCOL", "2"],
        received_calls: 2,
    },
];

fn json_rpc_refusal(message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": message}}).to_string()
}

/// Simulates a lost session: all calls in the first session except the first call get `refused`.
fn refuse_calls_of_lost_session(
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
            ..json_reply(request.result(crate::stdio_server::initialize_result("2025-11-25")))
        }),
        () => None,
    }
}

fn count(past: &[Request], method: &str) -> usize {
    past.iter().filter(|past| past.is(method)).count()
}

#[tokio::test]
async fn every_http_server_fault_ends_the_call_with_the_expected_result() {
    let mut unexpected = Vec::new();
    for fault in FAULTS {
        let folder = tempfile::tempdir().unwrap();
        let server = MockHttpServer::new(fault.script).await;
        let session = server.session(folder.path());
        let all_calls = async {
            let mut calls = Vec::new();
            for n in 1..=fault.calls.len() {
                calls.push(call(&session, n).await);
            }
            calls
        };
        let calls = tokio::time::timeout(HANG_TIMEOUT, all_calls)
            .await
            .expect(fault.name);
        let received_calls = server.count_received("tools/call");
        if calls != fault.calls || received_calls != fault.received_calls {
            unexpected.push((fault.name, calls, received_calls));
        }
        session.end().await;
    }
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}
