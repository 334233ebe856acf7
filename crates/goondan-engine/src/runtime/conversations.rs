//! User operations on conversations: forking, and handling events whose turns failed.

use std::collections::HashMap;
use std::sync::Arc;

use goondan_core::JsonObject;
use goondan_core::agent_event::{AgentEvent, ConversationOperation, EventTrace, TurnTerms};
use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::store::{BaseChange, DeadLetter, StoreError};
use goondan_core::reserved_names::TOOL_STATES;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{AcceptedEvent, SwarmRuntime};
use crate::delivery::failed_events;
use crate::delivery::orchestrator::{InstanceSpawnRequest, OrchestratorCommand, SubmitError};
use crate::policy::untrusted_content;
use crate::tooling::state_records::record_name;

/// State of an extension or a tool that is stored with a conversation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConversationState {
    /// Kind of the component that stores the state.
    pub owner: StateOwner,
    /// Name of the extension, or name that the tool uses.
    pub name: String,
    /// Stored value; never null.
    pub value: Value,
}

/// Kind of a component with a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StateOwner {
    /// An extension of the agent.
    Extension,
    /// A built-in tool.
    Tool,
}

impl SwarmRuntime {
    /// Creates a conversation of the same agent from the messages of `source` up to `message_id`,
    /// or from all of them. The new conversation is durable on return and inherits tool
    /// restrictions and the taint of untrusted output. Returns `None` if `source` does not contain
    /// the message.
    pub async fn fork(
        &self,
        source: &InstanceId,
        message_id: Option<&str>,
    ) -> Result<Option<InstanceId>, SubmitError> {
        let messages = self.conversation(source).await?;
        let Some(messages) = messages_up_to(&messages, message_id) else {
            return Ok(None);
        };
        let source_meta = self
            .instances()
            .await
            .into_iter()
            .find(|meta| meta.id() == *source);
        let (cwd, narrowing) = source_meta.map_or((None, None), |meta| (meta.cwd, meta.narrowing));
        // The key is new and unpublished, so no other task can open the conversation.
        let id = InstanceId::new(
            &*source.agent,
            format!("fork-{}", self.engine.clock.random_hex(16)),
        );
        let store = &self.engine.store;
        let lease = store.claim(&id).await?;
        store
            .open(lease)
            .await?
            .checkpoint(BaseChange::Rewrite(messages))
            .await?;
        untrusted_content::copy(&self.engine, source, &id).await?;
        let (answer, spawned) = oneshot::channel();
        let request = InstanceSpawnRequest {
            id: id.clone(),
            owner: None,
            cwd,
            narrowing,
        };
        let sent = self
            .engine
            .commands
            .send(OrchestratorCommand::Spawn { request, answer })
            .map_err(|_| SubmitError::Ended);
        let spawned = match sent {
            Ok(()) => spawned.await.unwrap_or(Err(SubmitError::Ended)),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = spawned {
            // A refused spawn must not leave a stored conversation.
            store.delete_instance(&id).await?;
            return Err(refusal);
        }
        Ok(Some(id))
    }

    /// Deletes a conversation with all its data and its permanent approvals. Returns `false` if it
    /// does not exist.
    ///
    /// # Errors
    /// Fails with [`SubmitError::InUse`] if a turn of the conversation runs or waits.
    pub async fn delete(&self, instance: &InstanceId) -> Result<bool, SubmitError> {
        let (answer, deleted) = oneshot::channel();
        let command = OrchestratorCommand::Delete {
            instance: instance.clone(),
            answer,
        };
        let sent = self.engine.commands.send(command);
        sent.map_err(|_| SubmitError::Ended)?;
        deleted.await.unwrap_or(Err(SubmitError::Ended))
    }

    /// Sets the title of an existing conversation, or removes the title. It is durable on return.
    pub async fn set_title(
        &self,
        instance: &InstanceId,
        title: Option<&str>,
    ) -> Result<(), StoreError> {
        let store = &*self.engine.store;
        self.engine.titles.set(store, instance, title).await
    }

    /// Returns the titles of all conversations that have one.
    pub async fn titles(&self) -> Result<HashMap<InstanceId, String>, StoreError> {
        self.engine.titles.all(&*self.engine.store).await
    }

    /// Returns the states that extensions and tools have stored for a conversation. Hosted extensions
    /// that the agent no longer has are not included.
    pub async fn states(
        &self,
        instance: &InstanceId,
    ) -> Result<Vec<ConversationState>, StoreError> {
        let agent = self.engine.agent(&instance.agent);
        let extensions = agent
            .iter()
            .flat_map(|agent| agent.extensions.state_names());
        let extensions = extensions.map(|name| (StateOwner::Extension, name, name.to_owned()));
        let tools = TOOL_STATES.map(|name| (StateOwner::Tool, name, record_name(name)));
        let mut states = Vec::new();
        for (owner, name, record) in extensions.chain(tools) {
            let stored = self.engine.store.get(instance, &record).await?;
            let value = stored.map_or(Value::Null, |stored| stored.value);
            if !value.is_null() {
                let name = name.to_owned();
                states.push(ConversationState { owner, name, value });
            }
        }
        Ok(states)
    }

    /// Submits an operation on a conversation. Its result is the output of its turn.
    pub async fn operate(
        &self,
        instance: &InstanceId,
        operation: ConversationOperation,
    ) -> Result<AcceptedEvent, SubmitError> {
        let clock = &self.engine.clock;
        let event = AgentEvent {
            id: format!("evt-{}", clock.random_hex(16)),
            event_type: operation.event_type().to_owned(),
            created_at: clock.now(),
            target: instance.clone(),
            input: String::new(),
            files: Vec::new(),
            history: Vec::new(),
            metadata: JsonObject::new(),
            instructions: None,
            trace: EventTrace {
                trace_id: clock.random_hex(32),
                parent_span_id: None,
                caller: None,
            },
            callers: Vec::new(),
            reply_to: None,
            terms: TurnTerms::default(),
        };
        self.submit(event)?.accepted().await
    }

    /// Marks `to` as tainted if `source`, whose messages it starts with, is tainted.
    pub async fn inherit(&self, source: &InstanceId, to: &InstanceId) -> Result<(), StoreError> {
        untrusted_content::copy(&self.engine, source, to).await
    }

    /// Returns the failed events of all instances.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, StoreError> {
        failed_events::load_all(&self.engine).await
    }

