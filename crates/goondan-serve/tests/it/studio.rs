//! The studio: access to the page, security headers, and the routes that the page uses.

use std::future::ready;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use goondan::Swarm;
use goondan::ids::InstanceId;
use goondan_serve::client::{ClientError, LocalClient};
use goondan_serve::studio::STUDIO_PATH;
use goondan_serve::wire::{
    CaseBody, CaseSource, CodeBody, DeadLettersBody, ForkBody, ForkedBody, InputBody, MessagesBody,
    SessionBody,
};
use goondan_serve::{CaseRecorder, NotRecorded, ServerLimits, ServerOptions};
use serde_json::{Value, json};

use crate::support::{PROJECT, TestServer, input};

async fn start(state: &std::path::Path) -> TestServer {
    let studio = |options: ServerOptions| ServerOptions {
        studio: true,
        ..options
    };
    TestServer::start_with_options(
        state,
        ServerLimits::default(),
        PROJECT,
        |builder| builder,
        studio,
    )
    .await
}

fn head<'r>(response: &'r str, name: &str) -> &'r str {
    let (head, _) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .unwrap_or_default()
}

async fn get(server: &TestServer, path: &str, headers: &str) -> String {
    server
        .raw(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n")
                .as_bytes(),
        )
        .await
}

#[tokio::test]
async fn the_page_has_a_strict_csp_and_supports_etags() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    let page = get(&server, STUDIO_PATH, "").await;
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("<main"),
        "{page}"
    );
    let policy = head(&page, "content-security-policy");
    for part in [
        "default-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(head(&page, "x-content-type-options"), "nosniff");
    let again = get(
        &server,
        STUDIO_PATH,
        &format!("If-None-Match: {}\r\n", head(&page, "etag")),
    )
    .await;
    assert!(
        again.starts_with("HTTP/1.1 304") && again.ends_with("\r\n\r\n"),
        "{again}"
    );
    let script = get(&server, "/studio/views/swarm.js", "").await;
    assert_eq!(
        head(&script, "content-type"),
        "text/javascript; charset=utf-8"
    );
    assert!(
        get(&server, "/studio/../Cargo.toml", "")
            .await
            .starts_with("HTTP/1.1 404")
    );
    assert!(
        get(&server, "/studio", "")
            .await
            .starts_with("HTTP/1.1 308")
    );
    let rebound = server
        .raw(b"GET /studio/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .await;
    assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");
}

#[tokio::test]
async fn a_server_without_the_studio_returns_not_found() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    assert!(
        get(&server, STUDIO_PATH, "")
            .await
            .starts_with("HTTP/1.1 404")
    );
    let refused = server
        .client
        .post::<CodeBody>("/api/studio/codes", &json!({}))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ClientError::Refused(problem) if problem.code == "E_SERVE_NOT_FOUND")
    );
}

#[tokio::test]
async fn a_sign_in_code_starts_one_browser_session() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    let code: CodeBody = server
        .client
        .post("/api/studio/codes", &json!({}))
        .await
        .unwrap();
    assert_eq!(code.path, STUDIO_PATH);
    let body = serde_json::to_string(&json!({"code": code.code})).unwrap();
    let sign_in = |origin: &str| {
        format!(
            "POST /api/studio/sessions HTTP/1.1\r\nHost: localhost\r\n{origin}Content-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let foreign = server
        .raw(sign_in("Origin: https://evil.example\r\n").as_bytes())
        .await;
    assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
    let session = server.raw(sign_in("").as_bytes()).await;
    assert!(
        session.starts_with("HTTP/1.1 201") && head(&session, "set-cookie").is_empty(),
        "{session}"
    );
    let session: SessionBody =
        serde_json::from_str(session.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_ne!(
        session.token,
        server.endpoint.token.expose(),
        "the session does not reveal the server token"
    );
    let repeated = server.raw(sign_in("").as_bytes()).await;
    assert!(repeated.starts_with("HTTP/1.1 401"), "{repeated}");
    let token = format!("Authorization: Bearer {}\r\n", session.token);
    assert!(
        get(&server, "/api/swarm", &token)
            .await
            .starts_with("HTTP/1.1 200")
    );
    let end = format!(
        "DELETE /api/studio/session HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n"
    );
    assert!(server.raw(end.as_bytes()).await.starts_with("HTTP/1.1 204"));
    assert!(
        get(&server, "/api/swarm", &token)
            .await
            .starts_with("HTTP/1.1 401")
    );
}

#[tokio::test]
async fn a_fork_copies_earlier_messages_and_survives_a_restart() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    server.run_turn("one").await;
    server.run_turn("two").await;
    let main = InstanceId::new("a", "main");
    let messages = server.swarm.conversation(&main).await.unwrap();
    let fork = ForkBody {
        message_id: Some(messages[1].id.clone()),
    };
    let forked: ForkedBody = server
        .client
        .post("/api/instances/a/main/fork", &fork)
        .await
        .unwrap();
    assert_eq!((forked.agent_name.as_str(), forked.messages), ("a", 2));
    let unknown = ForkBody {
        message_id: Some("nothing".to_owned()),
    };
    let refused = server
        .client
        .post::<ForkedBody>("/api/instances/a/main/fork", &unknown)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ClientError::Refused(problem) if problem.code == "E_SERVE_NOT_FOUND")
    );
    server.kill().await;

    let server = start(state.path()).await;
    let id = InstanceId::new("a", &*forked.instance_key);
    assert_eq!(server.swarm.conversation(&id).await.unwrap(), messages[..2]);
    let body = InputBody {
        instance_key: Some(forked.instance_key),
        ..input("three")
    };
    let _: Value = server
        .client
        .post("/api/inputs?wait=true", &body)
        .await
        .unwrap();
    assert_eq!(server.swarm.conversation(&id).await.unwrap().len(), 4);
    assert_eq!(
        server.swarm.conversation(&main).await.unwrap(),
        messages,
        "the fork does not change the original conversation"
    );
}

