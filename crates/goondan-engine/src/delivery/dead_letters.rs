//! Events whose turns failed and that nobody else answers for: they wait for somebody who has them tried again.
//!
//! A request is no dead letter: whoever asked was told.

use std::sync::{MutexGuard, PoisonError};

use chrono::{DateTime, Utc};

use crate::engine::Engine;
use goondan_core::event::{FinishReason, TurnResult};
use goondan_core::ids::InstanceId;
use goondan_core::inbound::AgentEvent;
use goondan_core::ports::store::{DeadLetter, Store, StoreError};

/// An instance keeps that many; the oldest go first.
const KEPT: usize = 100;

/// Puts `event` on the list where `result` says that its turn failed. A list that can't be written must not keep the turn from
/// being over. Waits for the disk.
pub(crate) fn bury(engine: &Engine, event: &AgentEvent, result: &TurnResult, now: DateTime<Utc>) {
    if let Err(error) = put(engine, event, result, now) {
        tracing::warn!(%error, "a failed event was not put on the list of dead letters");
    }
}

/// A turn that is cut off and fails again is on the list once.
fn put(engine: &Engine, event: &AgentEvent, result: &TurnResult, now: DateTime<Utc>) -> Result<(), StoreError> {
    let Some(error) = result.error.as_ref().filter(|_| result.finish_reason == FinishReason::Error) else {
        return Ok(());
    };
    if event.reply_to.is_some() {
        return Ok(());
    }
    let _alone = alone(engine);
    let store = &engine.store;
    let mut letters = store.dead_letters(&event.target)?;
    letters.retain(|letter| letter.event.id != event.id);
    letters.push(DeadLetter { event: event.clone(), error: error.clone(), failed_at: now });
    let excess = letters.len().saturating_sub(KEPT);
    letters.drain(..excess);
    store.put_dead_letters(&event.target, &letters)
}

/// The event of that id on the list of `instance`.
pub(crate) fn find(store: &dyn Store, instance: &InstanceId, event_id: &str) -> Result<Option<AgentEvent>, StoreError> {
    let letters = store.dead_letters(instance)?;
    Ok(letters.into_iter().map(|letter| letter.event).find(|event| event.id == event_id))
}

/// Takes an event off the list.
pub(crate) fn remove(engine: &Engine, instance: &InstanceId, event_id: &str) -> Result<(), StoreError> {
    let _alone = alone(engine);
    let store = &engine.store;
    let mut letters = store.dead_letters(instance)?;
    letters.retain(|letter| letter.event.id != event_id);
    store.put_dead_letters(instance, &letters)
}

/// Lists are read, changed and written: two that do so at the same time would lose a change. A retried event may fail again
/// before it is off the list.
fn alone(engine: &Engine) -> MutexGuard<'_, ()> {
    engine.dead_letters.lock().unwrap_or_else(PoisonError::into_inner)
}
