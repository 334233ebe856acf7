//! `fs__write`: creates a file or replaces its contents.

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::PATH_FORMAT;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::with_warning;
use crate::diff::DiffStat;
use crate::errors::run_blocking;
use crate::file_changes::{FileChangeLock, diff, read_text, replace};
use crate::paths::FileToolSettings;
use crate::tool_operation::{ToolOperation, titled_output};

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
    type Shared = FileToolSettings;

    async fn preview(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<Option<String>, HandlerError> {
        let root = roots.for_preview(ctx)?;
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let before = if resolved.path.exists() {
                read_text(&root, &resolved)?
            } else {
                String::new()
            };
            Ok(Some(diff(&resolved.given, &before, &self.content)))
        })
        .await
    }

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let (root, guard) = (roots.file_root(ctx)?, roots.stale_write_guard(ctx));
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let _lock = FileChangeLock::acquire_to_write([&resolved])?;
            root.create_parents(&resolved)?;
            let created = !resolved.path.exists();
            // If the previous contents are not text or too large, lines are not counted.
            let before = if created {
                Some(String::new())
            } else {
                read_text(&root, &resolved).ok()
            };
            let warning = match before.as_deref().filter(|_| !created) {
                Some(before) => guard.check(&resolved, before)?,
                None => None,
            };
            replace(&root, &resolved, self.content.as_bytes())?;
            guard.note_written(&resolved.path, &self.content);
            let (path, bytes) = (root.display_path(&resolved.path), self.content.len());
            let output = json!({"path": path, "bytes": bytes, "created": created});
            let output = with_warning(output, warning);
            let metadata = before
                .map(|before| DiffStat::of_texts(&before, &self.content).metadata())
                .unwrap_or_default();
            Ok(ToolOutput {
                metadata,
                ..titled_output(format!("Wrote {}", resolved.given), output)
            })
        })
        .await
    }
}