/// Recorder that returns its arguments as a test case. Fails for the message `gone`.
#[derive(Debug)]
pub(crate) struct EchoRecorder;

impl CaseRecorder for EchoRecorder {
    fn record<'r>(
        &'r self,
        _: &'r Swarm,
        instance: &'r InstanceId,
        message: Option<&'r str>,
    ) -> BoxFuture<'r, Result<CaseBody, NotRecorded>> {
        let made = match message {
            Some("gone") => Err(NotRecorded("It is gone.".to_owned())),
            message => Ok(CaseBody {
                name: instance.to_string(),
                file: format!("{message:?}"),
                text: String::new(),
            }),
        };
        ready(made).boxed()
    }
}

#[tokio::test]
async fn test_cases_are_recorded_by_the_configured_recorder() {
    let state = tempfile::tempdir().unwrap();
    let with_recorder = |options: ServerOptions| ServerOptions {
        studio: true,
        recorder: Some(Arc::new(EchoRecorder)),
        ..options
    };
    let server = TestServer::start_with_options(
        state.path(),
        ServerLimits::default(),
        PROJECT,
        |builder| builder,
        with_recorder,
    )
    .await;
    server.run_turn("one").await;
    let path = "/api/instances/a/main/case";
    let made: CaseBody = server
        .client
        .post(path, &CaseSource::default())
        .await
        .unwrap();
    assert_eq!((made.name.as_str(), made.file.as_str()), ("a:main", "None"));
    for (path, message, code) in [
        (path, "gone", "CASE_NOT_RECORDED"),
        ("/api/instances/a/no/case", "x", "INSTANCE_NOT_FOUND"),
    ] {
        let source = CaseSource {
            message_id: Some(message.to_owned()),
        };
        let refused = server
            .client
            .post::<CaseBody>(path, &source)
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, ClientError::Refused(problem) if problem.code == code),
            "{refused:?}"
        );
    }
    // Without a recorder, the route does not exist.
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    server.run_turn("one").await;
    let refused = server
        .client
        .post::<CaseBody>(path, &CaseSource::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, ClientError::Refused(problem) if problem.code == "E_SERVE_NOT_FOUND"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn failed_events_are_listed_and_discarded() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    let failed = server.run_turn("break").await;
    let listed = async |client: &LocalClient| {
        client
            .get::<DeadLettersBody>("/api/dead-letters")
            .await
            .unwrap()
            .dead_letters
    };
    let failed_events = listed(&server.client).await;
    assert_eq!(failed_events[0]["event"]["id"], failed.id);
    let path = format!("/api/instances/a/main/dead-letters/{}", failed.id);
    let discard = async || {
        let token = server.endpoint.token.expose();
        let head = format!(
            "DELETE {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        );
        server
            .raw(format!("{head}Connection: close\r\n\r\n").as_bytes())
            .await
    };
    assert!(discard().await.starts_with("HTTP/1.1 204"));
    assert_eq!(listed(&server.client).await, Vec::<Value>::new());
    assert!(discard().await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn topology_and_reloads_are_listed() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    let parts: Value = server.client.get("/api/topology").await.unwrap();
    assert_eq!(
        parts["models"],
        json!([{"name": "m", "provider": "scripted", "model": "any"}])
    );
    assert_eq!(parts["agents"][0]["permissions"], "allow");
    assert_eq!(
        parts["agents"][0]["permissionRules"],
        json!([{"permission": "write", "action": "ask", "implied": false}])
    );
    assert_eq!(parts["agents"][0]["calls"], json!([]));
    assert_eq!(parts["connections"], json!([]));
    let tools = parts["tools"].as_array().unwrap();
    assert!(
        tools
            .iter()
            .any(|tool| tool["name"] == "file-system" && tool["entry"] == "builtin"),
        "{parts}"
    );
    let _: Value = server.client.post("/api/reload", &json!({})).await.unwrap();
    // A separate task updates the list, so the reload may appear later than the response.
    let reloads: Value = crate::support::with_timeout(async {
        loop {
            let listed: Value = server.client.get("/api/reloads").await.unwrap();
            if listed["reloads"] != json!([]) {
                return listed;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        (
            &reloads["reloads"][0]["ok"],
            &reloads["reloads"][0]["generation"]
        ),
        (&json!(true), &json!(2))
    );
}

/// The permissions `execute` and `network` imply `ask` if the agent states no default, with and
/// without rules.
#[tokio::test]
async fn an_agent_without_a_default_lists_its_implied_rules() {
    let implied = |name: &str| json!({"permission": name, "action": "ask", "implied": true});
    let stated = json!({"tool": "file-system__*", "action": "deny", "implied": false});
    let with_rules = "{rules: [{tool: \"file-system__*\", action: deny}]}";
    let cases = [
        (
            "\n  permissions: ".to_owned() + with_rules,
            json!([implied("execute"), implied("network"), stated]),
        ),
        (
            String::new(),
            json!([implied("execute"), implied("network")]),
        ),
    ];
    for (permissions, expected) in cases {
        let state = tempfile::tempdir().unwrap();
        let project = PROJECT.replace(
            "\n  permissions: {default: allow, rules: [{permission: write, action: ask}]}",
            &permissions,
        );
        let server = TestServer::start_with_options(
            state.path(),
            ServerLimits::default(),
            &project,
            |builder| builder,
            |options| options,
        )
        .await;
        let parts: Value = server.client.get("/api/topology").await.unwrap();
        assert_eq!(parts["agents"][0].get("permissions"), None, "{parts}");
        assert_eq!(parts["agents"][0]["permissionRules"], expected);
    }
}

#[tokio::test]
async fn the_first_messages_of_a_conversation_can_be_requested() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    server.run_turn("one").await;
    let messages = async |query: &str| -> Value {
        let path = format!("/api/instances/a/main/messages{query}");
        server.client.get(&path).await.unwrap()
    };
    let all = messages("").await["messages"].clone();
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!(messages("?first=1").await["messages"], json!([all[0]]));
    assert_eq!(messages("?first=9").await["messages"], all);
}

/// A project with two agents, two `cron` connections and a webhook.
const CONNECTED: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  prompt: {system: x}
  tools: [{ref: Tool/agents, exports: [send]}]
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: b}
spec:
  modelConfig: {modelRef: Model/m}
  prompt: {system: x}
  tools: [{ref: Tool/agents, exports: [catalog]}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: s}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}, {ref: Agent/b}]}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: hooks}
