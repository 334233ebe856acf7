//! What people do with conversations: make a new one of an old one, and look after events whose turns failed.

use std::sync::Arc;

use goondan_core::ids::InstanceId;
use goondan_core::message::Message;
use goondan_core::ports::store::{DeadLetter, Fold, StoreError};
use tokio::sync::oneshot;

use super::Runtime;
use crate::delivery::dead_letters;
use crate::delivery::orchestrator::{Command, Refusal, SpawnRequest};
use crate::policy::taint;

impl Runtime {
    /// Makes a new conversation of the same agent that begins with the messages of `source` up to `message_id`, or with all of
    /// them. It is durable when this is back; what narrows the tools of `source` narrows those of the new one, and where `source` has
    /// read untrusted output, so has it. `None` where `source` has no such message.
    pub async fn fork(
        &self,
        source: &InstanceId,
        message_id: Option<&str>,
    ) -> Result<Option<InstanceId>, Refusal> {
        let messages = self.conversation(source).await?;
        let Some(messages) = up_to(&messages, message_id) else {
            return Ok(None);
        };
        let known = self
            .instances()
            .await
            .into_iter()
            .find(|meta| meta.id() == *source);
        let (cwd, narrowing) = known.map_or((None, None), |meta| (meta.cwd, meta.narrowing));
        // Nobody knows the key yet, so nobody else opens the conversation meanwhile.
        let id = InstanceId::new(
            &*source.agent,
            format!("fork-{}", self.engine.clock.hex(16)),
        );
        let store = &self.engine.store;
        let lease = store.claim(&id).await?;
        store
            .open(lease)
            .await?
            .fold(Fold::Rewrite(messages))
            .await?;
        taint::copy(&self.engine, source, &id).await?;
        let (answer, spawned) = oneshot::channel();
        let request = SpawnRequest {
            id: id.clone(),
            owner: None,
            cwd,
            narrowing,
        };
        let sent = self
            .engine
            .commands
            .send(Command::Spawn { request, answer })
            .map_err(|_| Refusal::Ended);
        let spawned = match sent {
            Ok(()) => spawned.await.unwrap_or(Err(Refusal::Ended)),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = spawned {
            // What is refused leaves nothing behind.
            store.delete_instance(&id).await?;
            return Err(refusal);
        }
        Ok(Some(id))
    }

    /// `to` will begin with what was said in `source`: where that has read untrusted output, so has `to`.
    pub async fn inherit(&self, source: &InstanceId, to: &InstanceId) -> Result<(), StoreError> {
        taint::copy(&self.engine, source, to).await
    }

    /// The events whose turns failed, of all instances.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, StoreError> {
        dead_letters::all(&self.engine).await
    }

    /// Takes an event whose turn failed off the list: nobody wants it tried again.
    pub async fn discard(&self, instance: &InstanceId, event_id: &str) -> Result<(), Refusal> {
        let found = dead_letters::find(&self.engine, instance, event_id).await?;
        found.ok_or_else(|| Refusal::NoSuchEvent {
            instance: instance.clone(),
            event: event_id.to_owned(),
        })?;
        Ok(dead_letters::remove(&self.engine, instance, event_id).await?)
    }
}

/// The messages up to that one. The results of its tool calls go with it: providers refuse a call without one.
fn up_to<'m>(messages: &'m [Arc<Message>], message_id: Option<&str>) -> Option<&'m [Arc<Message>]> {
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
    let answers = |message: &Arc<Message>| {
        message
            .tool_results()
            .any(|result| calls.contains(&&*result.tool_call_id))
    };
    let results = messages[last + 1..]
        .iter()
        .take_while(|message| answers(message))
        .count();
    Some(&messages[..=last + results])
}
