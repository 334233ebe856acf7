//! Titles, export and deletion of conversations, and the prompts of agents.

use goondan::ids::InstanceId;
use goondan::spec::Environment;
use goondan_serve::ServerLimits;
use goondan_serve::client::ClientError;
use goondan_serve::wire::{InstancesBody, StatesBody, TitleBody};
use serde_json::{Value, json};

use crate::support::{PROJECT, TestServer, input, with_timeout};

const MAIN: &str = "/api/instances/a/main";

fn code(refused: ClientError) -> String {
    match refused {
        ClientError::Refused(problem) => problem.code,
        other => panic!("{other}"),
    }
}

/// Sets the title of the main conversation, and returns the stored title.
async fn rename(server: &TestServer, title: &str) -> Result<String, ClientError> {
    let body = json!({"title": title});
    let path = format!("{MAIN}/title");
    let set: TitleBody = server.client.post(&path, &body).await?;
    Ok(set.title)
}

async fn titles(server: &TestServer) -> Vec<Value> {
    let listed: InstancesBody = server.client.get("/api/instances").await.unwrap();
    let mut metas = listed.instances;
    metas.iter_mut().map(|meta| meta["title"].take()).collect()
}

#[tokio::test]
async fn a_title_is_stored_with_its_conversation() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    assert_eq!(
        code(rename(&server, "Bees").await.unwrap_err()),
        "INSTANCE_NOT_FOUND"
    );
    server.run_turn("one").await;
    assert_eq!(titles(&server).await, [Value::Null]);
    assert_eq!(rename(&server, " Bees\n fly ").await.unwrap(), "Bees fly");
    server.run_turn("two").await;
    assert_eq!(titles(&server).await, [json!("Bees fly")]);
    assert_eq!(
        code(rename(&server, &"b".repeat(201)).await.unwrap_err()),
        "E_SERVE_REQUEST"
    );
    server.kill().await;

    let server = TestServer::start(state.path()).await;
    assert_eq!(titles(&server).await, [json!("Bees fly")]);
    assert_eq!(rename(&server, "  ").await.unwrap(), "");
    assert_eq!(titles(&server).await, [Value::Null]);
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
    let server = TestServer::start_project(
        state.path(),
        ServerLimits::default(),
        &project_with_states(),
        |builder| builder.environment(Environment::from_iter([key])),
    )
    .await;
    let path = format!("{MAIN}/states");
    let missing = server.client.get::<StatesBody>(&path).await;
    assert_eq!(code(missing.unwrap_err()), "INSTANCE_NOT_FOUND");
    server.run_turn("one").await;
    let none: StatesBody = server.client.get(&path).await.unwrap();
    assert_eq!(none.states, [] as [Value; 0]);
    server.run_turn("plan").await;
    let stored: StatesBody = server.client.get(&path).await.unwrap();
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
async fn a_conversation_is_exported_as_json_lines() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    server.run_turn("one").await;
    let token = server.endpoint.token.expose();
    let get = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\n\r\n"
        )
    };
    let path = format!("{MAIN}/export");
    let response = server.raw(get(&path).as_bytes()).await;
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
    let response = server
        .raw(get("/api/instances/a/none/export").as_bytes())
        .await;
    assert!(response.starts_with("HTTP/1.1 404"), "{response}");
}

#[tokio::test]
async fn an_idle_conversation_is_deleted_with_its_data() {
    let state = tempfile::tempdir().unwrap();
    let server = TestServer::start(state.path()).await;
    let main = InstanceId::new("a", "main");
    server.run_turn("one").await;
    rename(&server, "Bees").await.unwrap();
    let directory = server.swarm.workspace_dir().join("instances");
    let count = || std::fs::read_dir(&directory).unwrap().count();
    assert_eq!(count(), 1);
    let slow: Value = server
        .client
        .post("/api/inputs", &input("slow"))
        .await
        .unwrap();
    let refused = server.client.delete(MAIN).await.unwrap_err();
    assert_eq!(code(refused), "AGENT_TURN_RUNNING");
    server
        .client
        .delete(&format!("/api/inputs/{}", slow["id"].as_str().unwrap()))
        .await
        .unwrap();
    with_timeout(async {
        while server.client.delete(MAIN).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(count(), 0);
    assert!(!server.swarm.has_instance(&main).await);
    let refused = server.client.delete(MAIN).await.unwrap_err();
    assert_eq!(code(refused), "INSTANCE_NOT_FOUND");
    server.run_turn("two").await;
    assert_eq!(server.user_message_count().await, 1);
    assert_eq!(titles(&server).await, [Value::Null]);
    server.client.delete(MAIN).await.unwrap();
    server.kill().await;

    let server = TestServer::start(state.path()).await;
    assert_eq!(titles(&server).await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_agent_prompt_is_shown_with_its_file_and_line() {
    let project = crate::support::PROJECT.replace(
        "  tools: [{ref: Tool/file-system}]",
        "  prompt: {system: You keep bees.}\n  tools: [{ref: Tool/file-system}]",
    );
    let state = tempfile::tempdir().unwrap();
    let limits = goondan_serve::ServerLimits::default();
    let server = TestServer::start_project(state.path(), limits, &project, |builder| builder).await;
    let parts: Value = server.client.get("/api/topology").await.unwrap();
    let line = 1 + project
        .lines()
        .position(|line| line.contains("name: a}"))
        .unwrap();
    assert_eq!(
        parts["agents"][0]["prompt"],
        json!({"text": "You keep bees.", "file": "goondan.yaml", "line": line})
    );
    let server = TestServer::start(tempfile::tempdir().unwrap().path()).await;
    let parts: Value = server.client.get("/api/topology").await.unwrap();
    assert_eq!(parts["agents"][0].get("prompt"), None);
}
