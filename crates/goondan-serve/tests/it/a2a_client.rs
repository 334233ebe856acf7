//! A2A between two swarms: a Tool with `spec.a2a` calls the A2A endpoint of another swarm.

use std::path::Path;
use std::sync::Arc;

use goondan::event::TurnResult;
use goondan::ids::InstanceId;
use goondan::message::MessageRole;
use goondan::ports::tool::{ToolCallResult, ToolCallStatus};
use goondan::spec::Environment;
use goondan::{Input, StartError, Swarm};
use goondan_serve::ServerLimits;
use serde_json::{Value, json};

use crate::support::{PROJECT, TestServer, with_timeout};

/// Project of the calling swarm. Its model calls `other__ask` with each user message.
fn client_project(url: &str) -> String {
    format!(
        r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec:
  provider: scripted
  model: any
  options:
    rules:
      - {{when: {{role: user}}, reply: {{calls: [{{id: c, tool: other__ask, args: {{message: "{{{{ input }}}}"}}}}]}}}}
    default: {{text: "it said {{{{ results.c.output.answer }}}}"}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {{name: other}}
spec:
  a2a:
    url: {url}
    headers: {{Authorization: {{valueFrom: {{env: OTHER_AUTHORIZATION}}}}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: b}}
spec: {{modelConfig: {{modelRef: Model/m}}, tools: [{{ref: Tool/other}}], permissions: {{default: allow}}}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: default}}
spec: {{entryAgent: Agent/b, agents: [{{ref: Agent/b}}]}}
"#
    )
}

/// Swarm that calls the swarm of a server.
struct ClientSwarm {
    swarm: Swarm,
    _directory: tempfile::TempDir,
}

impl ClientSwarm {
    async fn start(url: &str, authorization: &str) -> ClientSwarm {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("goondan.yaml"), client_project(url)).unwrap();
        let project = goondan::load(directory.path());
        assert_eq!(project.diagnostics, []);
        let swarm = Swarm::builder(project.bundle.unwrap())
            .state_root(directory.path().join("state"))
            .environment(environment(authorization))
            .start()
            .await
            .unwrap();
        ClientSwarm {
            swarm,
            _directory: directory,
        }
    }

    async fn connected_to(server: &TestServer) -> ClientSwarm {
        let bearer = format!("Bearer {}", server.endpoint.token.expose());
        ClientSwarm::start(&format!("http://{}/a2a/a", server.address), &bearer).await
    }

    async fn call(&self, arguments: Value) -> ToolCallResult {
        with_timeout(self.swarm.call_tool(None, None, "other__ask", arguments))
            .await
            .unwrap()
    }

    async fn run_turn(&self, text: &str) -> TurnResult {
        with_timeout(self.swarm.send(Input::text(text)).await.unwrap().result())
            .await
            .unwrap()
    }
}

fn environment(authorization: &str) -> Environment {
    let mut environment = Environment::default();
    environment.set_default("OTHER_AUTHORIZATION", authorization);
    environment
}

fn output(result: ToolCallResult) -> Value {
    assert_eq!(result.status, ToolCallStatus::Ok, "{:?}", result.error);
    result.output.unwrap()
}

fn code(result: ToolCallResult) -> String {
    result.error.expect("an error").code
}

#[tokio::test]
async fn a_remote_agent_call_can_continue_a_conversation() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let client = ClientSwarm::connected_to(&server).await;
    assert_eq!(
        client.run_turn("hi").await.response_text(),
        "it said hi one two"
    );
    let first = output(client.call(json!({"message": "ho"})).await);
    assert_eq!(first["answer"], "ho one two");
    let second = output(
        client
            .call(json!({"message": "hu", "conversation": first["conversation"]}))
            .await,
    );
    assert_eq!(second["conversation"], first["conversation"]);
    let instance = InstanceId::new("a", first["conversation"].as_str().unwrap());
    let messages = server.swarm.conversation(&instance).await.unwrap();
    assert_eq!(
        messages
            .iter()
            .filter(|message| message.data.role == MessageRole::User)
            .count(),
        2
    );
    // A call without `conversation` starts a new one.
    assert_eq!(server.swarm.instances().await.len(), 2);
}

#[tokio::test]
async fn a_remote_approval_request_is_answered_by_a_second_call() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let client = ClientSwarm::connected_to(&server).await;
    let requested = output(client.call(json!({"message": "write"})).await);
    assert!(
        requested["question"]
            .as_str()
            .unwrap()
            .contains("file-system__write"),
        "{requested}"
    );
    let answer = |message: &str| json!({"message": message, "task": requested["task"]});
    let repeated = output(client.call(answer("perhaps")).await);
    assert_eq!(
        (&repeated["question"], &repeated["task"]),
        (&requested["question"], &requested["task"]),
        "an unclear text does not answer the request"
    );
    let done = output(client.call(answer("yes")).await);
    assert!(
        !done["answer"].as_str().unwrap().contains("E_TOOL_DENIED"),
        "{done}"
    );
    assert_eq!(done["conversation"], requested["conversation"]);
}

