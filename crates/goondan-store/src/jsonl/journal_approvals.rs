//! Removal of recorded approvals from the journals of a workspace that comes from a backup.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::{JournalRecord, layout, lines};
use crate::fs::{FileSystem as _, RealFs};
use goondan_core::ports::journal::EffectKind;
use goondan_core::private_files;

/// Removes the answers to approval requests from all journals. A resumed turn asks again before it
/// runs an approved call. No process may use the workspace.
///
/// # Errors
/// Fails if a journal cannot be read or written.
pub fn forget_recorded_approvals(workspace: &Path) -> io::Result<()> {
    for folder in RealFs.subdirectories(&workspace.join(layout::INSTANCES))? {
        let journal = folder.join(layout::JOURNAL);
        if journal.is_file() {
            forget_in(&journal)?;
        }
    }
    Ok(())
}

/// Removes the begin and the outcome of each answered request. Without its begin, a call that was
/// running counts as interrupted, not as waiting for an answer.
fn forget_in(journal: &Path) -> io::Result<()> {
    let read = lines::read::<JournalRecord>(&RealFs, journal)?;
    let sound_until = read.sound_until;
    let records = read.values.into_iter();
    let records: Vec<JournalRecord> = records
        .filter(|(_, range)| range.end <= sound_until)
        .map(|(record, _)| record)
        .collect();
    let answered = answered_requests(&records);
    if answered.is_empty() {
        return Ok(());
    }
    let id = |record: &JournalRecord| match record {
        JournalRecord::Intent {
            turn_id, effect, ..
        }
        | JournalRecord::Outcome {
            turn_id, effect, ..
        } => (turn_id.clone(), effect.clone()),
    };
    let mut kept = records;
    kept.retain(|record| !answered.contains(&id(record)));
    private_files::write(journal, &lines::encode_file(journal, &kept)?)
}

/// Returns the turns and effects of answered approval requests. A forged journal can lack the begin
/// of a request, so the name of an effect also counts.
fn answered_requests(records: &[JournalRecord]) -> BTreeSet<(String, String)> {
    let mut requests = BTreeSet::new();
    for record in records {
        if let JournalRecord::Intent {
            turn_id,
            effect,
            kind: EffectKind::Approval,
            ..
        } = record
        {
            requests.insert((turn_id.clone(), effect.clone()));
        }
    }
    let answered = records.iter().filter_map(|record| match record {
        JournalRecord::Outcome {
            turn_id, effect, ..
        } => Some((turn_id.clone(), effect.clone())),
        JournalRecord::Intent { .. } => None,
    });
    answered
        .filter(|id| requests.contains(id) || id.1.ends_with("/approval"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn intent(effect: &str, kind: EffectKind) -> JournalRecord {
        JournalRecord::Intent {
            turn_id: "t".to_owned(),
            effect: effect.to_owned(),
            kind,
            intent: json!({}),
            may_repeat: true,
        }
    }

    fn outcome(effect: &str) -> JournalRecord {
        JournalRecord::Outcome {
            turn_id: "t".to_owned(),
            effect: effect.to_owned(),
            value: json!({"answer": "allow"}),
        }
    }

    #[test]
    fn answers_to_approval_requests_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let journal = directory
            .path()
            .join("instances/a:main")
            .join(layout::JOURNAL);
        std::fs::create_dir_all(journal.parent().unwrap()).unwrap();
        let records = [
            intent("step-0/model", EffectKind::ModelCall),
            outcome("step-0/model"),
            intent("step-0/tool-0/approval", EffectKind::Approval),
            outcome("step-0/tool-0/approval"),
            outcome("step-0/tool-1/approval"),
            intent("step-0/tool-2/approval", EffectKind::Approval),
        ];
        std::fs::write(&journal, lines::encode_file(&journal, &records).unwrap()).unwrap();
        forget_recorded_approvals(directory.path()).unwrap();
        let (kept, warnings) = lines::read::<JournalRecord>(&RealFs, &journal)
            .unwrap()
            .into_values();
        assert!(warnings.is_empty(), "{warnings:?}");
        let expected = [&records[0], &records[1], &records[5]];
        assert_eq!(format!("{kept:?}"), format!("{expected:?}"));
    }
}
