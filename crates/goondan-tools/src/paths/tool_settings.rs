//! Config of the file tools: additional directories, and the treatment of stale writes.

use std::path::PathBuf;

use goondan_core::ports::tool::{HandlerError, ToolContext};
use serde::Deserialize;

use super::FileRoot;
use crate::configured_directory::configured_directory;
use crate::file_changes::{StaleWriteGuard, StaleWritePolicy};

/// Config of a file tool.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FileToolSettings {
    /// Additional directories that the tool may access. Relative paths start at the project; `~/`
    /// is the home directory.
    #[serde(default)]
    roots: Vec<String>,
    /// Treatment of a write to a file that another conversation has changed.
    #[serde(default)]
    stale_writes: StaleWritePolicy,
}

impl FileToolSettings {
    /// The keys for the documentation.
    pub(crate) const CONFIG_KEYS: &[(&str, &str)] = &[
        (
            "roots",
            "a list of directories, relative to the project or starting with `~/`, that calls may \
            use by absolute path in addition to the working directory",
        ),
        (
            "staleWrites",
            "effect of a write to a file that another conversation has changed since this \
            one read it: `deny` (default; `E_TOOL_STALE` shows the change), `warn` (the result \
            shows the change) or `allow`",
        ),
    ];

    /// Returns the stale-write guard for the conversation of a call.
    pub(crate) fn stale_write_guard(&self, ctx: &ToolContext) -> StaleWriteGuard {
        StaleWriteGuard::from_context(ctx, self.stale_writes)
    }

    /// Returns the permitted directories of a call. Missing directories are ignored.
    ///
    /// # Errors
    ///
    /// Fails if a link in the project leads to a directory: an agent could have made it.
    pub(crate) fn file_root(&self, ctx: &ToolContext) -> Result<FileRoot, HandlerError> {
        self.with_others(ctx, FileRoot::from_context(ctx)?)
    }

    /// Returns the permitted directories for the preview of a call.
    ///
    /// # Errors
    ///
    /// See [`FileToolSettings::of`] and [`FileRoot::for_preview`].
    pub(crate) fn for_preview(&self, ctx: &ToolContext) -> Result<FileRoot, HandlerError> {
        self.with_others(ctx, FileRoot::for_preview(ctx)?)
    }

    /// Adds the configured directories to a root.
    fn with_others(&self, ctx: &ToolContext, root: FileRoot) -> Result<FileRoot, HandlerError> {
        let roots = self.roots.iter();
        let other_roots: Vec<Option<PathBuf>> = roots
            .map(|root| configured_directory(ctx, root))
            .collect::<Result<_, _>>()?;
        Ok(FileRoot {
            others: other_roots
                .into_iter()
                .flatten()
                .filter(|root| root.is_dir())
                .collect(),
            ..root
        })
    }
}
