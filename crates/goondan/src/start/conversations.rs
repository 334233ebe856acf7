//! Titles, export and deletion of conversations of a running swarm, and the prompts of its agents.

use std::collections::HashMap;
use std::sync::Arc;

use goondan_core::ids::InstanceId;
use goondan_core::ports::store::StoreError;
use goondan_engine::runtime::conversations::ConversationState;
use goondan_models::CassetteMask;
use goondan_spec::Resource;
use goondan_spec::kinds::Agent;

use crate::start::swarm::{SendError, Swarm};
use crate::workspace::import_export;

/// System prompt of an agent, as its resource states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedPrompt {
    /// Prompt with the instructions and the list of skills. Secrets are masked.
    pub text: String,
    /// File of the prompt, relative to the project: the file of the agent for an inline prompt.
    /// `None` if the text has only instructions and skills.
    pub file: Option<String>,
    /// Line of the agent in `file`, from 1. `None` for a prompt with its own file.
    pub line: Option<usize>,
    /// Files with instructions, relative to the working directory of the agent.
    pub instructions: Vec<String>,
}

impl Swarm {
    /// Sets the title of an existing conversation; `None` removes the title. It is durable when this
    /// function returns.
    pub async fn set_title(
        &self,
        instance: &InstanceId,
        title: Option<&str>,
    ) -> Result<(), StoreError> {
        self.inner().runtime.set_title(instance, title).await
    }

    /// Returns the titles of all conversations that have one.
    pub async fn titles(&self) -> Result<HashMap<InstanceId, String>, StoreError> {
        self.inner().runtime.titles().await
    }

    /// Returns the states that the agent's extensions and its tools have stored for a conversation.
    /// Secrets of the swarm are masked.
    pub async fn states(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<ConversationState>, StoreError> {
        let mut states = self.inner().runtime.states(instance).await?;
        for state in &mut states {
            self.inner().redactor.clean_value(&mut state.value);
        }
        Ok(states)
    }

    /// Deletes a conversation with all its data and its permanent approvals. Returns false if it
    /// does not exist.
    ///
    /// # Errors
    /// Fails with `AGENT_TURN_RUNNING` if a turn of the conversation runs or waits.
    pub async fn delete(&self, instance: &InstanceId) -> Result<bool, SendError> {
        Ok(self.inner().runtime.delete(instance).await?)
    }

    /// Returns a conversation in the format of
    /// [`Workspace::export`](crate::Workspace::export); `None` if it does not exist. Secrets of the
    /// swarm are masked.
    pub async fn export(&self, instance: &InstanceId) -> Result<Option<Vec<u8>>, StoreError> {
        let metas = self.instances().await;
        let Some(meta) = metas.into_iter().find(|meta| meta.id() == *instance) else {
            return Ok(None);
        };
        let messages = self.inner().runtime.conversation(instance).await?;
        let mask = CassetteMask::of_redactor(self.inner().redactor.clone());
        let mut text = Vec::new();
        let title = self.titles().await?.remove(instance);
        let written = import_export::write(&meta, title, &messages, &mask, &mut text);
        let damaged = |cause| StoreError::Damaged {
            what: format!("the conversation {instance}"),
            cause: Arc::new(cause),
        };
        written.map(|()| Some(text)).map_err(damaged)
    }

    /// Returns the system prompt of an agent as its resource states it, with its instructions and
    /// skills. Returns `None` for an unknown agent, and for an agent without a prompt.
    pub fn stated_prompt(&self, agent: &str) -> Option<StatedPrompt> {
        let bundle = self.bundle();
        let resource = bundle
            .agents()
            .values()
            .find(|resource| resource.id.name == agent)?;
        let mut text = resource.spec.system()?;
        self.inner().redactor.clean(&mut text);
        let instructions = resource.spec.instructions.iter();
        let instructions = instructions.flat_map(|found| &found.files);
        let (file, line) = prompt_source(resource);
        Some(StatedPrompt {
            text,
            file,
            line,
            instructions: instructions.map(|file| file.name.clone()).collect(),
        })
    }
}

/// Returns the file of the agent's own prompt, and the line of the agent for an inline prompt.
fn prompt_source(resource: &Resource<Agent>) -> (Option<String>, Option<usize>) {
    let Some(prompt) = &resource.spec.prompt else {
        return (None, None);
    };
    match (&prompt.file, &resource.origin) {
        (Some(file), _) => (Some(file.clone()), None),
        (None, Some((file, position))) => (Some(file.clone()), Some(position.line)),
        (None, None) => (None, None),
    }
}
