//! Conversations that have read untrusted output (`policy.untrusted`).
//!
//! The mark is put on disk with the conversation before the output gets into it, and never goes away by itself. What a
//! marked agent tells others marks their conversations, too.

use serde_json::{Value, json};

use crate::engine::Engine;
use crate::tooling::registry::RegisteredTool;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{StoreError, update};
use goondan_core::reserved::UNTRUSTED_STATE as STATE;

/// Whether what `tool` returns is untrusted.
pub(crate) fn is_untrusted(engine: &Engine, tool: &RegisteredTool) -> bool {
    let generation = engine.generation.load();
    generation
        .policy
        .untrusted
        .iter()
        .any(|permission| tool.spec.permissions.contains(permission))
}

/// The tool whose untrusted output `instance` has read first; `None` where it has read none, or nobody cares. A mark that
/// can't be read counts as one.
pub(crate) async fn of(engine: &Engine, instance: &InstanceId) -> Option<String> {
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
            tracing::warn!(%instance, %error, "it can't be read whether the conversation holds untrusted output");
            Some("a tool".to_owned())
        }
    }
}

/// Marks `instance`.
pub(crate) async fn mark(
    engine: &Engine,
    instance: &InstanceId,
    origin: &str,
) -> Result<(), StoreError> {
    let mark = |found: Option<Value>| found.is_none().then(|| json!({ "origin": origin }));
    update(&*engine.store, instance, STATE, mark).await
}

/// The conversation of `to` begins with what that of `from` holds: a mark goes along, whatever the policy says today.
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

/// What `from` says gets into the conversation of `to`: a mark goes along.
pub(crate) async fn pass_on(
    engine: &Engine,
    from: &InstanceId,
    to: &InstanceId,
) -> Result<(), StoreError> {
    match of(engine, from)
        .await
        .filter(|_| engine.agent(&to.agent).is_some())
    {
        Some(origin) => mark(engine, to, &origin).await,
        None => Ok(()),
    }
}
