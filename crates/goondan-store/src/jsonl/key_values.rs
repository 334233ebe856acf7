//! Records, stored as one JSON file each.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::layout;
use super::synced_disk::SyncedDisk;
use crate::fs::FileSystem;
use goondan_core::ports::store::{DEAD_LETTERS_RECORD, RecordVersion, StoreError, VersionedRecord};

/// Reads a record. An invalid file was edited by hand: it is logged and counts as missing, so that
/// the agent continues.
pub(super) fn read(
    fs: &dyn FileSystem,
    instance: &Path,
    name: &str,
) -> Result<Option<VersionedRecord>, StoreError> {
    let path = path(instance, name);
    let read = fs
        .read_if_there(&path)
        .map_err(|cause| StoreError::file("read", &path, cause))?;
    let Some(bytes) = read else { return Ok(None) };
    let parsed = serde_json::from_slice(&bytes);
    let parsed = parsed.inspect_err(|error| {
        tracing::warn!(path = %path.display(), %error, "invalid JSON; the record counts as \
            missing")
    });
    Ok(parsed.ok().map(|value| VersionedRecord {
        value,
        version: version(&bytes),
    }))
}

/// Returns true if a record exists, readable or not.
pub(super) fn exists(fs: &dyn FileSystem, instance: &Path, name: &str) -> bool {
    fs.exists(&path(instance, name))
}

/// Writes a record durably. Fails if the file or its directory entry cannot be synced.
pub(super) fn write(
    disk: &SyncedDisk,
    instance: &Path,
    name: &str,
    value: &Value,
) -> Result<(), StoreError> {
    let path = path(instance, name);
    disk.replace(&path, format!("{value:#}\n").as_bytes())
        .and_then(|()| disk.sync_directories(&path, layout::INSTANCE_FILE_DEPTH))
        .map_err(|cause| StoreError::file("write", &path, cause))
}

/// Equal contents have the same version, because replacing equal contents loses nothing.
fn version(bytes: &[u8]) -> RecordVersion {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn path(instance: &Path, name: &str) -> PathBuf {
    match name {
        DEAD_LETTERS_RECORD => instance.join(layout::DEAD_LETTERS),
        name => instance
            .join(layout::EXTENSIONS)
            .join(format!("{}.json", layout::file_name(name))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::fs::sim::SimFs;

    const DIR: &str = "/instances/a/";

    fn value(fs: &SimFs, name: &str) -> Option<Value> {
        read(fs, Path::new(DIR), name)
            .unwrap()
            .map(|record| record.value)
    }

    #[test]
    fn a_written_record_survives_a_power_failure() {
        let fs = SimFs::new();
        assert_eq!(value(&fs, "tool-search"), None);
        write(
            &SyncedDisk::new(Arc::new(fs.clone())),
            Path::new(DIR),
            "tool-search",
            &json!({"selectedTools": ["a__b"]}),
        )
        .unwrap();
        fs.sync_folder(Path::new("/")).unwrap();
        let fs = fs.lose_power(None);
        assert_eq!(
            value(&fs, "tool-search"),
            Some(json!({"selectedTools": ["a__b"]}))
        );
        assert!(fs.exists(&Path::new(DIR).join("extensions/tool-search.json")));
    }

    #[test]
    fn an_invalid_file_counts_as_missing() {
        let fs = SimFs::new();
        fs.put(&Path::new(DIR).join("extensions/x.json"), b"{");
        assert_eq!(value(&fs, "x"), None);
    }
}
