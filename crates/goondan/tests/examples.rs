//! The examples, run through the library as an embedding program would.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first thing that is wrong")]
use std::path::Path;

use goondan::runtime::event::FinishReason;
use goondan::spec::Environment;
use goondan::{Input, Swarm};

async fn answer(example: &str, input: &str) -> String {
    let project = goondan::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example));
    assert_eq!(project.diagnostics, []);
    let state = tempfile::tempdir().unwrap();
    let swarm = Swarm::builder(project.bundle.unwrap())
        .state_root(state.path())
        .environment(Environment::default())
        .start()
        .await
        .unwrap();
    let result = swarm.send(Input::text(input)).await.unwrap().result().await.unwrap();
    swarm.shutdown().await;
    assert_eq!(result.finish_reason, FinishReason::TextResponse, "{:?}", result.error);
    result.response_text()
}

#[tokio::test]
async fn hello_uses_two_tools() {
    assert_eq!(answer("hello", "good morning").await, "GOOD MORNING (12 bytes in greeting.txt)");
}

#[tokio::test]
async fn the_newsroom_passes_facts_from_agent_to_agent() {
    let story = answer("newsroom", "Write about bees").await;
    assert!(story.starts_with("A HONEY BEE VISITS ABOUT FIFTY FLOWERS"), "{story}");
}