spec:
  connectorRef: Connector/webhook
  secrets: {signingSecret: {value: not-a-real-secret}}
  ingress: {rules: [{match: {properties: {host: x}}, route: {agentRef: Agent/b}}]}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: leap}
spec:
  connectorRef: Connector/cron
  config: {schedule: {value: \"0 8 29 2 *\"}, text: {value: report}}
  ingress: {rules: [{route: {agentRef: Agent/b}}]}
";

#[tokio::test]
async fn connections_and_schedules_are_listed() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start_with_options(
        state.path(),
        ServerLimits::default(),
        CONNECTED,
        |builder| builder,
        |options| options,
    )
    .await;
    let parts: Value = server.client.get("/api/topology").await.unwrap();
    assert_eq!(parts["agents"][0]["calls"], json!(["b"]));
    assert_eq!(parts["agents"][1]["calls"], json!([]));
    assert_eq!(
        parts["connections"],
        json!([
            {"name": "hooks", "connector": "webhook", "agents": ["b", "a"]},
            {"name": "leap", "connector": "cron", "agents": ["b"]},
        ])
    );
    let mut schedules: Value = server.client.get("/api/schedules").await.unwrap();
    let next = schedules["schedules"][0]["nextRun"].take();
    assert!(
        next.as_str().unwrap().ends_with("-02-29T08:00:00Z"),
        "{next}"
    );
    assert_eq!(
        schedules,
        json!({"schedules": [
            {"connection": "leap", "schedule": "0 8 29 2 *", "timezone": "UTC", "nextRun": null},
        ]})
    );
}

#[tokio::test]
async fn a_message_range_states_its_start_and_the_total() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    server.run_turn("one").await;
    server.run_turn("two").await;
    let read = async |query: &str| {
        let path = format!("/api/instances/a/main/messages{query}");
        server.client.get::<MessagesBody>(&path).await
    };
    let all = read("").await.unwrap();
    assert_eq!((all.start, all.total, all.messages.len()), (0, 4, 4));
    let third = all.messages[2].id.clone();
    for (query, start, end) in [
        ("?last=3".to_owned(), 1, 4),
        ("?last=9".to_owned(), 0, 4),
        ("?last=0".to_owned(), 4, 4),
        ("?first=0".to_owned(), 0, 0),
        ("?first=3".to_owned(), 0, 3),
        ("?first=9".to_owned(), 0, 4),
        (format!("?before={third}"), 0, 2),
        (format!("?last=1&before={third}"), 1, 2),
        (format!("?first=1&before={third}"), 0, 1),
    ] {
        let expected = MessagesBody {
            messages: all.messages[start..end].to_vec(),
            start,
            total: 4,
        };
        assert_eq!(read(&query).await.unwrap(), expected, "{query}");
    }
    for (query, code) in [
        ("?last=many", "E_SERVE_REQUEST"),
        ("?last=-1", "E_SERVE_REQUEST"),
        ("?latest=1", "E_SERVE_REQUEST"),
        ("?first=1&last=1", "E_SERVE_REQUEST"),
        ("?last=1&before=unknown", "E_SERVE_NOT_FOUND"),
    ] {
        let refused = read(query).await.unwrap_err();
        assert!(
            matches!(&refused, ClientError::Refused(problem) if problem.code == code),
            "{query}: {refused}"
        );
    }
}

