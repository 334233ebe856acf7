//! A partially parsed inbox record. Only the fields that decide if the record is still needed are
//! parsed. Results and messages make up most of a line and are copied verbatim, so that scanning
//! and compacting thousands of lines is cheap.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::record::SettledFold;
use crate::record_facts::{EventFacts, FoldFacts, RecordFacts};
use crate::wal_index::RetainedParts;
use goondan_core::ids::InstanceId;

/// An [`InboxRecord`](crate::record::InboxRecord) with unparsed contents.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordHeader<'a> {
    record: WalRecordKind,
    #[serde(borrow, default, skip_serializing)]
    event: Option<&'a RawValue>,
    #[serde(default)]
    turn_id: String,
    #[serde(default)]
    event_ids: Vec<String>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked_by: Option<InstanceId>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    answer: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    fold: Option<&'a RawValue>,
    #[serde(default, skip_serializing)]
    folds: Vec<SettledFold>,
    #[serde(default, skip_serializing)]
    event_id: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WalRecordKind {
    Accepted,
    Done,
    Settled,
    Closed,
    Withdrawn,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventOutline {
    id: String,
    target: InstanceId,
    #[serde(default)]
    callers: Vec<InstanceId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoldOutline {
    instance: InstanceId,
    #[serde(default)]
    is_whole: bool,
}

impl RecordHeader<'_> {
    /// Extracts the facts that the index needs, without decoding messages and results.
    pub(super) fn facts(&self) -> serde_json::Result<RecordFacts> {
        Ok(match self.record {
            WalRecordKind::Accepted => {
                RecordFacts::Accepted(event(self.event.unwrap_or(RawValue::NULL))?)
            }
            WalRecordKind::Done => RecordFacts::Done {
                turn_id: self.turn_id.clone(),
                event_ids: self.event_ids.clone(),
                result_size: self.result.map_or(0, |result| result.get().len()),
                asked_by: self.asked_by.clone(),
                answer: self.answer.map(event).transpose()?,
                fold: self.fold.map(fold_facts).transpose()?,
            },
            WalRecordKind::Settled => RecordFacts::Settled(self.folds.clone()),
            WalRecordKind::Closed => RecordFacts::Closed,
            WalRecordKind::Withdrawn => RecordFacts::Withdrawn(self.event_id.clone()),
        })
    }

    /// Returns a finished turn's record without the parts that are not kept; `None` if that is the
    /// whole record.
    pub(super) fn retain_parts(self, keeps: RetainedParts) -> Option<Self> {
        let is_whole = keeps.answer == self.answer.is_some() && keeps.fold == self.fold.is_some();
        let (answer, fold) = (
            self.answer.filter(|_| keeps.answer),
            self.fold.filter(|_| keeps.fold),
        );
        (self.record == WalRecordKind::Done && !is_whole).then_some(RecordHeader {
            answer,
            fold,
            ..self
        })
    }
}

/// Extracts id, target and last caller of an event.
fn event(text: &RawValue) -> serde_json::Result<EventFacts> {
    let EventOutline {
        id,
        target,
        mut callers,
    } = serde_json::from_str(text.get())?;
    Ok(EventFacts {
        id,
        target,
        asked_by: callers.pop(),
    })
}

/// Extracts the instance of a checkpoint, and whether it contains all messages.
fn fold_facts(text: &RawValue) -> serde_json::Result<FoldFacts> {
    let FoldOutline { instance, is_whole } = serde_json::from_str(text.get())?;
    Ok(FoldFacts { instance, is_whole })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{CarriedFold, InboxRecord};
    use crate::suite::samples::{
        accepted, done_with, event, event_by, instance, messages, withdrawn,
    };

    fn full() -> InboxRecord {
        let (one, answer) = (
            event("one", &instance("k")),
            event_by("answer", &instance("k"), &instance("other")),
        );
        let mut record = InboxRecord::from(done_with(
            &event_by("one", &instance("asker"), &one.target),
            Some(answer),
        ));
        if let InboxRecord::Done { fold, .. } = &mut record {
            let messages = messages(&["m0", "m1"]);
            *fold = Some(Box::new(CarriedFold {
                instance: instance("k"),
                at: 7,
                sequence: Some(2),
                is_whole: true,
                messages,
            }));
        }
        record
    }

    #[test]
    fn a_header_has_the_same_facts_as_its_record() {
        let one = event_by("one", &instance("asker"), &instance("k"));
        let settled = SettledFold {
            instance: instance("k"),
            turn_id: Some("turn-1".to_owned()),
        };
        let settled = InboxRecord::Settled {
            folds: vec![settled],
        };
        let plain = [accepted(&one), done_with(&one, None), withdrawn(&one)].map(InboxRecord::from);
        for record in plain.into_iter().chain([full(), settled]) {
            let text = serde_json::to_string(&record).unwrap();
            let header: RecordHeader<'_> = serde_json::from_str(&text).unwrap();
            assert_eq!(header.facts().unwrap(), RecordFacts::from(&record));
        }
    }

    #[test]
    fn removed_parts_are_missing_from_the_reduced_record() {
        let text = serde_json::to_string(&full()).unwrap();
        for parts in [(true, true), (true, false), (false, true), (false, false)] {
            let parts = RetainedParts {
                answer: parts.0,
                fold: parts.1,
            };
            let header: RecordHeader<'_> = serde_json::from_str(&text).unwrap();
            let reduced = header
                .retain_parts(parts)
                .map(|header| serde_json::to_string(&header).unwrap());
            let mut expected = full();
            if let InboxRecord::Done { answer, fold, .. } = &mut expected {
                *answer = answer.take().filter(|_| parts.answer);
                *fold = fold.take().filter(|_| parts.fold);
            }
            let is_whole = parts.answer && parts.fold;
            assert_eq!(
                reduced,
                (!is_whole).then(|| serde_json::to_string(&expected).unwrap())
            );
        }
    }

    #[test]
    fn an_incomplete_record_is_an_error() {
        for text in [
            r#"{"record":"accepted"}"#,
            r#"{"record":"done","answer":3}"#,
            r#"{"record":"done","fold":{}}"#,
        ] {
            assert!(
                serde_json::from_str::<RecordHeader<'_>>(text)
                    .unwrap()
                    .facts()
                    .is_err(),
                "{text}"
            );
        }
    }
}
