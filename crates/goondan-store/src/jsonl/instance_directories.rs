//! Instance directories and their metadata.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde_json::json;

use super::synced_disk::SyncedDisk;
use super::{checksum, key_values, layout, lines};
use crate::fs::{FileSystem, replace_durably};
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageEvent};
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, StoreError, VersionedRecord};
use goondan_core::tool_allowlist::ToolAllowlist;

/// Prefix of directories that are being deleted. No key is encoded to a name with a leading dot.
const DELETED_PREFIX: &str = ".deleted-";

/// Name of the record with the second copy of an instance's tool allowlist. No extension can have
/// this name.
const ALLOWLIST_RECORD: &str = "gdn.narrowing";

/// Number of directories between the workspace and metadata: `instances/<instance>/`.
const METADATA_DEPTH: usize = 2;

/// Returns true if [`put_meta`] needs no sync.
pub(super) fn is_quick_to_put(meta: &InstanceMeta) -> bool {
    meta.status == InstanceStatus::Processing && meta.cwd.is_none() && meta.narrowing.is_none()
}

/// Writes `metadata.json`. The settings of a spawned instance are synced immediately. The rest can
/// be rebuilt from the conversation, or from the event that the instance processes.
pub(super) fn put_meta(
    disk: &SyncedDisk,
    dir: &Path,
    meta: &InstanceMeta,
) -> Result<(), StoreError> {
    let path = dir.join(layout::METADATA);
    let mut bytes = serde_json::to_vec_pretty(meta)
        .map_err(|cause| StoreError::file("encode", &path, cause))?;
    checksum::seal(&mut bytes, 0, None);
    bytes.push(b'\n');
    let has_conversation = || {
        [layout::BASE, layout::EVENTS]
            .iter()
            .any(|file| disk.exists(&dir.join(file)))
    };
    let has_settings = meta.cwd.is_some() || meta.narrowing.is_some();
    write_allowlist_copy(disk, dir, meta)?;
    let must_sync =
        has_settings || (meta.status != InstanceStatus::Processing && !has_conversation());
    let written = match must_sync {
        // The old file states the same settings, so a power failure may restore it.
        true if disk.has_names(&path) => replace_durably(&**disk, &path, &bytes),
        true => disk
            .replace(&path, &bytes)
            .and_then(|()| disk.sync_directories(&path, METADATA_DEPTH)),
        false => overwrite_padded(&**disk, &path, bytes),
    };
    written.map_err(|cause| StoreError::file("write", &path, cause))
}

/// Overwrites a file in place with one write. Pads shorter contents with line breaks.
///
/// Replacing the file would be slower, because file systems create and delete files slowly. A power
/// failure may leave a torn file, which [`find`] rebuilds.
fn overwrite_padded(fs: &dyn FileSystem, path: &Path, mut bytes: Vec<u8>) -> std::io::Result<()> {
    let mut file = fs.open(path)?.file;
    let old_length = usize::try_from(file.len()?).unwrap_or_default();
    let padded_length = bytes.len().max(old_length);
    bytes.resize(padded_length, b'\n');
    file.write_at(0, &bytes)
}

/// Writes a second copy of the instance's tool allowlist, unless a copy exists. If the metadata is
/// lost, the instance must not regain permissions.
fn write_allowlist_copy(
    disk: &SyncedDisk,
    dir: &Path,
    meta: &InstanceMeta,
) -> Result<(), StoreError> {
    let Some(allowlist) = &meta.narrowing else {
        return Ok(());
    };
    if key_values::read(&**disk, dir, ALLOWLIST_RECORD)?.is_some() {
        return Ok(());
    }
    key_values::write(disk, dir, ALLOWLIST_RECORD, &json!(allowlist))
}

/// Reads the second copy of the instance's tool allowlist. Returns `None` if there is no copy, so
/// that all tools are allowed. An unreadable copy allows no tool.
fn read_allowlist_copy(disk: &SyncedDisk, dir: &Path) -> Option<ToolAllowlist> {
    if !key_values::exists(&**disk, dir, ALLOWLIST_RECORD) {
        return None;
    }
    let allowlist = match key_values::read(&**disk, dir, ALLOWLIST_RECORD) {
        Ok(Some(record)) => serde_json::from_value(record.value).ok(),
        Ok(None) | Err(_) => None,
    };
    let no_tool = || ToolAllowlist::of_exports([""; 0]);
    Some(allowlist.unwrap_or_else(no_tool))
}

/// Lists all instances. Lost or torn metadata is rebuilt from the conversation. A directory with
/// neither is left over from an interrupted creation.
pub(super) fn list(disk: &SyncedDisk, workspace: &Path) -> Result<Vec<InstanceMeta>, StoreError> {
    let instances = workspace.join(layout::INSTANCES);
    let folders = disk
        .subdirectories(&instances)
        .map_err(|cause| StoreError::file("list", &instances, cause))?;
    let folders = folders.into_iter().filter(|folder| !is_deleted(folder));
    folders
        .filter_map(|folder| find(disk, &folder).transpose())
        .collect()
}

