//! State of hosted extensions, journaled with each tool call: a resumed turn runs neither the call
//! nor its layers again.

use std::collections::BTreeMap;
use std::sync::Arc;

use goondan_core::ports::extension::ExtensionContext;
use goondan_core::ports::journal::{
    EffectKind, EffectOutcome, InterruptionPolicy, TurnEffect, TurnJournal,
};
use goondan_core::ports::store::StoreError;
use serde_json::Value;

/// Journal of the extension states of a turn.
pub(crate) struct StateJournal<'a>(pub(crate) &'a [(String, Arc<ExtensionContext>)]);

/// Saved state per extension, with a write counter.
type JournaledStates = BTreeMap<String, (Value, u64)>;

impl StateJournal<'_> {
    /// Returns the write counters, for a later comparison.
    pub(crate) fn write_counters(&self) -> Vec<u64> {
        self.0
            .iter()
            .map(|(_, context)| context.state.get().1)
            .collect()
    }

    /// Journals the states that have changed since `before`, under the call's effect.
    pub(crate) async fn journal_changes(
        &self,
        journal: &Arc<dyn TurnJournal>,
        call: &str,
        before: &[u64],
    ) -> Result<(), StoreError> {
        let mut changed = JournaledStates::new();
        for ((name, context), before) in self.0.iter().zip(before) {
            if let (Some(value), version) = context.state.get()
                && version != *before
            {
                changed.insert(name.clone(), (value, version));
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        journal
            .run(state_effect(call), Box::pin(async { changed }))
            .await
            .map(drop)
    }

    /// Restores the journaled states of a call that is not run again.
    pub(crate) async fn restore_states(
        &self,
        journal: &Arc<dyn TurnJournal>,
        call: &str,
    ) -> Result<(), StoreError> {
        if !journal.has_outcome(&state_effect(call).id) {
            return Ok(());
        }
        let outcome = journal
            .run(
                state_effect(call),
                Box::pin(async { JournaledStates::new() }),
            )
            .await?;
        let EffectOutcome::Done { value: states, .. } = outcome else {
            unreachable!("an interrupted effect runs again")
        };
        for (name, (value, version)) in states {
            if let Some((_, context)) = self.0.iter().find(|(extension, _)| *extension == name) {
                context.state.restore(value, version);
            }
        }
        Ok(())
    }
}

/// Returns the journal effect that records the extension states of a call.
fn state_effect(call: &str) -> TurnEffect {
    TurnEffect {
        id: format!("{call}/kept"),
        kind: EffectKind::ExtensionState,
        intent: Value::Null,
        when_interrupted: InterruptionPolicy::RunAgain,
    }
}
