//! A swarm asks another swarm by A2A: a Tool with `spec.a2a` on one side, the door on the other.

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

use crate::support::{PROJECT, Running, within};

/// The swarm that asks. Its model does what the user says: `other__ask` with those arguments.
fn asking(url: &str) -> String {
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

/// A swarm that asks the one behind a server.
struct Asking {
    swarm: Swarm,
    _folder: tempfile::TempDir,
}

impl Asking {
    async fn start(url: &str, authorization: &str) -> Asking {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("goondan.yaml"), asking(url)).unwrap();
        let project = goondan::load(folder.path());
        assert_eq!(project.diagnostics, []);
        let swarm = Swarm::builder(project.bundle.unwrap())
            .state_root(folder.path().join("state"))
            .environment(environment(authorization))
            .start()
            .await
            .unwrap();
        Asking {
            swarm,
            _folder: folder,
        }
    }

    async fn of(running: &Running) -> Asking {
        let bearer = format!("Bearer {}", running.door.token.expose());
        Asking::start(&format!("http://{}/a2a/a", running.address), &bearer).await
    }

    async fn call(&self, arguments: Value) -> ToolCallResult {
        within(self.swarm.call_tool(None, None, "other__ask", arguments))
            .await
            .unwrap()
    }

    async fn say(&self, text: &str) -> TurnResult {
        within(self.swarm.send(Input::text(text)).await.unwrap().result())
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
async fn a_swarm_asks_another_and_goes_on_with_the_conversation() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let asking = Asking::of(&running).await;
    assert_eq!(asking.say("hi").await.response_text(), "it said hi one two");
    let first = output(asking.call(json!({"message": "ho"})).await);
    assert_eq!(first["answer"], "ho one two");
    let second = output(
        asking
            .call(json!({"message": "hu", "conversation": first["conversation"]}))
            .await,
    );
    assert_eq!(second["conversation"], first["conversation"]);
    let instance = InstanceId::new("a", first["conversation"].as_str().unwrap());
    let messages = running.swarm.conversation(&instance).await.unwrap();
    assert_eq!(
        messages
            .iter()
            .filter(|message| message.data.role == MessageRole::User)
            .count(),
        2
    );
    // A call without a conversation begins one.
    assert_eq!(running.swarm.instances().await.len(), 2);
}

#[tokio::test]
async fn an_agent_that_asks_back_gets_its_answer_by_another_call() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let asking = Asking::of(&running).await;
    let asked = output(asking.call(json!({"message": "write"})).await);
    assert!(
        asked["question"]
            .as_str()
            .unwrap()
            .contains("file-system__write"),
        "{asked}"
    );
    let answer = |message: &str| json!({"message": message, "task": asked["task"]});
    let again = output(asking.call(answer("perhaps")).await);
    assert_eq!(
        (&again["question"], &again["task"]),
        (&asked["question"], &asked["task"]),
        "that is no answer"
    );
    let done = output(asking.call(answer("yes")).await);
    assert!(
        !done["answer"].as_str().unwrap().contains("E_TOOL_DENIED"),
        "{done}"
    );
    assert_eq!(done["conversation"], asked["conversation"]);
}

#[tokio::test]
async fn a_call_that_is_cancelled_cancels_the_task() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let asking = Asking::of(&running).await;
    let mut events = running.swarm.subscribe();
    let turn = asking.swarm.send(Input::text("slow")).await.unwrap();
    // The other swarm works on it.
    loop {
        let event = within(events.recv()).await.unwrap();
        if matches!(&event, goondan::event::SwarmEvent::Runtime(event) if json!(event)["type"] == "step.started")
        {
            break;
        }
    }
    asking.swarm.cancel(&turn.instance).await;
    within(turn.result()).await.unwrap();
    loop {
        let event = within(events.recv()).await.unwrap();
        if let goondan::event::SwarmEvent::TurnEnded { result, .. } = event {
            assert_eq!(json!(result.finish_reason), "cancelled");
            break;
        }
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let asking = Asking::of(&running).await;
    assert_eq!(
        code(asking.call(json!({"message": "break"})).await),
        "E_A2A_TASK"
    );
    assert_eq!(
        code(
            asking
                .call(json!({"message": "hi", "task": "nothing"}))
                .await
        ),
        "E_A2A_REFUSED"
    );
    assert_eq!(
        code(asking.call(json!({"text": "hi"})).await),
        "E_TOOL_INVALID_ARGS"
    );
    let address = running.address;
    for (url, authorization) in [
        (
            format!("http://{address}/a2a/a"),
            "Bearer nonsense-nonsense",
        ),
        (format!("http://{address}/a2a/nobody"), "Bearer x"),
        ("http://127.0.0.1:1/".to_owned(), "Bearer x"),
    ] {
        let stranger = Asking::start(&url, authorization).await;
        assert_eq!(
            code(stranger.call(json!({"message": "hi"})).await),
            "E_A2A_CONNECT",
            "{url}"
        );
    }
    // A start waits for nobody, and a task goes on where the agent comes back.
    assert_eq!(running.swarm.instances().await.len(), 1);
}

#[tokio::test]
async fn a_call_that_is_made_again_after_a_crash_begins_no_second_task() {
    let state = tempfile::tempdir().unwrap();
    let running =
        Running::start_project(state.path(), ServerLimits::default(), PROJECT, |builder| {
            builder
        })
        .await;
    let folder = tempfile::tempdir().unwrap();
    // Its author says that the agent looks at the ids of messages.
    let project = asking(&format!("http://{}/a2a/a", running.address));
    let project = project.replace(
        "metadata: {name: other}\nspec:\n",
        "metadata: {name: other}\nspec:\n  exports: [{name: ask, idempotent: true}]\n",
    );
    std::fs::write(folder.path().join("goondan.yaml"), project).unwrap();
    let bearer = format!("Bearer {}", running.door.token.expose());
    let mut events = running.swarm.subscribe();
    let swarm = start(folder.path(), &bearer).await;
    let turn = swarm
        .send(Input {
            id: Some("once".to_owned()),
            ..Input::text("slow")
        })
        .await
        .unwrap();
    loop {
        let event = within(events.recv()).await.unwrap();
        if matches!(&event, goondan::event::SwarmEvent::Runtime(event) if json!(event)["type"] == "step.started")
        {
            break;
        }
    }
    swarm.kill();
    drop((turn, swarm));
    let swarm = start(folder.path(), &bearer).await;
    let mut again = swarm.subscribe();
    // The other swarm hears of it again, under the same task.
    let task = running.swarm.instances().await.remove(0).id();
    within(async {
        while running.service.swarm().cancel(&task).await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    while !matches!(
        within(again.recv()).await.unwrap(),
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
    assert_eq!(running.swarm.instances().await.len(), 1);
}

/// Begins a swarm, where need be once another one has left its workspace.
async fn start(folder: &Path, authorization: &str) -> Swarm {
    let bundle: Arc<goondan::spec::Bundle> = goondan::load(folder).bundle.unwrap();
    within(async {
        loop {
            let builder = Swarm::builder(Arc::clone(&bundle)).state_root(folder.join("state"));
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
