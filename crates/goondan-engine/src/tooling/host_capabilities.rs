//! Capabilities of a tool call other than calling agents ([`goondan_core::ports::capabilities`]).

use std::sync::Arc;

use async_trait::async_trait;
use goondan_spec::Code;
use serde_json::Value;

use super::state_records::record_name;
use crate::plan::ModelPlan;
use crate::policy::untrusted_content;
use crate::tooling::agents::AgentCalls;
use goondan_core::conversation::Conversation;
use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::capabilities::{ConversationAccess, EmbeddingModels, ToolStateStore};
use goondan_core::ports::model::ModelError;
use goondan_core::ports::store::{InstanceMeta, StoreError, update};
use goondan_core::ports::tool::HandlerError;

#[async_trait]
impl ConversationAccess for AgentCalls {
    async fn sessions(&self) -> Result<Vec<InstanceMeta>, HandlerError> {
        self.instance_metas().await
    }

    async fn history(&self, id: &InstanceId) -> Result<Vec<Arc<Message>>, HandlerError> {
        // Content read from a tainted conversation is untrusted as well.
        untrusted_content::taint_receiver(&self.engine, id, &self.facts.instance)
            .await
            .map_err(store_tool_error)?;
        let stored = self.engine.store.read(id).await.map_err(store_tool_error)?;
        Ok(Conversation::restore(stored).0.messages().to_vec())
    }

    async fn currency(&self, id: &InstanceId) -> Option<String> {
        self.engine.agent(&id.agent)?.currency().map(str::to_owned)
    }
}

#[async_trait]
impl ToolStateStore for AgentCalls {
    async fn load(&self, name: &str) -> Result<Option<Value>, HandlerError> {
        let record = self
            .engine
            .store
            .get(&self.facts.instance, &record_name(name))
            .await
            .map_err(store_tool_error)?;
        Ok(record.map(|record| record.value))
    }

    async fn save(&self, name: &str, value: Value) -> Result<(), HandlerError> {
        let name = record_name(name);
        update(&*self.engine.store, &self.facts.instance, &name, |_| {
            Some(value.clone())
        })
        .await
        .map_err(store_tool_error)
    }

    async fn all_values(&self, name: &str) -> Result<Vec<(InstanceId, Value)>, HandlerError> {
        let records = self
            .engine
            .store
            .all_records(&record_name(name))
            .await
            .map_err(store_tool_error)?;
        Ok(records
            .into_iter()
            .map(|(id, record)| (id, record.value))
            .collect())
    }
}

#[async_trait]
impl EmbeddingModels for AgentCalls {
    fn model_identity(&self, model: &str) -> Result<String, HandlerError> {
        self.model(model).map(|model| model.identity)
    }

    async fn embed(&self, model: &str, texts: Vec<String>) -> Result<Vec<Vec<f32>>, HandlerError> {
        self.model(model)?
            .client
            .embed(texts)
            .await
            .map_err(|error| model_tool_error(&error))
    }
}

impl AgentCalls {
    /// Returns the planned Model resource `name`, or an error with the names of all models.
    fn model(&self, name: &str) -> Result<ModelPlan, HandlerError> {
        let generation = self.engine.generation.load();
        let planned = generation.model(name).ok_or_else(|| {
            let names = generation.models().collect::<Vec<_>>().join(", ");
            let error = HandlerError::new(format!("there is no Model resource `{name}`"))
                .code(Code::MODEL_NOT_FOUND);
            error.suggest(format!("the models are: {names}"))
        })?;
        planned.clone().map_err(|error| model_tool_error(&error))
    }
}

/// Converts the error of a model for a tool.
fn model_tool_error(error: &ModelError) -> HandlerError {
    HandlerError {
        suggestion: error.suggestion.clone(),
        ..HandlerError::new(&*error.message).code(Code::MODEL_FAILED)
    }
}

/// Converts the error of the store for a tool.
pub(crate) fn store_tool_error(error: StoreError) -> HandlerError {
    HandlerError::new(error.to_string())
        .code(Code::STORE)
        .suggest("Free disk space or fix the permissions of the state directory.")
}
