//! Events whose turns failed: one JSON file an instance, written as a whole. It is short, and changes only when a turn
//! fails or somebody has one tried again.

use std::path::Path;

use super::disk::Disk;
use super::layout;
use crate::fs::FileSystem;
use goondan_core::ports::store::{DeadLetter, StoreError};

/// The list; empty where there is none.
pub(super) fn read(fs: &dyn FileSystem, instance: &Path) -> Result<Vec<DeadLetter>, StoreError> {
    let path = instance.join(layout::DEAD_LETTERS);
    let read = fs.read_if_there(&path).map_err(|cause| StoreError::new("read", &path, &cause))?;
    let Some(bytes) = read else { return Ok(Vec::new()) };
    serde_json::from_slice(&bytes).map_err(|cause| StoreError::new("understand", &path, &cause))
}

/// Puts `letters` in place of the list.
pub(super) fn write(disk: &Disk, instance: &Path, letters: &[DeadLetter]) -> Result<(), StoreError> {
    let path = instance.join(layout::DEAD_LETTERS);
    let write = || {
        let mut bytes = serde_json::to_vec_pretty(letters)?;
        bytes.push(b'\n');
        disk.replace(&path, &bytes)?;
        disk.put_name(&path, layout::DEPTH)
    };
    write().map_err(|cause| StoreError::new("write", &path, &cause))
}
