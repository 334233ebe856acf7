//! `fs__write`: creates a file or replaces its contents.

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::PATH_FORMAT;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::atomic_write::{diff, read_text, replace};
use crate::diff::DiffStat;
use crate::errors::blocking;
use crate::paths::ExtraRoots;
use crate::tool_operation::{ToolOperation, titled};

/// Create a file or replace its whole content. Missing parent directories are created.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteWholeFile {
    /// The file, relative to the working directory.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
    /// The whole new content.
    content: String,
}

impl ToolOperation for WriteWholeFile {
    type Shared = ExtraRoots;

    async fn preview(
        self,
        ctx: &ToolContext,
        roots: &ExtraRoots,
    ) -> Result<Option<String>, ToolError> {
        let root = roots.of(ctx)?;
        blocking(move || {
            let place = root.resolve(&self.path)?;
            let before = if place.path.exists() {
                read_text(&root, &place)?
            } else {
                String::new()
            };
            Ok(Some(diff(&place.given, &before, &self.content)))
        })
        .await
    }

    async fn run(self, ctx: &ToolContext, roots: &ExtraRoots) -> Result<ToolOutput, ToolError> {
        let root = roots.of(ctx)?;
        blocking(move || {
            let place = root.resolve(&self.path)?;
            root.create_parents(&place)?;
            let created = !place.path.exists();
            // If the previous contents are not text or too large, lines are not counted.
            let before = if created { Some(String::new()) } else { read_text(&root, &place).ok() };
            replace(&root, &place, self.content.as_bytes())?;
            let output = json!({"path": root.relative(&place.path), "bytes": self.content.len(), "created": created});
            let metadata = before.map(|before| DiffStat::of_texts(&before, &self.content).metadata()).unwrap_or_default();
            Ok(ToolOutput { metadata, ..titled(format!("Wrote {}", place.given), output) })
        })
        .await
    }
}
