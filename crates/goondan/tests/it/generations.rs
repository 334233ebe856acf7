//! Lifetime of a generation after a reload.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use goondan::message::MessagePart;
use goondan::ports::model::{
    ModelChunk, ModelClient, ModelError, ModelFactory, ModelRequest, ModelStream,
};
use goondan::spec::kinds::Model;
use goondan::spec::{Environment, Resource};
use goondan::{Input, Swarm};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};

const BUNDLE: &str = "
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec: {provider: any, model: any}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, prompt: {system: first}, tools: [{ref: Tool/text-transform}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";

/// Time limit of a wait; exceeded only if a generation is never dropped.
const LIMIT: Duration = Duration::from_secs(60);

/// Creates model clients that answer on request and report their generation when they are dropped.
struct TestModelFactory {
    created: watch::Sender<usize>,
    call_started: Arc<Notify>,
    may_answer: Arc<Notify>,
    dropped: UnboundedSender<usize>,
}

struct TestModelClient {
    /// Number of the generation, from 1.
    generation: usize,
    call_started: Arc<Notify>,
    may_answer: Arc<Notify>,
    dropped: UnboundedSender<usize>,
}

impl ModelFactory for TestModelFactory {
    fn client(
        &self,
        _: &Resource<Model>,
        _: &Path,
        _: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        self.created.send_modify(|created| *created += 1);
        let generation = *self.created.borrow();
        let (call_started, may_answer) =
            (Arc::clone(&self.call_started), Arc::clone(&self.may_answer));
        Ok(Arc::new(TestModelClient {
            generation,
            call_started,
            may_answer,
            dropped: self.dropped.clone(),
        }))
    }
}

#[async_trait]
impl ModelClient for TestModelClient {
    async fn stream(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        self.call_started.notify_one();
        self.may_answer.notified().await;
        let answer = ModelChunk::finish(vec![MessagePart::text(self.generation.to_string())], None);
        Ok(futures::stream::iter([Ok(answer)]).boxed())
    }
}

impl Drop for TestModelClient {
    fn drop(&mut self) {
        let _ = self.dropped.send(self.generation);
    }
}

async fn next_dropped(dropped: &mut UnboundedReceiver<usize>) -> usize {
    tokio::time::timeout(LIMIT, dropped.recv())
        .await
        .expect("no generation was dropped in time")
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_generation_is_dropped_after_its_last_turn() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let write_project = |prompt: &str| {
        std::fs::write(
            project.join("goondan.yaml"),
            BUNDLE.replace("first", prompt),
        )
        .unwrap()
    };
    write_project("first");
    let (dropped, mut dropped_generations) = unbounded_channel();
    let (call_started, may_answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let models = TestModelFactory {
        created: watch::Sender::new(0),
        call_started: Arc::clone(&call_started),
        may_answer: Arc::clone(&may_answer),
        dropped,
    };
    let bundle = goondan::load(&project).bundle.unwrap();
    let first_bundle = Arc::downgrade(&bundle);
    let builder = Swarm::builder(bundle)
        .state_root(folder.path().join("state"))
        .models(Arc::new(models));
    let swarm = builder
        .environment(Environment::default())
        .start()
        .await
        .unwrap();

    let turn = swarm.send(Input::text("hello")).await.unwrap();
    call_started.notified().await;
    for (generation, prompt) in [(2, "second"), (3, "third")] {
        write_project(prompt);
        assert_eq!(swarm.reload().await.result.unwrap(), generation);
    }
    // The second generation has no turn, and the first one is still in use.
    assert_eq!(next_dropped(&mut dropped_generations).await, 2);
    may_answer.notify_one();
    assert_eq!(turn.result().await.unwrap().response_text(), "1");
    assert_eq!(next_dropped(&mut dropped_generations).await, 1);
    swarm.shutdown().await;
    drop(swarm);
    assert_eq!(next_dropped(&mut dropped_generations).await, 3);
    let bundle_is_dropped = async {
        while first_bundle.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, bundle_is_dropped)
        .await
        .expect("the bundle was not dropped with its generation");
}
