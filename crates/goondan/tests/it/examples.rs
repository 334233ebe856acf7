//! Runs the example projects through the library API.

use std::path::Path;

use goondan::event::FinishReason;
use goondan::ids::InstanceId;
use goondan::spec::Environment;
use goondan::{Input, Swarm};

async fn answer(example: &str, input: &str) -> String {
    let project = goondan::load(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples")
            .join(example),
    );
    assert_eq!(project.diagnostics, []);
    let state = tempfile::tempdir().unwrap();
    let swarm = Swarm::builder(project.bundle.unwrap())
        .state_root(state.path())
        .environment(Environment::default())
        .start()
        .await
        .unwrap();
    let result = swarm
        .send(Input::text(input))
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    swarm.shutdown().await;
    assert_eq!(
        result.finish_reason,
        FinishReason::TextResponse,
        "{:?}",
        result.error
    );
    result.response_text()
}

#[tokio::test]
async fn hello_uses_two_tools() {
    assert_eq!(
        answer("hello", "good morning").await,
        "GOOD MORNING (12 bytes in greeting.txt)"
    );
}

#[tokio::test]
async fn the_newsroom_passes_facts_from_agent_to_agent() {
    let story = answer("newsroom", "Write about bees").await;
    assert!(
        story.starts_with("A HONEY BEE VISITS ABOUT FIFTY FLOWERS"),
        "{story}"
    );
}

/// Copies an example, because its agent changes it.
fn copy_example(example: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(example);
    for file in std::fs::read_dir(from)
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.path().is_file())
    {
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    dir
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_writes_builds_and_calls_tools_in_one_turn() {
    let (dir, state) = (copy_example("self-extending"), tempfile::tempdir().unwrap());
    let project = goondan::load(dir.path());
    assert_eq!(project.diagnostics, []);
    let swarm = Swarm::builder(project.bundle.unwrap())
        .state_root(state.path())
        .environment(Environment::default())
        .approve_all(true)
        .start()
        .await
        .unwrap();
    let result = swarm
        .send(Input::text("tools make tools"))
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    let messages = swarm
        .conversation(&InstanceId::new("smith", "main"))
        .await
        .unwrap();
    swarm.shutdown().await;
    let expected = "Words: 3. Turned around: sloot ekam sloot";
    assert_eq!(result.response_text(), expected, "{messages:#?}");
}
