//! `fs__glob`: finds files by name.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::PATH_FORMAT;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::file_walk::{PathGlob, files};
use crate::errors::{self, run_blocking};
use crate::paths::FileToolSettings;
use crate::tool_operation::{ToolOperation, titled_output};

/// Maximum number of files in a result.
const MAX_GLOB_FILES: usize = 200;

/// Find files by glob, newest first. Skips hidden files and files that git ignores.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GlobFiles {
    /// The glob, such as `**/*.rs`; without a slash it matches only the name.
    #[schemars(length(min = 1))]
    pattern: String,
    /// The directory to search, relative to the working directory.
    #[serde(default = "super::default_path")]
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
}

impl ToolOperation for GlobFiles {
    type Shared = FileToolSettings;

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let root = roots.file_root(ctx)?;
        let cancellation = ctx.cancellation.clone();
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let glob = PathGlob::new(&root, &resolved.path, &self.pattern)?;
            root.open_directory(&resolved).map_err(|error| {
                errors::io_error(format_args!("search `{}`", self.path), &error)
            })?;
            let matches_glob =
                |file: &Path| glob.matches(file.strip_prefix(&resolved.path).unwrap_or(file));
            let matching_files = files(&root, &resolved.path, &cancellation, matches_glob);
            let mut newest_first: Vec<(Reverse<SystemTime>, PathBuf)> = matching_files
                .into_iter()
                .filter_map(|file| Some((Reverse(root.look_at_found(&file)?.modified), file)))
                .collect();
            newest_first.sort();
            let total = newest_first.len();
            let newest: Vec<_> = newest_first
                .iter()
                .take(MAX_GLOB_FILES)
                .map(|(_, file)| root.display_path(file))
                .collect();
            let output =
                json!({"count": total, "files": newest, "truncated": total > MAX_GLOB_FILES});
            Ok(titled_output(format!("Found {total} files"), output))
        })
        .await
    }
}
