//! The models of a live run.

use std::path::Path;
use std::sync::Arc;

use goondan::models::Providers;
use goondan::ports::model::{ModelClient, ModelError, ModelFactory};
use goondan::spec::kinds::Model;
use goondan::spec::{Environment, Resource};

/// Makes the clients of one swarm. Scripts go on from run to run; everything else begins anew with each swarm: recordings, and
/// connections, which live in the runtime of the swarm that has opened them.
pub(crate) struct LiveModels {
    scripts: Arc<Providers>,
    own: Providers,
}

impl LiveModels {
    /// With scripts that others go on with.
    pub(crate) fn new(scripts: &Arc<Providers>) -> Self {
        LiveModels {
            scripts: Arc::clone(scripts),
            own: Providers::new(),
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
