//! Tools whose functions are part of the program that embeds the swarm.

use std::path::Path;

use goondan::ports::tool::{HandlerError, ToolContext};
use goondan::{EmbeddedTool, Input, StartError, Swarm, SwarmBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

const BUNDLE: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: scripted, model: any, options: {script: script.yaml}}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: post}
spec:
  entry: embedded
  exports:
    - {name: price, description: Returns a price., parameters: {type: object, properties: {grams: {type: integer}}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, tools: [{ref: Tool/post}, {ref: Tool/wait}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

#[derive(Deserialize)]
struct PriceArguments {
    grams: u8,
}

fn post() -> EmbeddedTool {
    let price = |context: ToolContext, arguments: PriceArguments| async move {
        match arguments.grams {
            0 => Err(HandlerError::new("nothing to send")),
            grams => Ok(json!({"cents": u32::from(grams) * 2, "agent": context.agent_name})),
        }
    };
    EmbeddedTool::new("post").function("price", price)
}

/// Writes the project, with a model that calls the tool with these arguments.
fn builder(folder: &Path, arguments: &Value) -> SwarmBuilder {
    std::fs::write(folder.join("goondan.yaml"), BUNDLE).unwrap();
    let script = json!({"rules": [
        {"when": {"role": "user"}, "reply": {"calls": [
            {"id": "call", "tool": "post__price", "args": arguments},
            {"id": "pause", "tool": "wait__seconds", "args": {"seconds": 0}},
        ]}},
        {"when": {"role": "tool"}, "reply": {"text": "{{ results.call }}"}},
    ]});
    std::fs::write(folder.join("script.yaml"), script.to_string()).unwrap();
    let bundle = goondan::load(folder).bundle.unwrap();
    Swarm::builder(bundle).state_root(folder.join("state"))
}

/// Returns the response of a turn whose model calls the tool with these arguments.
async fn response(arguments: Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let builder = builder(folder.path(), &arguments).tool(post());
    let swarm = builder.start().await.unwrap();
    let turn = swarm.send(Input::text("go")).await.unwrap();
    let response = turn.result().await.unwrap().response_text();
    swarm.shutdown().await;
    response
}

#[tokio::test]
async fn an_embedded_function_can_be_called_as_a_tool() {
    let response = response(json!({"grams": 20})).await;
    assert!(response.contains("'cents': 40"), "{response}");
    assert!(response.contains("'agent': 'a'"), "{response}");
}

#[tokio::test]
async fn errors_of_an_embedded_function_become_tool_results() {
    for (arguments, expected) in [
        (json!({"grams": 0}), "nothing to send"),
        // The schema accepts these arguments, the Rust type does not.
        (json!({"grams": 256}), "E_TOOL_INVALID_ARGS"),
        (json!({}), "E_TOOL_INVALID_ARGS"),
    ] {
        let response = response(arguments).await;
        assert!(response.contains(expected), "{response}");
    }
}

#[tokio::test]
async fn a_reload_keeps_the_embedded_function() {
    let folder = tempfile::tempdir().unwrap();
    let builder = builder(folder.path(), &json!({"grams": 1})).tool(post());
    let swarm = builder.start().await.unwrap();
    let changed = BUNDLE.replace("Returns a price.", "Returns the price.");
    std::fs::write(folder.path().join("goondan.yaml"), changed).unwrap();
    assert!(swarm.reload().await.result.is_ok());
    let turn = swarm.send(Input::text("go")).await.unwrap();
    let response = turn.result().await.unwrap().response_text();
    assert!(response.contains("'cents': 2"), "{response}");
    swarm.shutdown().await;
}

#[tokio::test]
async fn a_start_without_the_embedded_function_fails() {
    for (tool, expected) in [
        (None, "this program does not"),
        (
            Some(EmbeddedTool::new("post")),
            "no function for the export `price`",
        ),
        (Some(EmbeddedTool::new("other")), "this program does not"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let builder = builder(folder.path(), &json!({}));
        let builder = match tool {
            Some(tool) => builder.tool(tool),
            None => builder,
        };
        let Err(StartError::Diagnostics(problems)) = builder.start().await else {
            panic!("the swarm started without {expected}");
        };
        let text = format!("{problems:?}");
        assert!(text.contains(expected), "{text}");
    }
}