#[tokio::test]
async fn a_cancelled_call_cancels_the_remote_task() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let client = ClientSwarm::connected_to(&server).await;
    let mut events = server.swarm.subscribe();
    let turn = client.swarm.send(Input::text("slow")).await.unwrap();
    // Waits until the remote swarm works on the task.
    loop {
        let event = with_timeout(events.recv()).await.unwrap();
        if matches!(&event, goondan::event::SwarmEvent::Runtime(event) if json!(event)["type"] == "step.started")
        {
            break;
        }
    }
    client.swarm.cancel(&turn.instance).await;
    with_timeout(turn.result()).await.unwrap();
    loop {
        let event = with_timeout(events.recv()).await.unwrap();
        if let goondan::event::SwarmEvent::TurnEnded { result, .. } = event {
            assert_eq!(json!(result.finish_reason), "cancelled");
            break;
        }
    }
}

#[tokio::test]
async fn remote_failures_are_reported_as_tool_errors() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let client = ClientSwarm::connected_to(&server).await;
    assert_eq!(
        code(client.call(json!({"message": "break"})).await),
        "E_A2A_TASK"
    );
    assert_eq!(
        code(
            client
                .call(json!({"message": "hi", "task": "nothing"}))
                .await
        ),
        "E_A2A_REFUSED"
    );
    assert_eq!(
        code(client.call(json!({"text": "hi"})).await),
        "E_TOOL_INVALID_ARGS"
    );
    let address = server.address;
    for (url, authorization) in [
        (
            format!("http://{address}/a2a/a"),
            "Bearer nonsense-nonsense",
        ),
        (format!("http://{address}/a2a/nobody"), "Bearer x"),
        ("http://127.0.0.1:1/".to_owned(), "Bearer x"),
    ] {
        let client = ClientSwarm::start(&url, authorization).await;
        assert_eq!(
            code(client.call(json!({"message": "hi"})).await),
            "E_A2A_CONNECT",
            "{url}"
        );
    }
    // Rejected calls start no conversation.
    assert_eq!(server.swarm.instances().await.len(), 1);
}

#[tokio::test]
async fn a_call_repeated_after_a_crash_starts_no_second_task() {
    let state = tempfile::tempdir().unwrap();
    let server =
        TestServer::start_project(state.path(), ServerLimits::default(), PROJECT, |builder| {
            builder
        })
        .await;
    let directory = tempfile::tempdir().unwrap();
    // `idempotent` states that the remote agent recognizes repeated message ids.
    let project = client_project(&format!("http://{}/a2a/a", server.address));
    let project = project.replace(
        "metadata: {name: other}\nspec:\n",
        "metadata: {name: other}\nspec:\n  exports: [{name: ask, idempotent: true}]\n",
    );
    std::fs::write(directory.path().join("goondan.yaml"), project).unwrap();
    let bearer = format!("Bearer {}", server.endpoint.token.expose());
    let mut events = server.swarm.subscribe();
    let swarm = start(directory.path(), &bearer).await;
    let turn = swarm
        .send(Input {
            id: Some("once".to_owned()),
            ..Input::text("slow")
        })
        .await
        .unwrap();
    loop {
        let event = with_timeout(events.recv()).await.unwrap();
        if matches!(&event, goondan::event::SwarmEvent::Runtime(event) if json!(event)["type"] == "step.started")
        {
            break;
        }
    }
    swarm.kill();
    drop((turn, swarm));
    let swarm = start(directory.path(), &bearer).await;
    let mut events_after_restart = swarm.subscribe();
    // The repeated call belongs to the same remote task.
    let task = server.swarm.instances().await.remove(0).id();
    with_timeout(async {
        while server.service.swarm().cancel(&task).await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    while !matches!(
        with_timeout(events_after_restart.recv()).await.unwrap(),
        goondan::event::SwarmEvent::TurnEnded { .. }
    ) {}
    let messages = swarm
        .conversation(&InstanceId::new("b", "main"))
        .await
        .unwrap();
    let results: Vec<_> = messages
        .iter()
        .flat_map(|message| message.tool_results())
        .collect();
    assert_eq!(
        results[0].error.as_ref().unwrap().code,
        "E_A2A_TASK",
        "{results:?}"
    );
    assert_eq!(server.swarm.instances().await.len(), 1);
}

/// Starts a swarm. Retries while another swarm holds the workspace lock.
async fn start(directory: &Path, authorization: &str) -> Swarm {
    let bundle: Arc<goondan::spec::Bundle> = goondan::load(directory).bundle.unwrap();
    with_timeout(async {
        loop {
            let builder = Swarm::builder(Arc::clone(&bundle)).state_root(directory.join("state"));
            match builder
                .environment(environment(authorization))
                .start()
                .await
            {
                Ok(swarm) => return swarm,
                Err(StartError::Workspace(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}
