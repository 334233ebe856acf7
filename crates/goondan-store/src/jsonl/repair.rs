//! Writes a copy of a damaged workspace with everything that can be read. The original stays
//! unchanged.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::file_format::NewerFormat;
use super::tree_copy::{copy_directory, copy_file};
use super::{JournalRecord, compaction, instance_directories, layout, lines};
use crate::fs::{FileSystem as _, RealFs};
use crate::record::InboxRecord;
use crate::wal_index::TurnCheckpoint;
use goondan_core::event::RuntimeEvent;
use goondan_core::message::{Message, MessageEvent};
use goondan_core::private_files;

/// Contents of a repaired copy.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Number of records in the copy.
    pub records: usize,
    /// Descriptions of the data that the copy lacks.
    pub lost: Vec<String>,
}

/// Copies the workspace in the directory `from` to the new directory `to`. Leaves out damaged
/// records and second copies of records; the others keep their order. No swarm may use the
/// workspace.
///
/// # Errors
/// Fails if `to` exists, if a file cannot be written, or if a newer program wrote a file.
pub fn repair(from: &Path, to: &Path) -> io::Result<RepairReport> {
    if to.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut copy = RepairedCopy::default();
    let instances = from.join(layout::INSTANCES);
    let mut excluded = layout::process_files(from).to_vec();
    excluded.extend(layout::checkpoint_files(from));
    let is_copied = |path: &Path| path != instances && !excluded.iter().any(|file| file == path);
    copy_directory(from, to, &is_copied)?;
    private_files::create_directory(&to.join(layout::INSTANCES))?;
    let carried_checkpoints = copy.copy_log(&from.join(layout::INBOX), &to.join(layout::INBOX))?;
    for folder in RealFs.subdirectories(&instances)? {
        if instance_directories::is_deleted(&folder) {
            continue;
        }
        let Some(name) = folder.file_name() else {
            continue;
        };
        let target = to.join(layout::INSTANCES).join(name);
        copy.copy_conversation(&folder, &target, carried_checkpoints.get(&folder))?;
    }
    Ok(copy.report)
}

#[derive(Default)]
struct RepairedCopy {
    report: RepairReport,
}

impl RepairedCopy {
    /// Reads the intact records of a file. With `is_chain`, a record needs all records before it.
    fn read<T: DeserializeOwned>(&mut self, path: &Path, is_chain: bool) -> io::Result<Vec<T>> {
        let read = match lines::read::<T>(&RealFs, path) {
            Err(error) if NewerFormat::is_cause(&error) => return Err(error),
            Err(error) => {
                self.report_loss(path, &format!("can't be read: {error}"));
                return Ok(Vec::new());
            }
            Ok(read) => read,
        };
        let mut kept = Vec::new();
        let mut left_out = 0;
        for (value, byte_range) in read.values {
            if is_chain && byte_range.end > read.sound_until {
                left_out += 1;
            } else {
                kept.push(value);
            }
        }
        let warnings = read.warnings.iter().map(ToString::to_string);
        self.report.lost.extend(warnings);
        if left_out > 0 {
            self.report_loss(
                path,
                &format!("left out {left_out} records after the damage"),
            );
        }
        Ok(kept)
    }

    /// Writes records to a new file of the current format.
    fn write<T: Serialize>(&mut self, path: &Path, records: &[T]) -> io::Result<()> {
        self.report.records += records.len();
        let bytes = lines::encode_file(path, records)?;
        if let Some(folder) = path.parent() {
            private_files::create_directory(folder)?;
        }
        private_files::write(path, &bytes)
    }