/// Returns the metadata of the instance in `folder`, rebuilt as in [`list`] if necessary.
pub(super) fn find(disk: &SyncedDisk, folder: &Path) -> Result<Option<InstanceMeta>, StoreError> {
    match read_meta(&**disk, folder)? {
        Some(meta) => Ok(Some(meta)),
        None => Ok(rebuild_meta(disk, folder)),
    }
}

/// Reads the metadata of an instance. Returns `None` if the file is missing, or if its checksum or JSON
/// is invalid. Fails if the file cannot be read, so that the caller does not overwrite it.
pub(super) fn read_meta(
    fs: &dyn FileSystem,
    dir: &Path,
) -> Result<Option<InstanceMeta>, StoreError> {
    let path = dir.join(layout::METADATA);
    // A read error can be temporary.
    let read = fs.read_if_there(&path).or_else(|_| fs.read_if_there(&path));
    let bytes = read.map_err(|cause| StoreError::file("read", &path, cause))?;
    let intact = bytes.filter(|bytes| checksum::is_intact(bytes));
    Ok(intact.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Recreates lost metadata from the conversation and the directory name, and writes it. Returns
/// `None` if the conversation has no message, or if the instance cannot be determined.
fn rebuild_meta(disk: &SyncedDisk, dir: &Path) -> Option<InstanceMeta> {
    let (first_time, last_time) = message_times(&**disk, dir)?;
    let Some(id) = find_instance_id(&**disk, dir) else {
        tracing::warn!(folder = %dir.display(), "a conversation was skipped: its metadata is \
            lost, and its directory name is shortened");
        return None;
    };
    tracing::warn!(instance = %id, "the metadata of an instance was lost and is rebuilt");
    let meta = InstanceMeta {
        status: InstanceStatus::Idle,
        agent: id.agent,
        instance_key: id.instance_key,
        created_at: first_time,
        updated_at: last_time,
        owner: None,
        cwd: None,
        released_at: None,
        retired_at: None,
        narrowing: read_allowlist_copy(disk, dir),
        spending: Default::default(),
    };
    if let Err(error) = put_meta(disk, dir, &meta) {
        tracing::warn!(%error, "failed to write instance metadata");
    }
    Some(meta)
}

/// Returns the times of the first and the last message.
fn message_times(fs: &dyn FileSystem, dir: &Path) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let (base, _) = lines::read::<Message>(fs, &dir.join(layout::BASE))
        .ok()?
        .into_values();
    let (events, _) = lines::read::<MessageEvent>(fs, &dir.join(layout::EVENTS))
        .ok()?
        .into_values();
    let appended = events.iter().filter_map(|event| match event {
        MessageEvent::Append { message } | MessageEvent::Replace { message, .. } => {
            Some(message.created_at)
        }
        MessageEvent::Remove { .. } | MessageEvent::Truncate => None,
    });
    let times: Vec<_> = base
        .iter()
        .map(|message| message.created_at)
        .chain(appended)
        .collect();
    Some((*times.iter().min()?, *times.iter().max()?))
}

/// Determines the instance of a directory from the directory name. If the name is shortened,
/// determines it from the first runtime event.
fn find_instance_id(fs: &dyn FileSystem, dir: &Path) -> Option<InstanceId> {
    let name = dir.file_name()?.to_str()?;
    if let Some(id) = layout::instance_id(name) {
        return Some(id);
    }
    let id = first_event_instance(fs, &dir.join(layout::RUNTIME_EVENTS))
        .or_else(|| first_event_instance(fs, &dir.join(layout::OLDER_RUNTIME_EVENTS)))?;
    let is_instance_of_dir = layout::file_name(&id.to_string()) == name;
    is_instance_of_dir.then_some(id)
}

/// Returns the instance of the first runtime event in the file at `path`.
fn first_event_instance(fs: &dyn FileSystem, path: &Path) -> Option<InstanceId> {
    let events = lines::read::<RuntimeEvent>(fs, path).ok()?;
    let (first, _) = events.values.first()?;
    Some(first.instance())
}

/// Reads the records named `name` of all instances.
pub(super) fn all_of_name(
    disk: &SyncedDisk,
    workspace: &Path,
    name: &str,
) -> Result<Vec<(InstanceId, VersionedRecord)>, StoreError> {
    let instances = workspace.join(layout::INSTANCES);
    let folders = disk
        .subdirectories(&instances)
        .map_err(|cause| StoreError::file("list", &instances, cause))?;
    let mut records = Vec::new();
    for folder in folders
        .iter()
        .filter(|folder| !is_deleted(folder) && key_values::exists(&**disk, folder, name))
    {
        let id = read_meta(&**disk, folder)?
            .map(|meta| meta.id())
            .or_else(|| find_instance_id(&**disk, folder));
        if let (Some(id), Some(record)) = (id, key_values::read(&**disk, folder, name)?) {
            records.push((id, record));
        }
    }
    Ok(records)
}

/// Reads the records named `name` of these instances.
pub(super) fn records_of(
    disk: &SyncedDisk,
    workspace: &Path,
    name: &str,
    ids: impl IntoIterator<Item = InstanceId>,
) -> Result<Vec<(InstanceId, VersionedRecord)>, StoreError> {
    let mut records = Vec::new();
    for id in ids {
        let folder = layout::instance_dir(workspace, &id);
        if let Some(record) = key_values::read(&**disk, &folder, name)? {
            records.push((id, record));
        }
    }
    Ok(records)
}

/// Deletes an instance directory. An atomic rename comes first, then the contents are removed.
pub(super) fn delete(fs: &dyn FileSystem, dir: &Path) -> Result<bool, StoreError> {
    if !fs.exists(dir) {
        return Ok(false);
    }
    let doomed = deletion_path(fs, dir);
    let delete = || {
        fs.rename(dir, &doomed)?;
        dir.parent()
            .map_or(Ok(()), |instances| fs.sync_folder(instances))?;
        fs.remove_folder(&doomed)
    };
    delete()
        .map(|()| true)
        .map_err(|cause| StoreError::file("delete", dir, cause))
}

/// Returns an unused name for a directory that is being deleted.
fn deletion_path(fs: &dyn FileSystem, dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut candidates =
        (0_u32..).map(|number| dir.with_file_name(format!("{DELETED_PREFIX}{number}-{name}")));
    candidates
        .find(|path| !fs.exists(path))
        .expect("there are endless numbers")
}

/// Returns true if a deletion has renamed the directory.
pub(super) fn is_deleted(folder: &Path) -> bool {
    folder
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(DELETED_PREFIX))
}

