//! From a Model resource to a client, by its `provider`.

use std::path::Path;
use std::sync::Arc;

use goondan_core::ports::model::{ModelClient, ModelError, ModelFactory};
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource};

use crate::error::configuration;
use crate::live::{self, Http};
use crate::replay::Cassettes;
use crate::scripted::Scripts;
use crate::table::{self, Backend};

/// Makes clients for every provider of [`PROVIDERS`](crate::PROVIDERS). Making one is cheap: nothing is connected, and TLS is set up
/// with the first call. Keep one for the life of the program: its clients share connections, and scripts and
/// cassettes go on where they were after a reload.
#[derive(Default)]
pub struct Providers {
    http: Http,
    scripts: Scripts,
    cassettes: Cassettes,
}

impl Providers {
    /// Ready to make clients.
    pub fn new() -> Self {
        Providers::default()
    }
}

impl ModelFactory for Providers {
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let provider = table::provider(&model.spec.provider).ok_or_else(|| unknown(model))?;
        match provider.backend {
            Backend::Scripted => self.scripts.client(model, bundle_root),
            Backend::Replay => self.cassettes.client(model, bundle_root, environment),
            Backend::Live { adapter, address } => {
                live::client(&self.http, model, provider, (adapter, address), environment)
            }
        }
    }
}

/// What is wrong with a Model whatever machine it runs on: no such provider, a script or a cassette that can't be used, no address where one
/// is needed. Nothing is connected.
pub fn model_problem(model: &Resource<Model>, bundle_root: &Path) -> Option<ModelError> {
    let Some(provider) = table::provider(&model.spec.provider) else {
        return Some(unknown(model));
    };
    match provider.backend {
        Backend::Scripted => Scripts::default().client(model, bundle_root).err(),
        Backend::Replay => Cassettes::default()
            .client(model, bundle_root, &Environment::default())
            .err(),
        Backend::Live { adapter, address } => live::address_problem(model, adapter, address),
    }
}

/// That a Model's key is not set here.
pub fn missing_key(model: &Resource<Model>, environment: &Environment) -> Option<ModelError> {
    let provider = table::provider(&model.spec.provider).filter(|provider| provider.is_live())?;
    live::missing_key(model, provider, environment)
}

fn unknown(model: &Resource<Model>) -> ModelError {
    let name = &model.spec.provider;
    let message = format!(
        "{} names the provider `{name}`, which is not known",
        model.id
    );
    let similar = table::similar_providers(name);
    let all: Vec<_> = table::PROVIDERS
        .iter()
        .map(|provider| provider.name)
        .collect();
    let others = format!(
        "known are: {}; any other service that speaks OpenAI's format: `provider: openai-compatible` with its `endpoint`",
        all.join(", ")
    );
    match similar.as_slice() {
        [] => configuration(message, others),
        names => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            configuration(
                message,
                format!("did you mean {}? {others}", names.join(" or ")),
            )
        }
    }
}
