//! Changes made by reloads since the process began. Reload events are not stored in any
//! conversation.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{SecondsFormat, Utc};
use goondan::spec::Diagnostic;
use goondan::{ReloadNews, ReloadOutcome, Swarm};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::wire::ReloadRecord;

const MAX_RELOAD_RECORDS: usize = 200;

/// Maximum number of diagnostics in memory. The diagnostics of the last reload are always kept.
const MAX_DIAGNOSTICS: usize = 10_000;

#[derive(Default)]
pub(crate) struct ReloadLog(Mutex<VecDeque<LoggedReload>>);

/// A reload. Reloads with equal diagnostics share them.
struct LoggedReload {
    /// The record without its diagnostics.
    record: ReloadRecord,
    diagnostics: Arc<[Diagnostic]>,
}

impl ReloadLog {
    /// Returns the records, oldest first.
    pub(crate) fn records(&self) -> Vec<ReloadRecord> {
        let reloads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = |reload: &LoggedReload| ReloadRecord {
            diagnostics: reload.diagnostics.to_vec(),
            ..reload.record.clone()
        };
        reloads.iter().map(complete).collect()
    }

    /// Records reloads until the channel closes.
    pub(crate) async fn record_from(
        &self,
        swarm: &Swarm,
        news: &mut UnboundedReceiver<ReloadNews>,
    ) {
        while let Some(news) = news.recv().await {
            if let ReloadNews::Reloaded(outcome) = news {
                self.push(record(&outcome, swarm.generation()));
            }
        }
    }

    /// Adds a record; removes the oldest records if the log is full.
    fn push(&self, mut record: ReloadRecord) {
        let mut reloads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let diagnostics = std::mem::take(&mut record.diagnostics);
        let earlier_diagnostics = reloads.iter().rev().map(|reload| &reload.diagnostics);
        let equal = earlier_diagnostics
            .filter(|earlier| ***earlier == *diagnostics)
            .map(Arc::clone)
            .next();
        let diagnostics = equal.unwrap_or_else(|| diagnostics.into());
        reloads.push_back(LoggedReload {
            record,
            diagnostics,
        });
        while reloads.len() > MAX_RELOAD_RECORDS
            || (reloads.len() > 1 && diagnostics_in(&reloads) > MAX_DIAGNOSTICS)
        {
            reloads.pop_front();
        }
    }
}

/// Returns the number of diagnostics in memory. A list that several reloads share counts once.
fn diagnostics_in(reloads: &VecDeque<LoggedReload>) -> usize {
    let mut seen_diagnostics = HashSet::new();
    let lists = reloads.iter().map(|reload| &reload.diagnostics);
    let distinct =
        lists.filter(|list| seen_diagnostics.insert(Arc::as_ptr(list).cast::<Diagnostic>()));
    distinct.map(|list| list.len()).sum()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PlanBody;
    use goondan::spec::Code;

    fn reload(number: u64, warnings: impl IntoIterator<Item = String>) -> ReloadRecord {
        let warnings = warnings.into_iter();
        ReloadRecord {
            at: number.to_string(),
            ok: true,
            generation: number,
            plan: PlanBody::default(),
            diagnostics: warnings
                .map(|text| Diagnostic::new(Code::UNUSED, text))
                .collect(),
            duration_ms: 1,
        }
    }

    #[test]
    fn equal_reload_warnings_are_stored_once() {
        let log = ReloadLog::default();
        let warnings = || (0..800).map(|number| format!("Tool {number} is unused."));
        for number in 0..600 {
            log.push(reload(number, warnings()));
        }
        let records = log.records();
        assert_eq!((records.len(), records[0].generation), (200, 400));
        assert!(records.iter().all(|record| record.diagnostics.len() == 800));
        let reloads = log.0.lock().unwrap();
        assert_eq!(diagnostics_in(&reloads), 800);
    }

    #[test]
    fn the_number_of_stored_reload_warnings_is_limited() {
        let log = ReloadLog::default();
        for number in 0..100 {
            let warnings = (0..800).map(|tool| format!("Tool {tool} is unused in {number}."));
            log.push(reload(number, warnings));
        }
        let records = log.records();
        assert_eq!((records.len(), records[0].generation), (12, 88));
    }
}
