//! Conversations that have read untrusted output (`policy.untrusted`).
//!
//! The mark is put on disk with the conversation before the output gets into it, and never goes away by itself. What a
//! marked agent tells others marks their conversations, too.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::Engine;
use crate::tooling::registry::RegisteredTool;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::StoreError;
use goondan_core::ports::store::blocking;

/// The mark is kept under this name, which no extension can have.
const STATE: &str = "gdn.untrusted";

/// Whether what `tool` returns is untrusted.
pub(crate) fn is_untrusted(engine: &Engine, tool: &RegisteredTool) -> bool {
    let generation = engine.generation.load();
    generation.policy.untrusted.iter().any(|permission| tool.spec.permissions.contains(permission))
}

/// The tool whose untrusted output `instance` has read first; `None` where it has read none, or nobody cares. A mark that
/// can't be read counts as one.
pub(crate) async fn of(engine: &Engine, instance: &InstanceId) -> Option<String> {
    if engine.generation.load().policy.untrusted.is_empty() {
        return None;
    }
    let (store, of) = (Arc::clone(&engine.store), instance.clone());
    match blocking(move || store.extension_state(&of, STATE)).await {
        Ok(state) => state.map(|state| state.get("origin").and_then(Value::as_str).unwrap_or("a tool").to_owned()),
        Err(error) => {
            tracing::warn!(%instance, %error, "it can't be read whether the conversation holds untrusted output");
            Some("a tool".to_owned())
        }
    }
}

/// Marks `instance`.
pub(crate) async fn mark(engine: &Engine, instance: &InstanceId, origin: &str) -> Result<(), StoreError> {
    let (store, instance, origin) = (Arc::clone(&engine.store), instance.clone(), origin.to_owned());
    blocking(move || match store.extension_state(&instance, STATE)? {
        Some(_) => Ok(()),
        None => store.put_extension_state(&instance, STATE, &json!({ "origin": origin })),
    })
    .await
}

/// What `from` says gets into the conversation of `to`: a mark goes along.
pub(crate) async fn pass_on(engine: &Engine, from: &InstanceId, to: &InstanceId) -> Result<(), StoreError> {
    match of(engine, from).await.filter(|_| engine.agent(&to.agent).is_some()) {
        Some(origin) => mark(engine, to, &origin).await,
        None => Ok(()),
    }
}
