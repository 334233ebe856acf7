//! The folders of instances, and what is known of each instance.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde_json::json;

use super::disk::Disk;
use super::{layout, lines, values};
use crate::fs::{FileSystem, replace_durably};
use goondan_core::event::RuntimeEvent;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageEvent};
use goondan_core::narrowing::Narrowing;
use goondan_core::ports::store::{InstanceMeta, InstanceStatus, Record, StoreError};

/// Folders with such a name are on their way out. No key becomes a name that begins with a dot.
const DELETED: &str = ".deleted-";

/// What an instance may do is kept under this name, too, which no extension can have.
const NARROWING: &str = "gdn.narrowing";

/// Metadata lies that many folders deep in its workspace: `instances/<instance>/`.
const DEPTH: usize = 2;

/// Whether [`put_meta`] waits for no disk.
pub(super) fn is_quick_to_put(meta: &InstanceMeta) -> bool {
    meta.status == InstanceStatus::Processing && meta.cwd.is_none() && meta.narrowing.is_none()
}

/// Writes `metadata.json`. What a spawn asked for is put on disk at once; the rest can be told from the conversation, or from
/// the event at which it works.
pub(super) fn put_meta(disk: &Disk, dir: &Path, meta: &InstanceMeta) -> Result<(), StoreError> {
    let path = dir.join(layout::METADATA);
    let mut bytes = serde_json::to_vec_pretty(meta)
        .map_err(|cause| StoreError::file("encode", &path, cause))?;
    bytes.push(b'\n');
    let has_conversation = || {
        [layout::BASE, layout::EVENTS]
            .iter()
            .any(|file| disk.exists(&dir.join(file)))
    };
    let says_how = meta.cwd.is_some() || meta.narrowing.is_some();
    keep_narrowing(disk, dir, meta)?;
    let is_promise = says_how || (meta.status != InstanceStatus::Processing && !has_conversation());
    let written = match is_promise {
        // Under its old name lies what says the same of the promise: a power failure may bring that back.
        true if disk.has_names(&path) => replace_durably(&**disk, &path, &bytes),
        true => disk
            .replace(&path, &bytes)
            .and_then(|()| disk.put_name(&path, DEPTH)),
        false => overwrite(&**disk, &path, bytes),
    };
    written.map_err(|cause| StoreError::file("write", &path, cause))
}

/// Writes over what was there, with one write: to make a new file each time and to delete the old one is what a file system
/// takes longest for. What is shorter than before ends in line breaks. If a power failure tears it, it is made again.
fn overwrite(fs: &dyn FileSystem, path: &Path, mut bytes: Vec<u8>) -> std::io::Result<()> {
    let mut file = fs.open(path)?.file;
    let before = usize::try_from(file.len()?).unwrap_or_default();
    bytes.resize(bytes.len().max(before), b'\n');
    file.write_at(0, &bytes)
}

/// What an instance must not do is kept twice: if its metadata is lost, it must not come back with more power than it had.
fn keep_narrowing(disk: &Disk, dir: &Path, meta: &InstanceMeta) -> Result<(), StoreError> {
    let Some(narrowing) = &meta.narrowing else {
        return Ok(());
    };
    match values::read(&**disk, dir, NARROWING)?.map(|record| record.value) {
        Some(_) => Ok(()),
        None => values::write(disk, dir, NARROWING, &json!(narrowing)),
    }
}

/// The second copy. One that can't be read allows nothing.
fn kept_narrowing(disk: &Disk, dir: &Path) -> Option<Narrowing> {
    if !values::exists(&**disk, dir, NARROWING) {
        return None;
    }
    let kept = values::read(&**disk, dir, NARROWING).ok().flatten();
    Some(
        kept.and_then(|kept| serde_json::from_value(kept.value).ok())
            .unwrap_or_else(|| Narrowing::to([""; 0])),
    )
}

/// Every instance. Metadata that is lost or torn is made again from the conversation; a folder without either is what a
/// cut-off creation leaves.
pub(super) fn list(disk: &Disk, workspace: &Path) -> Result<Vec<InstanceMeta>, StoreError> {
    let instances = workspace.join(layout::INSTANCES);
    let folders = disk
        .folders(&instances)
        .map_err(|cause| StoreError::file("list", &instances, cause))?;
    let folders = folders.into_iter().filter(|folder| !is_deleted(folder));
    Ok(folders.filter_map(|folder| find(disk, &folder)).collect())
}

/// What is known of the instance in that folder, as [`list`] tells it.
pub(super) fn find(disk: &Disk, folder: &Path) -> Option<InstanceMeta> {
    read_meta(&**disk, folder).or_else(|| rebuild(disk, folder))
}

fn read_meta(fs: &dyn FileSystem, dir: &Path) -> Option<InstanceMeta> {
    serde_json::from_slice(&fs.read(&dir.join(layout::METADATA)).ok()?).ok()
}

fn rebuild(disk: &Disk, dir: &Path) -> Option<InstanceMeta> {
    let (first, last) = lifetime(&**disk, dir)?;
    let Some(id) = name_of(&**disk, dir) else {
        tracing::warn!(folder = %dir.display(), "a conversation was left out: its metadata is lost, and its name was shortened");
        return None;
    };
    tracing::warn!(instance = %id, "the metadata of an instance was lost and is made again");
    let meta = InstanceMeta {
        status: InstanceStatus::Idle,
        agent: id.agent,
        instance_key: id.instance_key,
        created_at: first,
        updated_at: last,
        owner: None,
        cwd: None,
        retired_at: None,
        narrowing: kept_narrowing(disk, dir),
        spending: Default::default(),
    };
    if let Err(error) = put_meta(disk, dir, &meta) {
        tracing::warn!(%error, "metadata was not written");
    }
    Some(meta)
}