    /// Copies the log without the messages that it carries. Returns these messages by the directory
    /// of their conversation, whose copy must contain them.
    fn copy_log(
        &mut self,
        from: &Path,
        to: &Path,
    ) -> io::Result<HashMap<PathBuf, Vec<TurnCheckpoint>>> {
        let mut records = self.read::<InboxRecord>(from, false)?;
        records.retain(|record| {
            !matches!(
                record,
                InboxRecord::Settled { .. } | InboxRecord::Closed { .. }
            )
        });
        for record in &mut records {
            if let InboxRecord::Done { fold, .. } = record {
                *fold = None;
            }
        }
        self.write(to, &records)?;
        let workspace = from.parent().unwrap_or(Path::new(""));
        let mut carried: HashMap<PathBuf, Vec<TurnCheckpoint>> = HashMap::new();
        for checkpoint in compaction::take_up(&RealFs, from)?.held.unsettled {
            let folder = layout::instance_dir(workspace, &checkpoint.fold.instance);
            carried.entry(folder).or_default().push(checkpoint);
        }
        Ok(carried)
    }

    /// Copies the directory of a conversation. Adds the messages in `carried`.
    fn copy_conversation(
        &mut self,
        from: &Path,
        to: &Path,
        carried: Option<&Vec<TurnCheckpoint>>,
    ) -> io::Result<()> {
        let json_files = [vec![from.join(layout::METADATA)], layout::json_files(from)].concat();
        let record_files = [
            layout::BASE,
            layout::EVENTS,
            layout::JOURNAL,
            layout::RUNTIME_EVENTS,
            layout::OLDER_RUNTIME_EVENTS,
        ]
        .map(|name| from.join(name));
        copy_directory(from, to, &|path| {
            !record_files
                .iter()
                .chain(&json_files)
                .any(|file| file == path)
        })?;
        for path in json_files {
            self.copy_json_file(&path, from, to)?;
        }
        let base = self.read::<Arc<Message>>(&from.join(layout::BASE), false)?;
        let base = self.merge_carried(from, base, carried);
        self.write(&to.join(layout::BASE), &base)?;
        let events = self.read::<MessageEvent>(&from.join(layout::EVENTS), false)?;
        self.write(&to.join(layout::EVENTS), &events)?;
        let journal = self.read::<JournalRecord>(&from.join(layout::JOURNAL), true)?;
        self.write(&to.join(layout::JOURNAL), &journal)?;
        for name in [layout::OLDER_RUNTIME_EVENTS, layout::RUNTIME_EVENTS] {
            if from.join(name).exists() {
                let events = self.read::<RuntimeEvent>(&from.join(name), false)?;
                self.write(&to.join(name), &events)?;
            }
        }
        Ok(())
    }

    /// Adds messages that only the log contains, and leaves out second copies of messages.
    fn merge_carried(
        &mut self,
        folder: &Path,
        mut base: Vec<Arc<Message>>,
        carried: Option<&Vec<TurnCheckpoint>>,
    ) -> Vec<Arc<Message>> {
        for checkpoint in carried.into_iter().flatten() {
            if checkpoint.fold.is_whole {
                base.clear();
            }
            base.extend(checkpoint.fold.messages.iter().cloned());
        }
        let mut ids = HashSet::new();
        let path = folder.join(layout::BASE);
        if base.is_empty() && std::fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
            self.report_loss(&path, "all messages are lost");
        }
        base.retain(|message| ids.insert(message.id.clone()));
        base
    }

    /// Copies the JSON file at `path` from the directory `from` to `to`. Reports an unreadable file as
    /// lost.
    fn copy_json_file(&mut self, path: &Path, from: &Path, to: &Path) -> io::Result<()> {
        let Ok(name) = path.strip_prefix(from) else {
            return Ok(());
        };
        let problem = match RealFs.read_if_there(path) {
            Ok(None) => return Ok(()),
            Err(error) => format!("can't be read: {error}"),
            Ok(Some(bytes)) => match serde_json::from_slice::<IgnoredAny>(&bytes) {
                Ok(_) => return copy_file(path, &to.join(name)).map(drop),
                Err(error) => format!("is not valid JSON: {error}"),
            },
        };
        self.report_loss(path, &problem);
        Ok(())
    }

    /// Reports data of the file at `path` that the copy lacks.
    fn report_loss(&mut self, path: &Path, problem: &str) {
        self.report
            .lost
            .push(format!("{}: {problem}", path.display()));
    }
}
