//! What stands in for the models of a case, and a record of what they were asked.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goondan::models::Providers;
use goondan::models::scripted::ScriptedFactory;
use goondan::runtime::ports::model::{ModelClient, ModelError, ModelFactory, ModelRequest, ModelStream};
use goondan::spec::kinds::Model;
use goondan::spec::{Environment, Resource};

use crate::case::Case;

/// The models of a case, over all its lives: how far each script is belongs to the case.
pub(super) struct CaseModels {
    replies: ScriptedFactory,
    /// Without replies in the case, models that need no network play their own.
    own: Option<Providers>,
    log: Log,
}

type Log = Arc<Mutex<Vec<ModelRequest>>>;

impl CaseModels {
    pub(super) fn of(case: &Case) -> Self {
        let own = case.models.is_empty().then(Providers::new);
        CaseModels { replies: ScriptedFactory::new(case.models.clone()), own, log: Log::default() }
    }

    /// Every request so far, also those that failed or were cut off.
    pub(super) fn requests(&self) -> Vec<ModelRequest> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ModelFactory for CaseModels {
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let offline = matches!(model.spec.provider.as_str(), "scripted" | "replay");
        let client = match &self.own {
            Some(own) if offline => own.client(model, bundle_root, environment)?,
            _ => self.replies.client(model, bundle_root, environment)?,
        };
        Ok(Arc::new(Recorded { client, log: Arc::clone(&self.log) }))
    }
}

/// A client with a record.
struct Recorded {
    client: Arc<dyn ModelClient>,
    log: Log,
}

#[async_trait]
impl ModelClient for Recorded {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        self.client.stream(request).await
    }
}
