//! What hosted extensions keep, noted with each tool call: a resumed turn does not run the call again, nor its layers.

use std::collections::BTreeMap;
use std::sync::Arc;

use goondan_core::ports::extension::Seat;
use goondan_core::ports::journal::{Effect, EffectKind, Outcome, TurnJournal, WhenInterrupted};
use goondan_core::ports::store::StoreError;
use serde_json::Value;

/// Notes what the extensions of a turn keep.
pub(crate) struct Journalist<'a>(pub(crate) &'a [(String, Arc<Seat>)]);

/// What each keeps, and how often it has set it.
type Noted = BTreeMap<String, (Value, u64)>;

impl Journalist<'_> {
    /// How often each has set what it keeps, to tell later what a call has changed.
    pub(crate) fn versions(&self) -> Vec<u64> {
        self.0.iter().map(|(_, seat)| seat.state.get().1).collect()
    }

    /// Notes what has changed since `before` under the call's effect.
    pub(crate) async fn note(
        &self,
        journal: &Arc<dyn TurnJournal>,
        call: &str,
        before: &[u64],
    ) -> Result<(), StoreError> {
        let mut noted = Noted::new();
        for ((name, seat), before) in self.0.iter().zip(before) {
            if let (Some(value), version) = seat.state.get()
                && version != *before
            {
                noted.insert(name.clone(), (value, version));
            }
        }
        if noted.is_empty() {
            return Ok(());
        }
        journal
            .run(effect(call), Box::pin(async { noted }))
            .await
            .map(drop)
    }

    /// Puts back what was noted under a call that is not run again.
    pub(crate) async fn put_back(
        &self,
        journal: &Arc<dyn TurnJournal>,
        call: &str,
    ) -> Result<(), StoreError> {
        if !journal.has_outcome(&effect(call).id) {
            return Ok(());
        }
        let outcome = journal
            .run(effect(call), Box::pin(async { Noted::new() }))
            .await?;
        let Outcome::Done { value: noted, .. } = outcome else {
            unreachable!("noting is run again")
        };
        for (name, (value, version)) in noted {
            if let Some((_, seat)) = self.0.iter().find(|(known, _)| *known == name) {
                seat.state.put_back(value, version);
            }
        }
        Ok(())
    }
}

fn effect(call: &str) -> Effect {
    Effect {
        id: format!("{call}/kept"),
        kind: EffectKind::ExtensionState,
        intent: Value::Null,
        when_interrupted: WhenInterrupted::RunAgain,
    }
}
