//! Models of a test case, with a log of their requests.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goondan::models::ModelProviders;
use goondan::models::scripted::ScriptedFactory;
use goondan::ports::model::{ModelClient, ModelError, ModelFactory, ModelRequest, ModelStream};
use goondan::spec::kinds::Model;
use goondan::spec::{Environment, Resource};
use tokio::sync::watch;

use crate::case::ConformanceCase;
use crate::live::{LiveCase, LiveModels};

/// Models of a test case. Positions in the scripts survive `kill` and `restart`.
pub(super) struct CaseModels {
    replies: ScriptedFactory,
    own: OwnProviders,
    log: ModelRequestLog,
}

/// Models that use their own provider, instead of replies in the test case.
enum OwnProviders {
    /// None.
    Nothing,
    /// Models that need no network.
    Offline(ModelProviders),
    /// All models.
    Live(LiveModels),
}

/// Request log with a counter to wait for. Clones share both.
#[derive(Clone, Default)]
struct ModelRequestLog {
    requests: Arc<Mutex<Vec<ModelRequest>>>,
    count: Arc<watch::Sender<usize>>,
    /// Node of the last model call of each instance.
    nodes: Arc<Mutex<HashMap<String, usize>>>,
}

impl ModelRequestLog {
    /// Records a request, and the node that runs the turn of its conversation.
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
    /// Creates the models of a test case: scripted replies, or the real models for live runs.
    pub(super) fn for_case(case: &ConformanceCase, live: Option<&LiveCase>) -> Self {
        let own_models = match live {
            Some(live) => OwnProviders::Live(LiveModels::new(&live.scripts)),
            None if case.models.is_empty() => OwnProviders::Offline(ModelProviders::new()),
            None => OwnProviders::Nothing,
        };
        CaseModels {
            replies: ScriptedFactory::new(case.models.clone()),
            own: own_models,
            log: ModelRequestLog::default(),
        }
    }

    /// Returns all requests so far, including failed and interrupted ones.
    pub(super) fn requests(&self) -> Vec<ModelRequest> {
        self.log
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the node of an instance's last model call.
    pub(super) fn node_of(&self, instance: &str) -> Option<usize> {
        self.log
            .nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(instance)
            .copied()
    }

    /// Waits until there are `count` requests.
    pub(super) async fn wait_for_requests(&self, count: usize) {
        // The sender exists as long as `self`.
        let _ = self
            .log
            .count
            .subscribe()
            .wait_for(|asked| *asked >= count)
            .await;
    }
}

/// Models of a test case, as one of its nodes calls them.
pub(super) struct NodeModels {
    node: usize,
    models: Arc<CaseModels>,
}

impl NodeModels {
    /// Creates the models of a node; requests are recorded with its number.
    pub(super) fn new(node: usize, models: Arc<CaseModels>) -> Self {
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
            .recording_client(self.node, model, bundle_root, environment)
    }
}

impl ModelFactory for CaseModels {
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        self.recording_client(1, model, bundle_root, environment)
    }
}

impl CaseModels {
    /// Creates a client that records its requests with the number of the node.
    fn recording_client(
        &self,
        node: usize,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let provider = model.spec.provider.as_str();
        let factory: &dyn ModelFactory = match &self.own {
            OwnProviders::Live(models) => models,
            OwnProviders::Offline(own) if matches!(provider, "scripted" | "replay") => own,
            OwnProviders::Offline(_) | OwnProviders::Nothing => &self.replies,
        };
        let client = factory.client(model, bundle_root, environment)?;
        Ok(Arc::new(LoggedClient {
            client,
            node,
            log: self.log.clone(),
        }))
    }
}

/// A model client that logs its requests.
struct LoggedClient {
    client: Arc<dyn ModelClient>,
    node: usize,
    log: ModelRequestLog,
}

#[async_trait]
impl ModelClient for LoggedClient {
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
