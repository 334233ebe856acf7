//! The studio: who gets the page, what the browser may do with it, and what it asks for.

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

use crate::support::{PROJECT, Running, input};

async fn start(state: &std::path::Path) -> Running {
    let studio = |offer: ServerOptions| ServerOptions {
        studio: true,
        ..offer
    };
    Running::start_offer(
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

async fn get(running: &Running, path: &str, more: &str) -> String {
    running
        .raw(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n")
                .as_bytes(),
        )
        .await
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere_and_is_not_sent_twice() {
    let state = tempfile::tempdir().unwrap();
    let running = start(state.path()).await;
    let page = get(&running, STUDIO_PATH, "").await;
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
        &running,
        STUDIO_PATH,
        &format!("If-None-Match: {}\r\n", head(&page, "etag")),
    )
    .await;
    assert!(
        again.starts_with("HTTP/1.1 304") && again.ends_with("\r\n\r\n"),
        "{again}"
    );
    let script = get(&running, "/studio/views/swarm.js", "").await;
    assert_eq!(
        head(&script, "content-type"),
        "text/javascript; charset=utf-8"
    );
    assert!(
        get(&running, "/studio/../Cargo.toml", "")
            .await
            .starts_with("HTTP/1.1 404")
    );
    assert!(
        get(&running, "/studio", "")
            .await
            .starts_with("HTTP/1.1 308")
    );
    let rebound = running
        .raw(b"GET /studio/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .await;
    assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");
}

#[tokio::test]
async fn a_server_that_does_not_offer_it_has_none() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    assert!(
        get(&running, STUDIO_PATH, "")
            .await
            .starts_with("HTTP/1.1 404")
    );
    let refused = running
        .client
        .post::<CodeBody>("/api/studio/codes", &json!({}))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ClientError::Refused(problem) if problem.code == "E_SERVE_NOT_FOUND")
    );
}

