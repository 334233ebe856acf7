//! The powers of a tool call that are no talk with other agents ([`crate::ports::powers`]).

use std::sync::Arc;

use async_trait::async_trait;
use goondan_spec::Code;
use serde_json::Value;

use crate::agents::AgentCalls;
use crate::conversation::Conversation;
use crate::ids::InstanceId;
use crate::instance::blocking;
use crate::message::Message;
use crate::plan::ModelPlan;
use crate::ports::model::ModelError;
use crate::ports::powers::{Embeddings, Sessions, ToolState};
use crate::ports::store::{InstanceMeta, StoreError};
use crate::ports::tool::ToolError;
use crate::taint;

#[async_trait]
impl Sessions for AgentCalls {
    async fn sessions(&self) -> Result<Vec<InstanceMeta>, ToolError> {
        self.metas().await
    }

    async fn history(&self, id: &InstanceId) -> Result<Vec<Arc<Message>>, ToolError> {
        // What is read of a conversation with untrusted output is untrusted itself.
        taint::pass_on(&self.engine, id, &self.facts.instance).await.map_err(of_store)?;
        let (store, id) = (Arc::clone(&self.engine.store), id.clone());
        let messages =
            blocking(move || Ok(Conversation::restore(store.open(&id)?.load()?).0.messages().to_vec())).await;
        messages.map_err(of_store)
    }

    async fn currency(&self, id: &InstanceId) -> Option<String> {
        Some(self.engine.agent(&id.agent)?.pricing.as_ref()?.currency.clone())
    }
}

#[async_trait]
impl ToolState for AgentCalls {
    async fn load(&self, name: &str) -> Result<Option<Value>, ToolError> {
        let (store, id, name) = (Arc::clone(&self.engine.store), self.facts.instance.clone(), file(name));
        blocking(move || store.extension_state(&id, &name)).await.map_err(of_store)
    }

    async fn save(&self, name: &str, value: Value) -> Result<(), ToolError> {
        let (store, id, name) = (Arc::clone(&self.engine.store), self.facts.instance.clone(), file(name));
        let _one_at_a_time = self.engine.tool_states.lock().await;
        blocking(move || store.put_extension_state(&id, &name, &value)).await.map_err(of_store)
    }
}

#[async_trait]
impl Embeddings for AgentCalls {
    fn identity(&self, model: &str) -> Result<String, ToolError> {
        self.model(model).map(|model| model.identity)
    }

    async fn embed(&self, model: &str, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ToolError> {
        self.model(model)?.client.embed(texts).await.map_err(|error| of_model(&error))
    }
}

impl AgentCalls {
    fn model(&self, name: &str) -> Result<ModelPlan, ToolError> {
        let generation = self.engine.generation.load();
        let planned = generation.model(name).ok_or_else(|| {
            let known = generation.models().collect::<Vec<_>>().join(", ");
            let error = ToolError::new(format!("there is no Model resource `{name}`")).code(Code::MODEL_NOT_FOUND);
            error.suggest(format!("the models are: {known}"))
        })?;
        planned.clone().map_err(|error| of_model(&error))
    }
}

fn of_model(error: &ModelError) -> ToolError {
    ToolError { suggestion: error.suggestion.clone(), ..ToolError::new(&*error.message).code(Code::MODEL_FAILED) }
}

/// What tools keep lies beside what extensions keep. No extension has a dot in its name.
pub(crate) fn file(name: &str) -> String {
    format!("tool.{name}")
}

pub(crate) fn of_store(error: StoreError) -> ToolError {
    ToolError::new(error.message)
        .code(Code::STORE)
        .suggest("Make room on the disk or fix the permissions of the state folder.")
}
