//! Stands between the engine and the scripted model, and compares what belongs together.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goondan::ids::InstanceId;
use goondan::models::ModelProviders;
use goondan::ports::model::{ModelClient, ModelError, ModelFactory, ModelRequest, ModelStream};
use goondan::spec::kinds::Model;
use goondan::spec::{Environment, Resource};
use tokio::sync::watch;

use super::project::{EDIT, named_in};

/// Makes scripted models whose requests are looked at.
#[derive(Clone)]
pub(super) struct Watching {
    providers: Arc<ModelProviders>,
    seen: Arc<Seen>,
}

/// What the requests have shown so far.
pub(super) struct Seen {
    books: Mutex<Books>,
    /// Counts steps, for whoever waits for some.
    steps: watch::Sender<u64>,
}

/// What is written down.
#[derive(Debug, Default, Clone)]
pub(super) struct Books {
    /// The last step of each instance.
    last: HashMap<InstanceId, Step>,
    /// Steps by the version that they were offered.
    pub(super) steps: BTreeMap<String, u64>,
    /// Tool answers that were compared with the offer that they belong to.
    pub(super) answers: u64,
    /// Turns that went on with another version than they were offered before.
    pub(super) across: u64,
    /// What does not belong together.
    pub(super) faults: Vec<String>,
}

/// What a step was given.
#[derive(Debug, Clone)]
struct Step {
    /// The version that the tool's description names.
    offer: String,
    /// The edit that the prompt names.
    edit: u32,
}

impl Watching {
    pub(super) fn new() -> Self {
        let seen = Seen {
            books: Mutex::default(),
            steps: watch::Sender::new(0),
        };
        Watching {
            providers: Arc::default(),
            seen: Arc::new(seen),
        }
    }

    pub(super) fn books(&self) -> Books {
        self.seen.lock().clone()
    }

    /// Waits until that many more steps have begun.
    pub(super) async fn more_steps(&self, count: u64) {
        let mut steps = self.seen.steps.subscribe();
        let target = *steps.borrow() + count;
        // The sender lives as long as this.
        let _ = steps.wait_for(|steps| *steps >= target).await;
    }
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at(&self, request: &ModelRequest) {
        let mut books = self.lock();
        let offer = request
            .tools
            .first()
            .and_then(|tool| named_in(&tool.description))
            .unwrap_or("nothing")
            .to_owned();
        let edit = request
            .system
            .as_deref()
            .and_then(|system| system.strip_prefix(EDIT)?.parse().ok());
        let step = Step {
            offer: offer.clone(),
            edit: edit.unwrap_or_default(),
        };
        if let Some(before) = books.last.insert(request.instance.clone(), step.clone()) {
            books.compare(&before, &step, request);
        }
        *books.steps.entry(offer).or_default() += 1;
        drop(books);
        self.steps.send_modify(|steps| *steps += 1);
    }
}

impl Books {
    /// Looks whether a step goes on where the one before it in the same conversation was.
    fn compare(&mut self, before: &Step, step: &Step, request: &ModelRequest) {
        let results: Vec<_> = request
            .messages
            .last()
            .into_iter()
            .flat_map(|message| message.tool_results())
            .collect();
        let is_new_turn = results.is_empty();
        if step.edit < before.edit || (step.edit > before.edit && !is_new_turn) {
            let (old, new) = (before.edit, step.edit);
            self.faults.push(format!(
                "{}: the prompt goes from edit {old} to {new} at a wrong place",
                request.instance
            ));
        }
        if is_new_turn {
            return;
        }
        let answer = format!("{results:?}");
        let answered = named_in(&answer).unwrap_or("nothing");
        if answered != before.offer {
            self.faults.push(format!(
                "{}: {} was offered, {answered} has answered",
                request.instance, before.offer
            ));
        }
        self.answers += 1;
        self.across += u64::from(before.offer != step.offer);
    }
}

impl ModelFactory for Watching {
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let inner = self.providers.client(model, bundle_root, environment)?;
        Ok(Arc::new(WatchedClient {
            inner,
            seen: Arc::clone(&self.seen),
        }))
    }
}

struct WatchedClient {
    inner: Arc<dyn ModelClient>,
    seen: Arc<Seen>,
}

#[async_trait]
impl ModelClient for WatchedClient {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.seen.look_at(&request);
        self.inner.stream(request).await
    }
}