/// Removes directories of deleted instances that an earlier process left.
pub(super) fn finish_deletions(fs: &dyn FileSystem, workspace: &Path) {
    let folders = fs
        .subdirectories(&workspace.join(layout::INSTANCES))
        .unwrap_or_default();
    for folder in folders.iter().filter(|folder| is_deleted(folder)) {
        if let Err(error) = fs.remove_folder(folder) {
            tracing::warn!(folder = %folder.display(), %error, "could not remove some files of a \
                deleted instance");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fs::sim::SimFs;
    use crate::jsonl::JsonlStore;
    use crate::suite::samples::{instance, messages, meta};
    use goondan_core::ports::store::{BaseChange, ConversationStore as _, InstanceStore as _};

    #[tokio::test]
    async fn rebuilt_metadata_keeps_the_permission_restriction() {
        let (fs, id) = (SimFs::new(), instance("narrow"));
        let dir = layout::instance_dir(Path::new("/workspace"), &id);
        let open = || JsonlStore::on(Arc::new(fs.clone()), Path::new("/workspace")).unwrap();
        let narrowing = ToolAllowlist::of_exports(["fs__read"]);
        let store = open();
        store
            .put_instance(&InstanceMeta {
                narrowing: Some(narrowing.clone()),
                ..meta(&id)
            })
            .await
            .unwrap();
        let lease = store.claim(&id).await.unwrap();
        let mut conversation = store.open(lease).await.unwrap();
        conversation
            .checkpoint(BaseChange::Append(&messages(&["m0"])))
            .await
            .unwrap();
        drop((conversation, store));
        let rebuilt = async || {
            fs.put(&dir.join(layout::METADATA), b"{");
            // A start with a checkpoint does not read the file.
            fs.put(&Path::new("/workspace").join(layout::CHECKPOINT), b"");
            open().instances().await.unwrap().remove(0).narrowing
        };
        assert_eq!(rebuilt().await, Some(narrowing));
        // If the second copy is unreadable, nothing is permitted.
        fs.put(&dir.join("extensions/gdn.narrowing.json"), b"[");
        assert_eq!(rebuilt().await, Some(ToolAllowlist::of_exports([""; 0])));
    }

    #[test]
    fn metadata_of_a_spawned_instance_survives_a_power_failure() {
        let fs = SimFs::new();
        let (workspace, meta) = (Path::new("/workspace"), meta(&instance("spawned")));
        let dir = layout::instance_dir(workspace, &meta.id());
        // The inbox leaves the directories in this state after it accepted an event.
        fs.create_directories(&workspace.join(layout::INSTANCES))
            .unwrap();
        [Path::new("/"), workspace]
            .iter()
            .for_each(|folder| fs.sync_folder(folder).unwrap());
        put_meta(&SyncedDisk::new(Arc::new(fs.clone())), &dir, &meta).unwrap();
        let fs = fs.lose_power(None);
        assert_eq!(
            list(&SyncedDisk::new(Arc::new(fs.clone())), workspace).unwrap(),
            std::slice::from_ref(&meta)
        );
        // The instance retires, and the power fails again.
        let retired = InstanceMeta {
            status: InstanceStatus::Retired,
            ..meta
        };
        put_meta(&SyncedDisk::new(Arc::new(fs.clone())), &dir, &retired).unwrap();
        let fs = fs.lose_power(None);
        assert_eq!(
            list(&SyncedDisk::new(Arc::new(fs)), workspace).unwrap(),
            [retired]
        );
    }
}