#[tokio::test]
async fn a_stream_begins_with_the_requested_number_of_stored_events() {
    let state = tempfile::tempdir().unwrap();
    let server = start(state.path()).await;
    server.run_turn("one").await;
    server.run_turn("two").await;
    let mut events = server.client.events("/api/events?last=2").await.unwrap();
    let mut names = Vec::new();
    for _ in 0..3 {
        names.push(
            crate::support::with_timeout(events.next())
                .await
                .unwrap()
                .unwrap()
                .name,
        );
    }
    assert_eq!(
        names,
        ["step.completed", "turn.completed", "stored.complete"]
    );
}

#[tokio::test]
async fn sign_in_requests_are_limited_in_size_and_time() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        head: std::time::Duration::from_millis(50),
        ..ServerLimits::default()
    };
    let studio = |options: ServerOptions| ServerOptions {
        studio: true,
        ..options
    };
    let server =
        TestServer::start_with_options(state.path(), limits, PROJECT, |builder| builder, studio)
            .await;
    let sign_in = |length: usize, body: &str| {
        format!(
            "POST /api/studio/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: \
             {length}\r\n\r\n{body}"
        )
    };
    let response = server.raw(sign_in(100, "{").as_bytes()).await;
    assert!(
        response.starts_with("HTTP/1.1 400") && response.contains("took too long"),
        "{response}"
    );
    let response = server
        .raw(sign_in(5_000, &"x".repeat(5_000)).as_bytes())
        .await;
    assert!(response.starts_with("HTTP/1.1 413"), "{response}");
}

/// Untrusted tool output that the original conversation has read also taints its fork.
#[tokio::test]
async fn a_fork_inherits_the_tainted_state() {
    let state = tempfile::tempdir().unwrap();
    let project = PROJECT.replace("rules: [{permission: write, action: ask}]", "rules: []");
    let project = project.replace(
        "agents: [{ref: Agent/a}]}",
        "agents: [{ref: Agent/a}], policy: {untrusted: [read]}}",
    );
    let server =
        TestServer::start_project(state.path(), ServerLimits::default(), &project, |builder| {
            builder
        })
        .await;
    let write = async |key: &str| {
        let arguments = json!({"path": "note.txt", "content": "hi"});
        let result = server
            .swarm
            .call_tool(None, Some(key), "file-system__write", arguments)
            .await
            .unwrap();
        result.error.map(|error| error.message)
    };
    server.run_turn("hello").await;
    assert_eq!(
        write("main").await,
        None,
        "the conversation has read no untrusted output yet"
    );
    let read = json!({"path": "note.txt"});
    server
        .swarm
        .call_tool(None, Some("main"), "file-system__read", read)
        .await
        .unwrap();
    let forked = server
        .swarm
        .fork(&InstanceId::new("a", "main"), None)
        .await
        .unwrap()
        .unwrap();
    for key in ["main", &forked.instance_key] {
        let refused = write(key).await.unwrap_or_default();
        assert!(
            refused.contains("untrusted output of file-system__read"),
            "{key}: {refused}"
        );
    }
}
