//! What a model or a caller sends without end is bounded, and each of it is answered.
use goondan::spec::{Environment, JsonObject};
use goondan::{Input, Swarm};
use serde_json::json;

/// An agent whose model makes that many calls at once.
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
async fn a_thousand_calls_of_an_answer_run_and_each_has_a_result() {
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
async fn what_is_too_large_is_refused_and_leaves_nothing() {
    let state = tempfile::tempdir().unwrap();
    let swarm = start(1, state.path()).await;
    let large = Input::text("x".repeat(33 << 20));
    let refused = swarm.send(large).await.map(|_| ()).unwrap_err();
    assert!(
        format!("{refused:?}").contains("AGENT_EVENT_TOO_LARGE"),
        "{refused:?}"
    );
    let described = Input {
        metadata: JsonObject::from_iter([("a".to_owned(), json!(vec![0; 1 << 20]))]),
        ..Input::text("x")
    };
    let refused = swarm.send(described).await.map(|_| ()).unwrap_err();
    assert!(
        format!("{refused:?}").contains("AGENT_EVENT_TOO_LARGE"),
        "{refused:?}"
    );
    let named = Input {
        instance_key: Some("k".repeat(1_025)),
        ..Input::text("x")
    };
    let refused = swarm.send(named).await.map(|_| ()).unwrap_err();
    assert!(
        format!("{refused:?}").contains("AGENT_KEY_TOO_LONG"),
        "{refused:?}"
    );
    assert!(swarm.instances().await.is_empty());
}
