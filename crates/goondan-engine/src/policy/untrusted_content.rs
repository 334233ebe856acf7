//! Tainted conversations, which contain untrusted tool output (`policy.untrusted`).
//!
//! The flag is stored before the output is added to the conversation, and is never removed
//! automatically. Messages of a tainted conversation taint the receiving conversations.

use serde_json::{Value, json};

use crate::engine::Engine;
use crate::tooling::registry::RegisteredTool;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{StoreError, update};
use goondan_core::reserved_names::UNTRUSTED_RECORD as STATE;

/// Returns true if the output of `tool` is untrusted.
pub(crate) fn is_untrusted(engine: &Engine, tool: &RegisteredTool) -> bool {
    let generation = engine.generation.load();
    generation
        .policy
        .untrusted
        .iter()
        .any(|permission| tool.spec.permissions.contains(permission))
}

/// Returns the tool whose untrusted output `instance` read first; `None` if the conversation
/// contains no untrusted output or the policy is off. An unreadable flag counts as set.
pub(crate) async fn find_origin(engine: &Engine, instance: &InstanceId) -> Option<String> {
    if engine.generation.load().policy.untrusted.is_empty() {
        return None;
    }
    match engine.store.get(instance, STATE).await {
        Ok(record) => record.map(|record| {
            record
                .value
                .get("origin")
                .and_then(Value::as_str)
                .unwrap_or("a tool")
                .to_owned()
        }),
        Err(error) => {
            tracing::warn!(%instance, %error, "could not read whether the conversation \
                contains untrusted content; assuming that it does");
            Some("a tool".to_owned())
        }
    }
}

/// Stores the flag for `instance`, unless it is already set.
pub(crate) async fn mark(
    engine: &Engine,
    instance: &InstanceId,
    origin: &str,
) -> Result<(), StoreError> {
    let mark = |current: Option<Value>| current.is_none().then(|| json!({ "origin": origin }));
    update(&*engine.store, instance, STATE, mark).await
}

/// Copies the flag to a conversation that starts with a copy of `from`, regardless of the current
/// policy.
pub(crate) async fn copy(
    engine: &Engine,
    from: &InstanceId,
    to: &InstanceId,
) -> Result<(), StoreError> {
    match engine.store.get(from, STATE).await? {
        Some(record) => update(&*engine.store, to, STATE, |_| Some(record.value.clone())).await,
        None => Ok(()),
    }
}

/// Taints the conversation of `to`, which receives a message, if the conversation of `from` is
/// tainted.
pub(crate) async fn taint_receiver(
    engine: &Engine,
    from: &InstanceId,
    to: &InstanceId,
) -> Result<(), StoreError> {
    match find_origin(engine, from)
        .await
        .filter(|_| engine.agent(&to.agent).is_some())
    {
        Some(origin) => mark(engine, to, &origin).await,
        None => Ok(()),
    }
}
