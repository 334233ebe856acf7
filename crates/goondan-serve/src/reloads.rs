//! Changes made by reloads since the process began. Reload events are not stored in any
//! conversation.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use chrono::{SecondsFormat, Utc};
use goondan::{ReloadNews, ReloadOutcome, Swarm};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::wire::ReloadRecord;

const MAX_RELOAD_RECORDS: usize = 200;

#[derive(Default)]
pub(crate) struct ReloadLog(Mutex<VecDeque<ReloadRecord>>);

impl ReloadLog {
    /// Returns the records, oldest first.
    pub(crate) fn all(&self) -> Vec<ReloadRecord> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    /// Records reloads until the channel closes.
    pub(crate) async fn follow(&self, swarm: &Swarm, news: &mut UnboundedReceiver<ReloadNews>) {
        while let Some(news) = news.recv().await {
            if let ReloadNews::Reloaded(outcome) = news {
                self.push(record(&outcome, swarm.generation()));
            }
        }
    }

    /// Adds a record; removes the oldest record if the log is full.
    fn push(&self, record: ReloadRecord) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() == MAX_RELOAD_RECORDS {
            records.pop_front();
        }
        records.push_back(record);
    }
}

/// Describes a reload.
fn record(outcome: &ReloadOutcome, serving: u64) -> ReloadRecord {
    let diagnostics = outcome.result.as_ref().err().unwrap_or(&outcome.warnings);
    ReloadRecord {
        at: Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true),
        ok: outcome.result.is_ok(),
        generation: *outcome.result.as_ref().unwrap_or(&serving),
        plan: (&outcome.plan).into(),
        diagnostics: diagnostics.clone(),
        duration_ms: outcome.timing.total_ms(),
    }
}
