//! Events whose turns failed and that nobody else answers for: they wait for somebody who has them tried again.
//!
//! A request is no dead letter: whoever asked was told.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::engine::Engine;
use goondan_core::event::{FinishReason, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::ports::store::{DEAD_LETTERS, DeadLetter, StoreError, update};

/// An instance keeps that many; the oldest go first.
const KEPT: usize = 100;

/// Puts `event` on the list where `result` says that its turn failed. A list that can't be written must not keep the turn from
/// being over.
pub(crate) async fn bury(
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
    if event.reply_to.is_some() {
        return;
    }
    let letter = DeadLetter {
        event: event.clone(),
        error: error.clone(),
        failed_at: now,
    };
    let put = change(engine, &event.target, |letters| {
        // A turn that is cut off and fails again is on the list once.
        letters.retain(|letter| letter.event.id != event.id);
        letters.push(letter.clone());
        let excess = letters.len().saturating_sub(KEPT);
        letters.drain(..excess);
    });
    if let Err(error) = put.await {
        tracing::warn!(%error, "a failed event was not put on the list of dead letters");
    }
}

/// The lists of all instances, in the order of the failures.
pub(crate) async fn all(engine: &Engine) -> Result<Vec<DeadLetter>, StoreError> {
    let lists = engine.store.all(DEAD_LETTERS).await?;
    let mut letters: Vec<DeadLetter> = lists
        .into_iter()
        .flat_map(|(_, record)| of_record(Some(record.value)))
        .collect();
    letters.sort_by_key(|letter| letter.failed_at);
    Ok(letters)
}

/// The event of that id on the list of `instance`.
pub(crate) async fn find(
    engine: &Engine,
    instance: &InstanceId,
    event_id: &str,
) -> Result<Option<AgentEvent>, StoreError> {
    let letters = of_record(
        engine
            .store
            .get(instance, DEAD_LETTERS)
            .await?
            .map(|record| record.value),
    );
    Ok(letters
        .into_iter()
        .map(|letter| letter.event)
        .find(|event| event.id == event_id))
}

/// Takes an event off the list.
pub(crate) async fn remove(
    engine: &Engine,
    instance: &InstanceId,
    event_id: &str,
) -> Result<(), StoreError> {
    change(engine, instance, |letters| {
        letters.retain(|letter| letter.event.id != event_id)
    })
    .await
}

/// Changes a list, whatever others do to it meanwhile: a retried event may fail again before it is off the list.
async fn change(
    engine: &Engine,
    instance: &InstanceId,
    mut change: impl FnMut(&mut Vec<DeadLetter>) + Send,
) -> Result<(), StoreError> {
    let changed = |found| {
        let mut letters = of_record(found);
        change(&mut letters);
        Some(json!(letters))
    };
    update(&*engine.store, instance, DEAD_LETTERS, changed).await
}

/// What has another shape is no list.
fn of_record(found: Option<Value>) -> Vec<DeadLetter> {
    found
        .and_then(|letters| serde_json::from_value(letters).ok())
        .unwrap_or_default()
}
