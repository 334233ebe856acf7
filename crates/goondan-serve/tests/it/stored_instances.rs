//! Titles, export and deletion of conversations, and the prompts of agents.

use goondan::ids::InstanceId;
use goondan::spec::Environment;
use goondan_serve::ServerLimits;
use goondan_serve::client::ClientError;
use goondan_serve::wire::{InputState, InstancesBody, StatesBody, TitleBody};
use serde_json::{Value, json};

use crate::support::{PROJECT, Running, input, within};

const MAIN: &str = "/api/instances/a/main";

fn code(refused: ClientError) -> String {
    match refused {
        ClientError::Refused(problem) => problem.code,
        other => panic!("{other}"),
    }
}

/// Sets a title, and returns it as it is stored.
async fn rename(running: &Running, title: &str) -> Result<String, ClientError> {
    let body = json!({"title": title});
    let path = format!("{MAIN}/title");
    let set: TitleBody = running.client.post(&path, &body).await?;
    Ok(set.title)
}

async fn titles(running: &Running) -> Vec<Value> {
    let listed: InstancesBody = running.client.get("/api/instances").await.unwrap();
    let mut metas = listed.instances;
    metas.iter_mut().map(|meta| meta["title"].take()).collect()
}

#[tokio::test]
async fn a_title_is_kept_with_its_conversation() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    assert_eq!(
        code(rename(&running, "Bees").await.unwrap_err()),
        "INSTANCE_NOT_FOUND"
    );
    running.ask("one").await;
    assert_eq!(titles(&running).await, [Value::Null]);
    assert_eq!(rename(&running, " Bees\n fly ").await.unwrap(), "Bees fly");
    running.ask("two").await;
    assert_eq!(titles(&running).await, [json!("Bees fly")]);
    assert_eq!(
        code(rename(&running, &"b".repeat(201)).await.unwrap_err()),
        "E_SERVE_REQUEST"
    );
    running.kill().await;

    let running = Running::start(state.path()).await;
    assert_eq!(titles(&running).await, [json!("Bees fly")]);
    assert_eq!(rename(&running, "  ").await.unwrap(), "");
    assert_eq!(titles(&running).await, [Value::Null]);
}

/// Returns `PROJECT` with an agent that writes a task list and searches for a tool.
fn project_with_states() -> String {
    let call = "{when: {role: user, contains: plan}, reply: {calls: [\
        {id: t, tool: todo__write, args: {todos: [{content: call 0a1b2c3d4e5f}]}}, \
        {id: s, tool: tool-search__search, args: {query: todo read}}]}}";
    PROJECT
        .replace("rules:\n", &format!("rules:\n      - {call}\n"))
        .replace(
            "tools: [",
            "extensions: [{ref: Extension/tool-search}]\n  tools: [{ref: Tool/todo}, ",
        )
}

#[tokio::test]
async fn states_of_extensions_and_tools_are_listed_without_secrets() {
    let state = tempfile::tempdir().unwrap();
    let key = ("DESK_KEY".to_owned(), "0a1b2c3d4e5f".to_owned());
    let running = Running::start_project(
        state.path(),
        ServerLimits::default(),
        &project_with_states(),
        |builder| builder.environment(Environment::from_iter([key])),
    )
    .await;
    let path = format!("{MAIN}/states");
    let missing = running.client.get::<StatesBody>(&path).await;
    assert_eq!(code(missing.unwrap_err()), "INSTANCE_NOT_FOUND");
    running.ask("one").await;
    let none: StatesBody = running.client.get(&path).await.unwrap();
    assert_eq!(none.states, [] as [Value; 0]);
    running.ask("plan").await;
    let stored: StatesBody = running.client.get(&path).await.unwrap();
    let owners: Vec<_> = stored
        .states
        .iter()
        .map(|state| (&state["owner"], &state["name"]))
        .collect();
    assert_eq!(
        owners,
        [
            (&json!("extension"), &json!("tool-search")),
            (&json!("tool"), &json!("todo"))
        ]
    );
    let text = json!(stored.states).to_string();
    assert!(text.contains("todo__read"), "{text}");
    assert!(text.contains("call ***"), "{text}");
    assert!(!text.contains("0a1b2c3d4e5f"), "{text}");
}

#[tokio::test]
async fn a_conversation_is_exported_as_lines() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    running.ask("one").await;
    let token = running.door.token.expose();
    let get = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\n\r\n"
        )
    };
    let path = format!("{MAIN}/export");
    let response = running.raw(get(&path).as_bytes()).await;
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("content-type: application/jsonl"),
        "{response}"
    );
    let lines: Vec<Value> = body
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["format"], "goondan-instance");
    assert_eq!(lines[0]["messages"], lines.len() - 1);
    assert_eq!(lines[1]["data"]["content"][0]["text"], "one");
    let response = running
        .raw(get("/api/instances/a/none/export").as_bytes())
        .await;
    assert!(response.starts_with("HTTP/1.1 404"), "{response}");
}

#[tokio::test]
async fn an_idle_conversation_is_deleted_with_its_data() {
    let state = tempfile::tempdir().unwrap();
    let running = Running::start(state.path()).await;
    let main = InstanceId::new("a", "main");
    running.ask("one").await;
    rename(&running, "Bees").await.unwrap();
    let directory = running.swarm.workspace_dir().join("instances");
    let count = || std::fs::read_dir(&directory).unwrap().count();
    assert_eq!(count(), 1);
    let slow: Value = running
        .client
        .post("/api/inputs", &input("slow"))
        .await
        .unwrap();
    let refused = running.client.delete(MAIN).await.unwrap_err();
    assert_eq!(code(refused), "AGENT_TURN_RUNNING");
    running
        .client
        .delete(&format!("/api/inputs/{}", slow["id"].as_str().unwrap()))
        .await
        .unwrap();
    within(async {
        while running.client.delete(MAIN).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(count(), 0);
    assert!(!running.swarm.has_instance(&main).await);
    let refused = running.client.delete(MAIN).await.unwrap_err();
    assert_eq!(code(refused), "INSTANCE_NOT_FOUND");
    running.ask("two").await;
    assert_eq!(running.turns().await, 1);
    assert_eq!(titles(&running).await, [Value::Null]);
    running.client.delete(MAIN).await.unwrap();
    running.kill().await;

    let running = Running::start(state.path()).await;
    assert_eq!(titles(&running).await, Vec::<Value>::new());
}

#[tokio::test]
async fn the_prompt_of_an_agent_is_shown_with_its_place() {
    let project = crate::support::PROJECT.replace(
        "  tools: [{ref: Tool/file-system}]",
        "  prompt: {system: You keep bees.}\n  tools: [{ref: Tool/file-system}]",
    );
    let state = tempfile::tempdir().unwrap();
    let limits = goondan_serve::ServerLimits::default();
    let running = Running::start_project(state.path(), limits, &project, |builder| builder).await;
    let parts: Value = running.client.get("/api/topology").await.unwrap();
    let line = 1 + project
        .lines()
        .position(|line| line.contains("name: a}"))
        .unwrap();
    assert_eq!(
        parts["agents"][0]["prompt"],
        json!({"text": "You keep bees.", "file": "goondan.yaml", "line": line})
    );
    let running = Running::start(tempfile::tempdir().unwrap().path()).await;
    let parts: Value = running.client.get("/api/topology").await.unwrap();
    assert_eq!(parts["agents"][0].get("prompt"), None);
}
