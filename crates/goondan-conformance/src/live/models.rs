//! Models that a live run calls in place of scripted models.

use std::path::Path;
use std::sync::Arc;

use goondan::models::ModelProviders;
use goondan::ports::model::{ModelClient, ModelError, ModelFactory};
use goondan::spec::kinds::Model;
use goondan::spec::{Environment, Resource};

/// Model clients of one swarm. Scripts continue across runs. Recordings and connections are new for
/// each swarm, because connections belong to the tokio runtime that opened them.
pub(crate) struct LiveModels {
    scripts: Arc<ModelProviders>,
    own: ModelProviders,
}

impl LiveModels {
    /// Creates clients with shared scripts.
    pub(crate) fn new(scripts: &Arc<ModelProviders>) -> Self {
        LiveModels {
            scripts: Arc::clone(scripts),
            own: ModelProviders::new(),
        }
    }
}

impl ModelFactory for LiveModels {
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        match model.spec.provider.as_str() {
            "scripted" => self.scripts.client(model, bundle_root, environment),
            _ => self.own.client(model, bundle_root, environment),
        }
    }
}
