//! `fs__ls`: lists a directory.

use std::ffi::OsString;

use goondan_core::nofollow_fs::{DirectoryEntryKind, EntryMetadata};
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::PATH_FORMAT;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::errors::{self, run_blocking};
use crate::paths::FileToolSettings;
use crate::tool_operation::{ToolOperation, titled_output};

/// Maximum number of entries in a result.
const MAX_LISTED_ENTRIES: usize = 1_000;

/// List a directory: names with type and size, directories first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFolder {
    /// The directory, relative to the working directory; `.` for the working directory itself.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
}

impl ToolOperation for ListFolder {
    type Shared = FileToolSettings;

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let root = roots.file_root(ctx)?;
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let entries = root
                .open_directory(&resolved)
                .and_then(|directory| directory.entries())
                .map_err(|error| errors::io_error(format_args!("list `{}`", self.path), &error))?;
            let mut entries: Vec<(bool, String, Value)> =
                entries.into_iter().map(describe_entry).collect();
            entries.sort_by(|left, right| (!left.0, &left.1).cmp(&(!right.0, &right.1)));
            let total = entries.len();
            let listed_entries: Vec<Value> = entries
                .into_iter()
                .take(MAX_LISTED_ENTRIES)
                .map(|(_, _, entry)| entry)
                .collect();
            let mut output =
                json!({"path": root.display_path(&resolved.path), "count": total, "entries": listed_entries});
            if total > MAX_LISTED_ENTRIES {
                output["note"] = json!(format!(
                    "the first {MAX_LISTED_ENTRIES} of {total} entries; use fs__glob to find the others"
                ));
            }
            Ok(titled_output(format!("Listed {} ({total})", self.path), output))
        })
        .await
    }
}

/// Returns true if the entry is a directory, its name, and its JSON.
fn describe_entry((name, metadata): (OsString, EntryMetadata)) -> (bool, String, Value) {
    let name = name.to_string_lossy().into_owned();
    let json = match metadata.kind {
        DirectoryEntryKind::Folder => json!({"name": name, "type": "dir"}),
        DirectoryEntryKind::File => json!({"name": name, "type": "file", "size": metadata.size}),
        DirectoryEntryKind::Link => json!({"name": name, "type": "link"}),
        DirectoryEntryKind::Other => json!({"name": name, "type": "other"}),
    };
    (metadata.kind == DirectoryEntryKind::Folder, name, json)
}
