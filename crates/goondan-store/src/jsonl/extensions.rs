//! What extensions keep for an instance: one JSON file each.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::disk::Disk;
use super::layout;
use crate::fs::FileSystem;
use goondan_core::ports::store::StoreError;

/// A file that is no JSON was edited by hand: it is told and counts as missing, so that the agent goes on.
pub(super) fn read(fs: &dyn FileSystem, instance: &Path, extension: &str) -> Result<Option<Value>, StoreError> {
    let path = path(instance, extension);
    let read = fs.read_if_there(&path).map_err(|cause| StoreError::new("read", &path, &cause))?;
    let Some(bytes) = read else { return Ok(None) };
    let parsed = serde_json::from_slice(&bytes);
    Ok(parsed.inspect_err(|error| tracing::warn!(path = %path.display(), %error, "no JSON; it counts as missing")).ok())
}

/// Whether anything is kept, readable or not.
pub(super) fn exists(fs: &dyn FileSystem, instance: &Path, extension: &str) -> bool {
    fs.exists(&path(instance, extension))
}

pub(super) fn write(disk: &Disk, instance: &Path, extension: &str, state: &Value) -> Result<(), StoreError> {
    let path = path(instance, extension);
    let written = disk.replace(&path, format!("{state:#}\n").as_bytes());
    let named = written.and_then(|()| disk.put_name(&path, layout::DEPTH));
    named.map_err(|cause| StoreError::new("write", &path, &cause))
}

fn path(instance: &Path, extension: &str) -> PathBuf {
    instance.join(layout::EXTENSIONS).join(format!("{}.json", layout::file_name(extension)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::fs::sim::SimFs;

    const DIR: &str = "/instances/a/";

    #[test]
    fn what_is_written_is_read_again_after_a_power_failure() {
        let fs = SimFs::new();
        assert_eq!(read(&fs, Path::new(DIR), "tool-search"), Ok(None));
        write(&Disk::new(Arc::new(fs.clone())), Path::new(DIR), "tool-search", &json!({"selectedTools": ["a__b"]}))
            .unwrap();
        fs.sync_folder(Path::new("/")).unwrap();
        let fs = fs.lose_power(None);
        assert_eq!(read(&fs, Path::new(DIR), "tool-search"), Ok(Some(json!({"selectedTools": ["a__b"]}))));
        assert!(fs.exists(&Path::new(DIR).join("extensions/tool-search.json")));
    }

    #[test]
    fn a_broken_file_counts_as_missing() {
        let fs = SimFs::new();
        fs.put(&Path::new(DIR).join("extensions/x.json"), b"{");
        assert_eq!(read(&fs, Path::new(DIR), "x"), Ok(None));
    }
}
