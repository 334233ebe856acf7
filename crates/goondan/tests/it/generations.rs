//! What becomes of a generation that another one has followed.

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

/// Nothing here takes that long, unless it never comes.
const LIMIT: Duration = Duration::from_secs(60);

/// Makes models that answer when they may, and tell when they are gone: with the generation that they were made for.
struct Models {
    made: watch::Sender<usize>,
    asked: Arc<Notify>,
    may_answer: Arc<Notify>,
    gone: UnboundedSender<usize>,
}

struct Client {
    /// Counts from 1, as generations do.
    number: usize,
    asked: Arc<Notify>,
    may_answer: Arc<Notify>,
    gone: UnboundedSender<usize>,
}

impl ModelFactory for Models {
    fn client(
        &self,
        _: &Resource<Model>,
        _: &Path,
        _: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        self.made.send_modify(|made| *made += 1);
        let number = *self.made.borrow();
        let (asked, may_answer) = (Arc::clone(&self.asked), Arc::clone(&self.may_answer));
        Ok(Arc::new(Client {
            number,
            asked,
            may_answer,
            gone: self.gone.clone(),
        }))
    }
}

#[async_trait]
impl ModelClient for Client {
    async fn stream(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        self.asked.notify_one();
        self.may_answer.notified().await;
        let answer = ModelChunk::finish(vec![MessagePart::text(self.number.to_string())], None);
        Ok(futures::stream::iter([Ok(answer)]).boxed())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.gone.send(self.number);
    }
}

async fn next(gone: &mut UnboundedReceiver<usize>) -> usize {
    tokio::time::timeout(LIMIT, gone.recv())
        .await
        .expect("a generation is let go")
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_goes_with_its_last_turn() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let lay_out = |prompt: &str| {
        std::fs::write(
            project.join("goondan.yaml"),
            BUNDLE.replace("first", prompt),
        )
        .unwrap()
    };
    lay_out("first");
    let (gone, mut told) = unbounded_channel();
    let (asked, may_answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let models = Models {
        made: watch::Sender::new(0),
        asked: Arc::clone(&asked),
        may_answer: Arc::clone(&may_answer),
        gone,
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
    asked.notified().await;
    for (generation, prompt) in [(2, "second"), (3, "third")] {
        lay_out(prompt);
        assert_eq!(swarm.reload().await.result.unwrap(), generation);
    }
    // Nobody has a turn in the second one, and the first one is still needed.
    assert_eq!(next(&mut told).await, 2);
    may_answer.notify_one();
    assert_eq!(turn.result().await.unwrap().response_text(), "1");
    assert_eq!(next(&mut told).await, 1);
    swarm.shutdown().await;
    drop(swarm);
    assert_eq!(next(&mut told).await, 3);
    let bundle_is_gone = async {
        while first_bundle.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, bundle_is_gone)
        .await
        .expect("the bundle goes with its generation");
}
