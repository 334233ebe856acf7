//! `fs`: reads, searches and changes files of the working directory, with one module per export.

mod edit;
mod file_walk;
mod glob;
mod grep;
mod line_reader;
mod ls;
mod patch;
mod read;
mod search;
mod write;

use std::sync::Arc;

use goondan_spec::kinds::Permission::{Read, Write};
use serde_json::Value;

use crate::builtin_tool::BuiltinTool;
use crate::paths::FileToolSettings;
use crate::tool_operation::ToolExport;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "fs",
    about: "Reads, searches and changes files inside the working directory.",
    config: FileToolSettings::CONFIG_KEYS,
    error_message_limit: Some(2000),
    // Large enough for the largest page of a file with line numbers.
    output_limit: Some(600_000),
    open: |opening| {
        let roots: Arc<FileToolSettings> = Arc::new(opening.config()?);
        Ok(vec![
            ToolExport::new::<read::ReadFilePage>("read", &roots)
                .with_permission(Read)
                .read_only(),
            // Shows a change of another conversation only if the call may read.
            ToolExport::new::<write::WriteWholeFile>("write", &roots)
                .with_permission(Write)
                .with_optional_permission(Read)
                .idempotent(),
            // The results and errors of both show lines of the files.
            ToolExport::new::<edit::EditFile>("edit", &roots)
                .with_permission(Read)
                .with_permission(Write),
            ToolExport::new::<patch::ApplyPatch>("apply_patch", &roots)
                .with_permission(Read)
                .with_permission(Write),
            ToolExport::new::<grep::GrepFiles>("grep", &roots)
                .with_permission(Read)
                .read_only(),
            ToolExport::new::<glob::GlobFiles>("glob", &roots)
                .with_permission(Read)
                .read_only(),
            ToolExport::new::<ls::ListFolder>("ls", &roots)
                .with_permission(Read)
                .read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// Adds a warning of the stale-write guard to the result of a write.
pub(crate) fn with_warning(mut output: Value, warning: Option<String>) -> Value {
    if let Some(warning) = warning {
        output["warning"] = Value::from(warning);
    }
    output
}

/// The working directory, which is the default path.
fn default_path() -> String {
    ".".to_owned()
}