    /// Removes a failed event from the dead letters without retrying it.
    pub async fn discard(&self, instance: &InstanceId, event_id: &str) -> Result<(), SubmitError> {
        let failed_event = failed_events::find(&self.engine, instance, event_id).await?;
        failed_event.ok_or_else(|| SubmitError::NoSuchEvent {
            instance: instance.clone(),
            event: event_id.to_owned(),
        })?;
        Ok(failed_events::remove(&self.engine, instance, event_id).await?)
    }
}

/// Returns the messages up to `message_id`, including the results of its tool calls: providers
/// refuse a call without a result.
fn messages_up_to<'m>(
    messages: &'m [Arc<Message>],
    message_id: Option<&str>,
) -> Option<&'m [Arc<Message>]> {
    let Some(message_id) = message_id else {
        return Some(messages);
    };
    let last = messages
        .iter()
        .position(|message| message.id == message_id)?;
    let calls: Vec<&str> = messages[last]
        .tool_calls()
        .map(|call| call.tool_call_id.as_str())
        .collect();
    let answers_call = |message: &Arc<Message>| {
        message
            .tool_results()
            .any(|result| calls.contains(&&*result.tool_call_id))
    };
    let results = messages[last + 1..]
        .iter()
        .take_while(|message| answers_call(message))
        .count();
    Some(&messages[..=last + results])
}
