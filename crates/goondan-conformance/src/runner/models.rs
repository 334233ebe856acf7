//! What stands in for the models of a case, and a record of what they were asked.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goondan::models::Providers;
use goondan::models::scripted::ScriptedFactory;
use goondan::ports::model::{ModelClient, ModelError, ModelFactory, ModelRequest, ModelStream};
use goondan::spec::kinds::Model;
use goondan::spec::{Environment, Resource};
use tokio::sync::watch;

use crate::case::Case;
use crate::live::{LiveCase, LiveModels};

/// The models of a case, over all its lives: how far each script is belongs to the case.
pub(super) struct CaseModels {
    replies: ScriptedFactory,
    /// Which Models answer themselves.
    own: Own,
    log: Log,
}

/// Which Models answer themselves, instead of the replies of the case.
enum Own {
    /// None of them.
    Nothing,
    /// Those that need no network.
    Offline(Providers),
    /// All of them.
    Live(LiveModels),
}

/// Requests, and how many there are for those who wait for them. Clones share both.
#[derive(Clone, Default)]
struct Log {
    requests: Arc<Mutex<Vec<ModelRequest>>>,
    count: Arc<watch::Sender<usize>>,
    /// On which node the model of an instance was asked last.
    nodes: Arc<Mutex<HashMap<String, usize>>>,
}

impl Log {
    fn push(&self, node: usize, request: ModelRequest) {
        let instance = request.instance.to_string();
        self.nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(instance, node);
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request);
        self.count.send_replace(requests.len());
    }
}

impl CaseModels {
    pub(super) fn of(case: &Case, live: Option<&LiveCase>) -> Self {
        let own = match live {
            Some(live) => Own::Live(LiveModels::new(&live.scripts)),
            None if case.models.is_empty() => Own::Offline(Providers::new()),
            None => Own::Nothing,
        };
        CaseModels {
            replies: ScriptedFactory::new(case.models.clone()),
            own,
            log: Log::default(),
        }
    }

    /// Every request so far, also those that failed or were cut off.
    pub(super) fn requests(&self) -> Vec<ModelRequest> {
        self.log
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// On which node the model of an instance was asked last.
    pub(super) fn node_of(&self, instance: &str) -> Option<usize> {
        self.log
            .nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(instance)
            .copied()
    }

    /// Waits until there were `count` requests.
    pub(super) async fn asked(&self, count: usize) {
        // The sender lives as long as `self`.
        let _ = self
            .log
            .count
            .subscribe()
            .wait_for(|asked| *asked >= count)
            .await;
    }
}

/// The models of a case, as one of its nodes asks them.
pub(super) struct NodeModels {
    node: usize,
    models: Arc<CaseModels>,
}

impl NodeModels {
    pub(super) fn of(node: usize, models: Arc<CaseModels>) -> Self {
        NodeModels { node, models }
    }
}

impl ModelFactory for NodeModels {
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        self.models
            .client_on(self.node, model, bundle_root, environment)
    }
}

impl ModelFactory for CaseModels {
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        self.client_on(1, model, bundle_root, environment)
    }
}

impl CaseModels {
    fn client_on(
        &self,
        node: usize,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let provider = model.spec.provider.as_str();
        let factory: &dyn ModelFactory = match &self.own {
            Own::Live(models) => models,
            Own::Offline(own) if matches!(provider, "scripted" | "replay") => own,
            Own::Offline(_) | Own::Nothing => &self.replies,
        };
        let client = factory.client(model, bundle_root, environment)?;
        Ok(Arc::new(Recorded {
            client,
            node,
            log: self.log.clone(),
        }))
    }
}

/// A client with a record.
struct Recorded {
    client: Arc<dyn ModelClient>,
    node: usize,
    log: Log,
}

#[async_trait]
impl ModelClient for Recorded {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.log.push(self.node, request.clone());
        self.client.stream(request).await
    }

    fn is_schema_sent(&self) -> bool {
        self.client.is_schema_sent()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        self.client.embed(texts).await
    }
}
