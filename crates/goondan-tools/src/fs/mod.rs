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

use crate::builtin_tool::BuiltinTool;
use crate::paths::ExtraRoots;
use crate::tool_operation::ToolExport;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "fs",
    about: "Reads, searches and changes files inside the working directory.",
    config: ExtraRoots::ROOTS_CONFIG_KEY,
    error_message_limit: Some(2000),
    // Large enough for the largest page of a file with line numbers.
    output_limit: Some(600_000),
    open: |opening| {
        let roots: Arc<ExtraRoots> = Arc::new(opening.config()?);
        Ok(vec![
            ToolExport::new::<read::ReadFilePage>("read", &roots)
                .needs(Read)
                .read_only(),
            ToolExport::new::<write::WriteWholeFile>("write", &roots)
                .needs(Write)
                .idempotent(),
            ToolExport::new::<edit::EditFile>("edit", &roots).needs(Write),
            ToolExport::new::<patch::ApplyPatch>("apply_patch", &roots).needs(Write),
            ToolExport::new::<grep::GrepFiles>("grep", &roots)
                .needs(Read)
                .read_only(),
            ToolExport::new::<glob::GlobFiles>("glob", &roots)
                .needs(Read)
                .read_only(),
            ToolExport::new::<ls::ListFolder>("ls", &roots)
                .needs(Read)
                .read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

/// The working directory, which is the default path.
fn here() -> String {
    ".".to_owned()
}
