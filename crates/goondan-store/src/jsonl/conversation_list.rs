//! The list of all conversations in `conversations.jsonl`. A clean end adds the changed ones; the
//! last record of a conversation counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::appender::FileAppender;
use super::changed_instances::CountedState;
use super::synced_disk::SyncedDisk;
use super::{checksum, instance_directories, layout, lines};
use crate::fs::FileSystem;
use goondan_core::ids::InstanceId;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, StoreError};

/// Maximum number of instances that are listed for a record name.
const MAX_NAMED_INSTANCES: usize = 1_000;

/// Number of records that the file may have beyond twice the number of conversations.
const SPARE_RECORDS: u64 = 1_000;

/// Depth of the file below the workspace. Its name need not be durable.
const LIST_DEPTH: usize = 1;

/// A conversation of the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedConversation {
    /// Metadata of the instance.
    pub meta: InstanceMeta,
    /// Number of messages; `None` if only the whole conversation shows it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub messages: Option<usize>,
    /// True if a turn was interrupted.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_at_work: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(
    tag = "record",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum ListRecord {
    Conversation(Box<ListedConversation>),
    Removed { instance: InstanceId },
}

/// Summary of the list in a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListState {
    /// Length of the file in bytes.
    length: u64,
    /// Time of the last change of the file.
    modified: Option<u64>,
    /// Time of the last change of the directory of the instances.
    directory_modified: Option<u64>,
    /// Number of records.
    records: u64,
    /// Number of conversations.
    conversations: u64,
    /// Number of conversations that are not retired.
    pub(super) live: usize,
    /// Number of conversations with the status `processing`.
    pub(super) processing: usize,
    /// Instances that have a record, by its name.
    named: BTreeMap<String, BTreeSet<InstanceId>>,
    /// Record names that are not in `named`, because more than [`MAX_NAMED_INSTANCES`] instances
    /// have such a record.
    too_common: BTreeSet<String>,
}

impl ListState {
    /// Returns true if neither the list nor the names of the directories changed since the
    /// checkpoint.
    pub(super) fn is_current(&self, fs: &dyn FileSystem, workspace: &Path) -> bool {
        let path = workspace.join(layout::CONVERSATIONS);
        let length = fs.file_len(&path).ok();
        length.map(Option::unwrap_or_default) == Some(self.length)
            && fs.modified(&path) == self.modified
            && fs.modified(&workspace.join(layout::INSTANCES)) == self.directory_modified
    }

    /// Returns the instances that have a record `name`; `None` if they are not listed.
    pub(super) fn instances_with_record(&self, name: &str) -> Option<BTreeSet<InstanceId>> {
        (!self.too_common.contains(name)).then(|| self.named.get(name).cloned().unwrap_or_default())
    }

    fn count(&mut self, state: CountedState, sign: isize) {
        let CountedState::Counted(status) = state else {
            return;
        };
        let is_live = status != InstanceStatus::Retired;
        let is_processing = status == InstanceStatus::Processing;
        self.conversations = self.conversations.saturating_add_signed(sign as i64);
        self.live = self.live.saturating_add_signed(sign * isize::from(is_live));
        self.processing = self
            .processing
            .saturating_add_signed(sign * isize::from(is_processing));
    }

    fn name_records(&mut self, id: &InstanceId, names: Vec<String>) {
        for name in names {
            if self.too_common.contains(&name) {
                continue;
            }
            let ids = self.named.entry(name.clone()).or_default();
            ids.insert(id.clone());
            if ids.len() > MAX_NAMED_INSTANCES {
                self.named.remove(&name);
                self.too_common.insert(name);
            }
        }
    }

    /// Records the size and the times of the files.
    fn record_file_state(&mut self, fs: &dyn FileSystem, workspace: &Path) -> io::Result<()> {
        let path = workspace.join(layout::CONVERSATIONS);
        self.length = fs.file_len(&path)?.unwrap_or_default();
        self.modified = fs.modified(&path);
        self.directory_modified = fs.modified(&workspace.join(layout::INSTANCES));
        Ok(())
    }
}

/// Reads the list. Fails with a description if it is damaged.
pub(super) fn read(
    fs: &dyn FileSystem,
    workspace: &Path,
) -> Result<Vec<ListedConversation>, String> {
    let path = workspace.join(layout::CONVERSATIONS);
    let read = lines::read::<ListRecord>(fs, &path).map_err(|error| error.to_string())?;
    let (records, problems) = read.into_values();
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem);
    }
    let mut conversations: HashMap<InstanceId, ListedConversation> =
        HashMap::with_capacity(records.len());
    for record in records {
        match record {
            ListRecord::Conversation(listed) => {
                conversations.insert(listed.meta.id(), *listed);
            }
            ListRecord::Removed { instance } => drop(conversations.remove(&instance)),
        }
    }
    Ok(conversations.into_values().collect())
}

