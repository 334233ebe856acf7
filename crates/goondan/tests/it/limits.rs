//! Limits on the tool calls of one model answer and on the size of inputs.
use goondan::spec::{Environment, JsonObject};
use goondan::{Input, Swarm};
use serde_json::json;

/// Returns a project whose model makes `calls` tool calls in one answer.
fn project(calls: usize) -> String {
    let calls: Vec<String> = (0..calls)
        .map(|number| {
            format!("{{id: c{number}, tool: text-transform__case, args: {{text: hi, to: upper}}}}")
        })
        .collect();
    format!(
        "
apiVersion: goondan.ai/v1
kind: Model
metadata: {{name: m}}
spec: {{provider: scripted, model: any, options: {{agents: {{a: [{{calls: [{}]}}, {{text: done}}]}}}}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {{name: a}}
spec: {{modelConfig: {{modelRef: Model/m}}, tools: [{{ref: Tool/text-transform}}]}}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {{name: default}}
spec: {{entryAgent: Agent/a, agents: [{{ref: Agent/a}}]}}
",
        calls.join(", ")
    )
}

async fn start(calls: usize, state: &std::path::Path) -> Swarm {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("goondan.yaml"), project(calls)).unwrap();
    let project = goondan::load(folder.path());
    assert_eq!(project.diagnostics, []);
    let builder = Swarm::builder(project.bundle.unwrap())
        .state_root(state)
        .environment(Environment::default());
    builder.start().await.unwrap()
}

#[tokio::test]
async fn at_most_1000_calls_of_an_answer_run_and_each_has_a_result() {
    let state = tempfile::tempdir().unwrap();
    let swarm = start(1_003, state.path()).await;
    swarm
        .send(Input::text("go"))
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    let instance = goondan::ids::InstanceId::new("a", "main");
    let messages = swarm.conversation(&instance).await.unwrap();
    let results: Vec<_> = messages
        .iter()
        .flat_map(|message| message.tool_results())
        .collect();
    let codes: Vec<_> = results
        .iter()
        .filter_map(|result| Some(result.error.as_ref()?.code.as_str()))
        .collect();
    assert_eq!(
        (results.len(), codes),
        (1_003, vec!["E_TOOL_TOO_MANY_CALLS"; 3])
    );
    assert_eq!(messages.last().unwrap().text(), "done");
}

#[tokio::test]
async fn an_oversized_input_is_rejected_and_creates_no_instance() {
    let state = tempfile::tempdir().unwrap();
    let swarm = start(1, state.path()).await;
    let large = Input::text("x".repeat(33 << 20));
    let error = swarm.send(large).await.map(|_| ()).unwrap_err();
    assert!(
        format!("{error:?}").contains("AGENT_EVENT_TOO_LARGE"),
        "{error:?}"
    );
    let large_metadata = Input {
        metadata: JsonObject::from_iter([("a".to_owned(), json!(vec![0; 1 << 20]))]),
        ..Input::text("x")
    };
    let error = swarm.send(large_metadata).await.map(|_| ()).unwrap_err();
    assert!(
        format!("{error:?}").contains("AGENT_EVENT_TOO_LARGE"),
        "{error:?}"
    );
    let long_key = Input {
        instance_key: Some("k".repeat(1_025)),
        ..Input::text("x")
    };
    let error = swarm.send(long_key).await.map(|_| ()).unwrap_err();
    assert!(
        format!("{error:?}").contains("AGENT_KEY_TOO_LONG"),
        "{error:?}"
    );
    assert!(swarm.instances().await.is_empty());
}