/// When the first and the last message came.
fn lifetime(fs: &dyn FileSystem, dir: &Path) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
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

/// Whose folder it is: its name says so, or the first thing that happened there.
fn name_of(fs: &dyn FileSystem, dir: &Path) -> Option<InstanceId> {
    let name = dir.file_name()?.to_str()?;
    layout::instance_id(name).or_else(|| {
        let first_in = |path| {
            Some(
                lines::read::<RuntimeEvent>(fs, &dir.join(path))
                    .ok()?
                    .values
                    .first()?
                    .0
                    .instance(),
            )
        };
        let id =
            first_in(layout::RUNTIME_EVENTS).or_else(|| first_in(layout::OLDER_RUNTIME_EVENTS))?;
        (layout::file_name(&id.to_string()) == name).then_some(id)
    })
}

/// The records of that name, of all instances that have one.
pub(super) fn all_of_name(
    disk: &Disk,
    workspace: &Path,
    name: &str,
) -> Result<Vec<(InstanceId, Record)>, StoreError> {
    let instances = workspace.join(layout::INSTANCES);
    let folders = disk
        .folders(&instances)
        .map_err(|cause| StoreError::file("list", &instances, cause))?;
    let mut found = Vec::new();
    for folder in folders
        .iter()
        .filter(|folder| !is_deleted(folder) && values::exists(&**disk, folder, name))
    {
        let id = read_meta(&**disk, folder)
            .map(|meta| meta.id())
            .or_else(|| name_of(&**disk, folder));
        if let (Some(id), Some(record)) = (id, values::read(&**disk, folder, name)?) {
            found.push((id, record));
        }
    }
    Ok(found)
}

/// Deletes the folder of an instance: first its name, in one step, then what is in it.
pub(super) fn delete(fs: &dyn FileSystem, dir: &Path) -> Result<bool, StoreError> {
    if !fs.exists(dir) {
        return Ok(false);
    }
    let doomed = doomed(fs, dir);
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

/// A free name for a folder that goes.
fn doomed(fs: &dyn FileSystem, dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut candidates =
        (0_u32..).map(|number| dir.with_file_name(format!("{DELETED}{number}-{name}")));
    candidates
        .find(|path| !fs.exists(path))
        .expect("there are endless numbers")
}

fn is_deleted(folder: &Path) -> bool {
    folder
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(DELETED))
}

/// Deletes what cut-off deletions left.
pub(super) fn finish_deletions(fs: &dyn FileSystem, workspace: &Path) {
    let folders = fs
        .folders(&workspace.join(layout::INSTANCES))
        .unwrap_or_default();
    for folder in folders.iter().filter(|folder| is_deleted(folder)) {
        if let Err(error) = fs.remove_folder(folder) {
            tracing::warn!(folder = %folder.display(), %error, "the rest of a deleted instance is still there");
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
    use goondan_core::ports::store::{Conversations as _, Fold, Instances as _};

    #[tokio::test]
    async fn an_instance_that_lost_its_metadata_may_do_no_more_than_before() {
        let (fs, id) = (SimFs::new(), instance("narrow"));
        let dir = layout::instance_dir(Path::new("/workspace"), &id);
        let open = || JsonlStore::on(Arc::new(fs.clone()), Path::new("/workspace")).unwrap();
        let narrowing = Narrowing::to(["fs__read"]);
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
            .fold(Fold::Append(&messages(&["m0"])))
            .await
            .unwrap();
        drop((conversation, store));
        let rebuilt = async || {
            fs.put(&dir.join(layout::METADATA), b"{");
            open().instances().await.unwrap().remove(0).narrowing
        };
        assert_eq!(rebuilt().await, Some(narrowing));
        // Where not even that can be read, nothing may run.
        fs.put(&dir.join("extensions/gdn.narrowing.json"), b"[");
        assert_eq!(rebuilt().await, Some(Narrowing::to([""; 0])));
    }

    #[test]
    fn what_was_only_spawned_survives_a_power_failure() {
        let fs = SimFs::new();
        let (workspace, meta) = (Path::new("/workspace"), meta(&instance("spawned")));
        let dir = layout::instance_dir(workspace, &meta.id());
        // As the inbox leaves it, once an event was accepted.
        fs.make_folder(&workspace.join(layout::INSTANCES)).unwrap();
        [Path::new("/"), workspace]
            .iter()
            .for_each(|folder| fs.sync_folder(folder).unwrap());
        put_meta(&Disk::new(Arc::new(fs.clone())), &dir, &meta).unwrap();
        let fs = fs.lose_power(None);
        assert_eq!(
            list(&Disk::new(Arc::new(fs.clone())), workspace).unwrap(),
            std::slice::from_ref(&meta)
        );
        // It retires, and the power fails again.
        let retired = InstanceMeta {
            status: InstanceStatus::Retired,
            ..meta
        };
        put_meta(&Disk::new(Arc::new(fs.clone())), &dir, &retired).unwrap();
        let fs = fs.lose_power(None);
        assert_eq!(
            list(&Disk::new(Arc::new(fs)), workspace).unwrap(),
            [retired]
        );
    }
}