/// Writes the list at the end of a process.
pub(super) struct ListWriter<'a> {
    pub(super) disk: &'a Arc<SyncedDisk>,
    pub(super) workspace: &'a Path,
}

impl ListWriter<'_> {
    /// Adds the changed instances to the list that `earlier` describes.
    pub(super) fn update(
        &self,
        earlier: &ListState,
        changed: &BTreeMap<InstanceId, CountedState>,
    ) -> Result<ListState, StoreError> {
        let mut state = earlier.clone();
        let mut records = Vec::new();
        for (id, before) in changed {
            let found = self.read_instance(&layout::instance_dir(self.workspace, id))?;
            state.count(*before, -1);
            state.named.values_mut().for_each(|ids| {
                ids.remove(id);
            });
            let Some((listed, names)) = found else {
                let instance = id.clone();
                records.push(ListRecord::Removed { instance });
                continue;
            };
            state.count(Some(&listed.meta).into(), 1);
            state.name_records(id, names);
            records.push(ListRecord::Conversation(Box::new(listed)));
        }
        state.records += records.len() as u64;
        if state.records > 2 * state.conversations + SPARE_RECORDS {
            return self.rewrite_list();
        }
        self.appender().append_all(records.iter())?;
        self.finish(state)
    }

    /// Writes the list of all instances.
    pub(super) fn rewrite_list(&self) -> Result<ListState, StoreError> {
        let instances = self.workspace.join(layout::INSTANCES);
        let failed = |cause| StoreError::file("list", &instances, cause);
        let folders = self.disk.subdirectories(&instances).map_err(failed)?;
        let (mut state, mut records) = (ListState::default(), Vec::new());
        for folder in folders {
            if instance_directories::is_deleted(&folder) {
                let cause = io::Error::other("a deletion is not finished");
                return Err(StoreError::file("list", &folder, cause));
            }
            if let Some((listed, names)) = self.read_instance(&folder)? {
                state.count(Some(&listed.meta).into(), 1);
                state.name_records(&listed.meta.id(), names);
                records.push(ListRecord::Conversation(Box::new(listed)));
            }
        }
        state.records = records.len() as u64;
        let written = self.appender().overwrite(&records);
        written.map_err(|cause| StoreError::file("write", &self.path(), cause))?;
        self.finish(state)
    }

    fn path(&self) -> PathBuf {
        self.workspace.join(layout::CONVERSATIONS)
    }

    fn appender(&self) -> FileAppender {
        FileAppender::new(Arc::clone(self.disk), self.path(), LIST_DEPTH)
    }

    fn finish(&self, mut state: ListState) -> Result<ListState, StoreError> {
        let recorded = state.record_file_state(&***self.disk, self.workspace);
        recorded.map_err(|cause| StoreError::file("read", &self.path(), cause))?;
        Ok(state)
    }

    /// Returns the instance in a directory, and the names of its records; `None` if there is none.
    fn read_instance(
        &self,
        folder: &Path,
    ) -> Result<Option<(ListedConversation, Vec<String>)>, StoreError> {
        let Some(meta) = instance_directories::read_meta(&***self.disk, folder)? else {
            return Ok(None);
        };
        let events = self.disk.file_len(&folder.join(layout::EVENTS));
        let listed = ListedConversation {
            meta,
            messages: last_number(&***self.disk, &folder.join(layout::BASE)),
            is_at_work: !matches!(events, Ok(None | Some(0))),
        };
        let extensions = folder.join(layout::EXTENSIONS);
        let files = self.disk.files(&extensions);
        let files = files.map_err(|cause| StoreError::file("list", &extensions, cause))?;
        Ok(Some((
            listed,
            files.iter().filter_map(record_name).collect(),
        )))
    }
}

/// Returns the name of a record by its path.
fn record_name(path: impl AsRef<Path>) -> Option<String> {
    let name = path.as_ref().file_name()?.to_str()?;
    layout::key_of(name.strip_suffix(".json")?)
}

/// Returns the number of the last record of a file, which is the number of its records.
fn last_number(fs: &dyn FileSystem, path: &Path) -> Option<usize> {
    let Some(length) = fs.file_len(path).ok()?.filter(|length| *length > 0) else {
        return Some(0);
    };
    let mut file = fs.open(path).ok()?.file;
    let start = length.saturating_sub(checksum::MAX_SEAL_BYTES as u64);
    let mut end = vec![0; usize::try_from(length - start).ok()?];
    file.read_at(start, &mut end).ok()?;
    usize::try_from(checksum::sequence_number(&end)?).ok()
}
