//! Order of the calls in one answer that touch the same files.
//!
//! Calls of an answer run at the same time. A call that changes a file runs after the earlier calls
//! that use the file, and before the later ones.

use std::path::{Path, PathBuf};

use goondan_core::message::ToolCall;
use goondan_core::patch_headers;
use goondan_core::real_path::real_path;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::tooling::registry::{RegisteredTool, ToolCatalog};

/// Maximum compared paths of one call. A call with more waits for all earlier calls.
const MAX_COMPARED_PATHS: usize = 100;

/// Order of the calls of an answer.
pub(crate) struct CallOrder {
    /// Fires when the call with this index has ended.
    ended: Vec<CancellationToken>,
    /// Indexes of the earlier calls that each call waits for. Empty if no call waits.
    waits_for: Vec<Vec<usize>>,
}

impl CallOrder {
    /// Compares the paths of the calls on a thread that may block, because it follows links.
    pub(crate) async fn for_calls(
        calls: &[ToolCall],
        catalog: &ToolCatalog,
        workdir: &Path,
    ) -> CallOrder {
        let usages: Vec<FileUsage> = calls
            .iter()
            .map(|call| match catalog.get(&call.tool_name) {
                Some(tool) => FileUsage::for_call(tool, call, workdir),
                None => FileUsage::default(),
            })
            .collect();
        let may_conflict = usages.iter().filter(|usage| usage.uses_files()).count() > 1
            && usages.iter().any(|usage| usage.changes);
        let waits_for = if may_conflict {
            tokio::task::spawn_blocking(|| find_conflicts(usages)).await
        } else {
            Ok(Vec::new())
        };
        CallOrder {
            ended: calls.iter().map(|_| CancellationToken::new()).collect(),
            waits_for: waits_for.unwrap_or_default(),
        }
    }

    /// Waits until the call at `index` may start. The call has ended when the guard is dropped.
    pub(crate) async fn start(&self, index: usize) -> DropGuard {
        for earlier in self.waits_for.get(index).into_iter().flatten() {
            self.ended[*earlier].cancelled().await;
        }
        self.ended[index].clone().drop_guard()
    }
}

/// Files that a call uses.
#[derive(Default)]
struct FileUsage {
    paths: Vec<PathBuf>,
    /// True if the call may change the files.
    changes: bool,
    /// True if the call has more than [`MAX_COMPARED_PATHS`] paths.
    is_wide: bool,
}

impl FileUsage {
    /// Returns the paths in the arguments of a call, without following links.
    fn for_call(tool: &RegisteredTool, call: &ToolCall, workdir: &Path) -> FileUsage {
        let marked = &tool.marked_arguments;
        let argument = |name: &String| {
            let default = tool.spec.parameters.get("properties")?.get(name)?;
            call.input.get(name).or_else(|| default.get("default"))
        };
        // The working directory of a command says nothing about the files that it uses.
        let named_paths = marked
            .paths
            .iter()
            .filter(|name| !marked.folders.contains(name))
            .chain(&marked.trees)
            .filter_map(argument)
            .flat_map(argument_strings);
        let patched = marked
            .patches
            .iter()
            .filter_map(argument)
            .flat_map(argument_strings)
            .flat_map(patch_headers::paths);
        let paths: Vec<PathBuf> = named_paths
            .chain(patched)
            .take(MAX_COMPARED_PATHS + 1)
            .map(|path| workdir.join(path))
            .collect();
        FileUsage {
            is_wide: paths.len() > MAX_COMPARED_PATHS,
            changes: !tool.spec.read_only && !paths.is_empty(),
            paths,
        }
    }

    fn uses_files(&self) -> bool {
        !self.paths.is_empty()
    }

    fn conflicts_with(&self, other: &FileUsage) -> bool {
        let overlaps = |path: &PathBuf| {
            let mut other_paths = other.paths.iter();
            other_paths.any(|other| path.starts_with(other) || other.starts_with(path))
        };
        let both_use_files = self.uses_files() && other.uses_files();
        (self.changes || other.changes)
            && both_use_files
            && (self.is_wide || other.is_wide || self.paths.iter().any(overlaps))
    }
}

/// Returns the strings of an argument: itself, or the elements of a list.
fn argument_strings(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().into_iter().flatten();
    value
        .as_str()
        .into_iter()
        .chain(list.filter_map(Value::as_str))
}

/// Follows the links in all paths, and returns the indexes of the earlier calls that each call
/// conflicts with. A path that cannot be resolved stays as it is.
fn find_conflicts(mut usages: Vec<FileUsage>) -> Vec<Vec<usize>> {
    for path in usages.iter_mut().flat_map(|usage| &mut usage.paths) {
        if let Ok(real) = real_path(path) {
            *path = real;
        }
    }
    let earlier_conflicts = |(index, usage): (usize, &FileUsage)| {
        let earlier = usages[..index].iter().enumerate();
        let conflicting = earlier.filter(|(_, other)| usage.conflicts_with(other));
        conflicting.map(|(earlier, _)| earlier).collect()
    };
    usages.iter().enumerate().map(earlier_conflicts).collect()
}
