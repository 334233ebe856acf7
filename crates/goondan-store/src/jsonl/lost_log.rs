//! Detects a workspace whose log is lost, while conversations that it served are still there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layout;
use crate::fs::FileSystem;
use goondan_core::ports::store::StoreError;

/// The workspace has conversations, but the log is missing or empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the workspace has conversations, but its log {} is missing or empty: accepted events and \
    results may be lost",
    path.display()
)]
pub struct LostLog {
    /// Path of the log.
    pub path: PathBuf,
}

/// Fails with [`LostLog`] if a turn was finished or begun in a conversation. Imported conversations
/// do not count: an import creates no log.
pub(super) fn check(fs: &dyn FileSystem, workspace: &Path) -> Result<(), StoreError> {
    let instances = workspace.join(layout::INSTANCES);
    let folders = fs
        .subdirectories(&instances)
        .map_err(|cause| StoreError::file("list", &instances, cause))?;
    match folders.iter().any(|folder| had_turn(fs, folder)) {
        true => Err(StoreError::Other(Arc::new(LostLog {
            path: workspace.join(layout::INBOX),
        }))),
        false => Ok(()),
    }
}

/// Returns true if the directory contains messages and runtime events. Calls without a turn leave
/// only runtime events.
fn had_turn(fs: &dyn FileSystem, folder: &Path) -> bool {
    let has_content = |name: &&str| {
        fs.file_len(&folder.join(name))
            .is_ok_and(|length| length.is_some_and(|length| length > 0))
    };
    let events = [layout::RUNTIME_EVENTS, layout::OLDER_RUNTIME_EVENTS];
    let messages = [layout::BASE, layout::EVENTS];
    events.iter().any(has_content) && messages.iter().any(has_content)
}
