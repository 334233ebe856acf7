//! Failed events (dead letters), kept until a user retries or removes them.
//!
//! A failed request is not a dead letter: its caller receives the error. Neither is a failed operation
//! on a conversation.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::engine::Engine;
use goondan_core::agent_event::AgentEvent;
use goondan_core::event::{FinishReason, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{DEAD_LETTERS_RECORD, DeadLetter, StoreError, update};

/// Limit per instance; the oldest dead letters are dropped first.
const MAX_DEAD_LETTERS: usize = 100;

/// Adds `event` to the dead letters if its turn failed. A failed write is only logged, so that it
/// cannot keep the turn from ending.
pub(crate) async fn add_if_failed(
    engine: &Engine,
    event: &AgentEvent,
    result: &TurnResult,
    now: DateTime<Utc>,
) {
    let Some(error) = result
        .error
        .as_ref()
        .filter(|_| result.finish_reason == FinishReason::Error)
    else {
        return;
    };
    if event.reply_to.is_some() || event.operation().is_some() {
        return;
    }
    let letter = DeadLetter {
        event: event.clone(),
        error: error.clone(),
        failed_at: now,
    };
    let put = update_dead_letters(engine, &event.target, |letters| {
        // A turn that is interrupted and fails again is listed once.
        letters.retain(|letter| letter.event.id != event.id);
        letters.push(letter.clone());
        let excess = letters.len().saturating_sub(MAX_DEAD_LETTERS);
        letters.drain(..excess);
    });
    if let Err(error) = put.await {
        tracing::warn!(%error, "failed to save a failed event; it cannot be retried");
    }
}

/// Returns the failed events of all instances, oldest failure first.
pub(crate) async fn load_all(engine: &Engine) -> Result<Vec<DeadLetter>, StoreError> {
    let lists = engine.store.all_records(DEAD_LETTERS_RECORD).await?;
    let mut letters: Vec<DeadLetter> = lists
        .into_iter()
        .flat_map(|(_, record)| decode_failed_events(Some(record.value)))
        .collect();
    letters.sort_by_key(|letter| letter.failed_at);
    Ok(letters)
}

/// Returns a failed event of an instance; `None` if it is not on the list.
pub(crate) async fn find(
    engine: &Engine,
    instance: &InstanceId,
    event_id: &str,
) -> Result<Option<AgentEvent>, StoreError> {
    let letters = decode_failed_events(
        engine
            .store
            .get(instance, DEAD_LETTERS_RECORD)
            .await?
            .map(|record| record.value),
    );
    Ok(letters
        .into_iter()
        .map(|letter| letter.event)
        .find(|event| event.id == event_id))
}

/// Removes a failed event from the list of an instance.
pub(crate) async fn remove(
    engine: &Engine,
    instance: &InstanceId,
    event_id: &str,
) -> Result<(), StoreError> {
    update_dead_letters(engine, instance, |letters| {
        letters.retain(|letter| letter.event.id != event_id)
    })
    .await
}

/// Updates the dead letters of an instance. The update is atomic, because a retried event may fail
/// again before its first failure is removed.
async fn update_dead_letters(
    engine: &Engine,
    instance: &InstanceId,
    mut edit: impl FnMut(&mut Vec<DeadLetter>) + Send,
) -> Result<(), StoreError> {
    let edit_record = |record| {
        let mut letters = decode_failed_events(record);
        edit(&mut letters);
        Some(json!(letters))
    };
    update(&*engine.store, instance, DEAD_LETTERS_RECORD, edit_record).await
}

/// Decodes the list of failed events; empty for a missing record or a record of another shape.
fn decode_failed_events(record: Option<Value>) -> Vec<DeadLetter> {
    record
        .and_then(|letters| serde_json::from_value(letters).ok())
        .unwrap_or_default()
}