#[tokio::test]
async fn a_code_lets_one_browser_in() {
    let state = tempfile::tempdir().unwrap();
    let running = start(state.path()).await;
    let made: CodeBody = running
        .client
        .post("/api/studio/codes", &json!({}))
        .await
        .unwrap();
    assert_eq!(made.path, STUDIO_PATH);
    let body = serde_json::to_string(&json!({"code": made.code})).unwrap();
    let begin = |origin: &str| {
        format!(
            "POST /api/studio/sessions HTTP/1.1\r\nHost: localhost\r\n{origin}Content-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let foreign = running
        .raw(begin("Origin: https://evil.example\r\n").as_bytes())
        .await;
    assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
    let session = running.raw(begin("").as_bytes()).await;
    assert!(
        session.starts_with("HTTP/1.1 201") && head(&session, "set-cookie").is_empty(),
        "{session}"
    );
    let session: SessionBody =
        serde_json::from_str(session.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_ne!(
        session.token,
        running.door.token.expose(),
        "the token of the server stays with it"
    );
    let again = running.raw(begin("").as_bytes()).await;
    assert!(again.starts_with("HTTP/1.1 401"), "{again}");
    let token = format!("Authorization: Bearer {}\r\n", session.token);
    assert!(
        get(&running, "/api/swarm", &token)
            .await
            .starts_with("HTTP/1.1 200")
    );
    let end = format!(
        "DELETE /api/studio/session HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n"
    );
    assert!(
        running
            .raw(end.as_bytes())
            .await
            .starts_with("HTTP/1.1 204")
    );
    assert!(
        get(&running, "/api/swarm", &token)
            .await
            .starts_with("HTTP/1.1 401")
    );
}

#[tokio::test]
async fn a_fork_begins_with_the_messages_before_it_and_survives_the_process() {
    let state = tempfile::tempdir().unwrap();
    let running = start(state.path()).await;
    running.ask("one").await;
    running.ask("two").await;
    let main = InstanceId::new("a", "main");
    let messages = running.swarm.conversation(&main).await.unwrap();
    let fork = ForkBody {
        message_id: Some(messages[1].id.clone()),
    };
    let forked: ForkedBody = running
        .client
        .post("/api/instances/a/main/fork", &fork)
        .await
        .unwrap();
    assert_eq!((forked.agent_name.as_str(), forked.messages), ("a", 2));
    let unknown = ForkBody {
        message_id: Some("nothing".to_owned()),
    };
    let refused = running
        .client
        .post::<ForkedBody>("/api/instances/a/main/fork", &unknown)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ClientError::Refused(problem) if problem.code == "E_SERVE_NOT_FOUND")
    );
    running.kill().await;

    let running = start(state.path()).await;
    let id = InstanceId::new("a", &*forked.instance_key);
    assert_eq!(
        running.swarm.conversation(&id).await.unwrap(),
        messages[..2]
    );
    let body = InputBody {
        instance_key: Some(forked.instance_key),
        ..input("three")
    };
    let _: Value = running
        .client
        .post("/api/inputs?wait=true", &body)
        .await
        .unwrap();
    assert_eq!(running.swarm.conversation(&id).await.unwrap().len(), 4);
    assert_eq!(
        running.swarm.conversation(&main).await.unwrap(),
        messages,
        "what was forked is as it was"
    );
}

/// Says what it was asked for, or that it can't be had.
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
async fn cases_are_made_by_who_knows_what_they_are() {
    let state = tempfile::tempdir().unwrap();
    let offers = |offer: ServerOptions| ServerOptions {
        studio: true,
        recorder: Some(Arc::new(EchoRecorder)),
        ..offer
    };
    let running = Running::start_offer(
        state.path(),
        ServerLimits::default(),
        PROJECT,
        |builder| builder,
        offers,
    )
    .await;
    running.ask("one").await;
    let path = "/api/instances/a/main/case";
    let made: CaseBody = running
        .client
        .post(path, &CaseSource::default())
        .await
        .unwrap();
    assert_eq!((made.name.as_str(), made.file.as_str()), ("a:main", "None"));
    for (path, message, code) in [
        (path, "gone", "CASE_NOT_RECORDED"),
        ("/api/instances/a/no/case", "x", "INSTANCE_NOT_FOUND"),
    ] {
        let asked = CaseSource {
            message_id: Some(message.to_owned()),
        };
        let refused = running
            .client
            .post::<CaseBody>(path, &asked)
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, ClientError::Refused(problem) if problem.code == code),
            "{refused:?}"
        );
    }
    // Where nobody makes cases, there is no such address.
    let state = tempfile::tempdir().unwrap();
    let running = start(state.path()).await;
    running.ask("one").await;
    let refused = running
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
    let running = start(state.path()).await;
    let failed = running.ask("break").await;
    let listed = async |client: &LocalClient| {
        client
            .get::<DeadLettersBody>("/api/dead-letters")
            .await
            .unwrap()
            .dead_letters
    };
    let letters = listed(&running.client).await;
    assert_eq!(letters[0]["event"]["id"], failed.id);
    let path = format!("/api/instances/a/main/dead-letters/{}", failed.id);
    let discard = async || {
        let token = running.door.token.expose();
        let head = format!(
            "DELETE {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        );
        running
            .raw(format!("{head}Connection: close\r\n\r\n").as_bytes())
            .await
    };
    assert!(discard().await.starts_with("HTTP/1.1 204"));
    assert_eq!(listed(&running.client).await, Vec::<Value>::new());
    assert!(discard().await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn the_swarm_tells_of_its_parts_and_reloads() {
    let state = tempfile::tempdir().unwrap();
    let running = start(state.path()).await;
    let parts: Value = running.client.get("/api/topology").await.unwrap();
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
    let _: Value = running
        .client
        .post("/api/reload", &json!({}))
        .await
        .unwrap();
    // The list is told by another task than the one that answers.
    let reloads: Value = crate::support::within(async {
        loop {
            let told: Value = running.client.get("/api/reloads").await.unwrap();
            if told["reloads"] != json!([]) {
                return told;
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

/// Execute and network need an approval if the agent states no default, with and without rules.
#[tokio::test]
async fn an_agent_without_a_default_shows_the_rules_that_apply() {
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
        let running = Running::start_offer(
            state.path(),
            ServerLimits::default(),
            &project,
            |builder| builder,
            |offer| offer,
        )
        .await;
        let parts: Value = running.client.get("/api/topology").await.unwrap();
        assert_eq!(parts["agents"][0].get("permissions"), None, "{parts}");
        assert_eq!(parts["agents"][0]["permissionRules"], expected);
    }
}

#[tokio::test]
async fn the_first_messages_of_a_conversation_can_be_read_alone() {
    let state = tempfile::tempdir().unwrap();
    let running = start(state.path()).await;
    running.ask("one").await;
    let messages = async |query: &str| -> Value {
        let path = format!("/api/instances/a/main/messages{query}");
        running.client.get(&path).await.unwrap()
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
async fn connections_and_schedules_are_part_of_the_swarm() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start_offer(
        state.path(),
        ServerLimits::default(),
        CONNECTED,
        |builder| builder,
        |offer| offer,
    )
    .await;
    let parts: Value = running.client.get("/api/topology").await.unwrap();
    assert_eq!(parts["agents"][0]["calls"], json!(["b"]));
    assert_eq!(parts["agents"][1]["calls"], json!([]));
    assert_eq!(
        parts["connections"],
        json!([
            {"name": "hooks", "connector": "webhook", "agents": ["b", "a"]},
            {"name": "leap", "connector": "cron", "agents": ["b"]},
        ])
    );
    let mut schedules: Value = running.client.get("/api/schedules").await.unwrap();
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
async fn a_range_of_messages_has_its_place_in_the_conversation() {
    let state = tempfile::tempdir().unwrap();
    let running = start(state.path()).await;
    running.ask("one").await;
    running.ask("two").await;
    let read = async |query: &str| {
        let path = format!("/api/instances/a/main/messages{query}");
        running.client.get::<MessagesBody>(&path).await
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
async fn a_stream_begins_with_as_many_stored_events_as_are_wanted() {
    let state = tempfile::tempdir().unwrap();
    let running = start(state.path()).await;
    running.ask("one").await;
    running.ask("two").await;
    let mut events = running.client.events("/api/events?last=2").await.unwrap();
    let mut names = Vec::new();
    for _ in 0..3 {
        names.push(
            crate::support::within(events.next())
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
async fn who_has_no_code_takes_neither_room_nor_time() {
    let state = tempfile::tempdir().unwrap();
    let limits = ServerLimits {
        head: std::time::Duration::from_millis(50),
        ..ServerLimits::default()
    };
    let studio = |offer: ServerOptions| ServerOptions {
        studio: true,
        ..offer
    };
    let running =
        Running::start_offer(state.path(), limits, PROJECT, |builder| builder, studio).await;
    let begin = |length: usize, body: &str| {
        format!(
            "POST /api/studio/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: \
             {length}\r\n\r\n{body}"
        )
    };
    let response = running.raw(begin(100, "{").as_bytes()).await;
    assert!(
        response.starts_with("HTTP/1.1 400") && response.contains("took too long"),
        "{response}"
    );
    let response = running
        .raw(begin(5_000, &"x".repeat(5_000)).as_bytes())
        .await;
    assert!(response.starts_with("HTTP/1.1 413"), "{response}");
}

/// What a conversation has read is in its fork, too; so is the mark that it is a stranger's.
#[tokio::test]
async fn a_fork_has_read_what_it_begins_with() {
    let state = tempfile::tempdir().unwrap();
    let project = PROJECT.replace("rules: [{permission: write, action: ask}]", "rules: []");
    let project = project.replace(
        "agents: [{ref: Agent/a}]}",
        "agents: [{ref: Agent/a}], policy: {untrusted: [read]}}",
    );
    let running =
        Running::start_project(state.path(), ServerLimits::default(), &project, |builder| {
            builder
        })
        .await;
    let write = async |key: &str| {
        let arguments = json!({"path": "note.txt", "content": "hi"});
        let result = running
            .swarm
            .call_tool(None, Some(key), "file-system__write", arguments)
            .await
            .unwrap();
        result.error.map(|error| error.message)
    };
    running.ask("hello").await;
    assert_eq!(write("main").await, None, "nothing was read");
    let read = json!({"path": "note.txt"});
    running
        .swarm
        .call_tool(None, Some("main"), "file-system__read", read)
        .await
        .unwrap();
    let forked = running
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
