//! `fs__apply_patch`: changes several files atomically.

mod apply;
mod parse;

use std::collections::BTreeSet;
use std::path::PathBuf;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::PATCH_FORMAT;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::parse::PatchAction;
use crate::atomic_write::{copy_mode, diff, read_text, remove, replace};
use crate::diff::DiffStat;
use crate::errors::blocking;
use crate::paths::{ExtraRoots, FileRoot, ResolvedPath};
use crate::tool_operation::{ToolOperation, titled};

/// Change several files at once; if one part does not match, nothing changes. Patch format:
/// `*** Begin Patch`, then for each file `*** Add File: PATH` with lines that begin with `+`, or
/// `*** Delete File: PATH`, or `*** Update File: PATH` (and `*** Move to: PATH` to rename it) with
/// hunks; then `*** End Patch`. A hunk begins with `@@` and, optionally, a line at or before the
/// change; its lines begin with a space (unchanged), `-` (removed) or `+` (added). Show three
/// unchanged lines around a change.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyPatch {
    /// The patch, from `*** Begin Patch` to `*** End Patch`. Paths are relative to the working directory.
    #[schemars(length(min = 1), extend("format" = PATCH_FORMAT))]
    patch: String,
}

impl ToolOperation for ApplyPatch {
    type Shared = ExtraRoots;

    async fn preview(
        self,
        ctx: &ToolContext,
        roots: &ExtraRoots,
    ) -> Result<Option<String>, ToolError> {
        let root = roots.of(ctx)?;
        blocking(move || {
            let changes = self.changes(&root)?;
            Ok(Some(
                changes.iter().map(PlannedFileChange::preview).collect(),
            ))
        })
        .await
    }

    async fn run(self, ctx: &ToolContext, roots: &ExtraRoots) -> Result<ToolOutput, ToolError> {
        let root = roots.of(ctx)?;
        blocking(move || {
            let changes = self.changes(&root)?;
            apply_changes(&root, &changes)?;
            let files: Vec<Value> = changes.iter().map(|change| change.report(&root)).collect();
            let sum = |count: fn(&PlannedFileChange) -> usize| changes.iter().map(count).sum();
            let stat = DiffStat {
                added: sum(|change| change.added),
                removed: sum(|change| change.removed),
            };
            let output = titled(
                format!("Patched {} files", files.len()),
                json!({"files": files}),
            );
            Ok(ToolOutput {
                metadata: stat.metadata(),
                ..output
            })
        })
        .await
    }
}

impl ApplyPatch {
    /// Plans all changes of the patch. Fails if one of them is impossible.
    fn changes(&self, root: &FileRoot) -> Result<Vec<PlannedFileChange>, ToolError> {
        let sections = parse::parse(&self.patch).map_err(patch_syntax_error)?;
        let changes = sections
            .into_iter()
            .map(|section| plan(root, section.path, section.action));
        let changes: Vec<PlannedFileChange> = changes.collect::<Result<_, _>>()?;
        no_path_twice(&changes)?;
        Ok(changes)
    }
}

/// A planned change of one file. All changes are planned before any file is touched.
struct PlannedFileChange {
    place: ResolvedPath,
    /// The current contents; `None` for a new file.
    before: Option<String>,
    /// The new path and contents; `None` if the file is deleted.
    after: Option<(ResolvedPath, String)>,
    added: usize,
    removed: usize,
}

/// Plans the change of one section.
fn plan(
    root: &FileRoot,
    path: String,
    action: PatchAction,
) -> Result<PlannedFileChange, ToolError> {
    let place = root.resolve(&path)?;
    match action {
        PatchAction::Add { lines } => {
            must_be_free(&place)?;
            let content: String = lines
                .iter()
                .flat_map(|line| [line.as_str(), "\n"])
                .collect();
            let (added, after) = (lines.len(), Some((place.clone(), content)));
            Ok(PlannedFileChange {
                place,
                before: None,
                after,
                added,
                removed: 0,
            })
        }
        PatchAction::Delete => {
            let before = read_text(root, &place)?;
            let removed = before.lines().count();
            Ok(PlannedFileChange {
                place,
                before: Some(before),
                after: None,
                added: 0,
                removed,
            })
        }
        PatchAction::Update { move_to, hunks } => {
            let before = read_text(root, &place)?;
            let content = apply::apply(&before, &hunks).map_err(|problem| {
                ToolError::new(format!(
                    "the patch does not match `{path}`: {problem}; nothing was changed"
                ))
                .code(Code::TOOL_PATCH)
                .suggest("read the file again, and copy the unchanged and removed lines exactly")
            })?;
            let target = match move_to {
                Some(to) => resolve_free_path(root, &to)?,
                None => place.clone(),
            };
            let count = |sign| {
                hunks
                    .iter()
                    .flat_map(|hunk| &hunk.lines)
                    .filter(|line| line.sign == sign)
                    .count()
            };
            let (added, removed) = (
                count(parse::HunkLineKind::Added),
                count(parse::HunkLineKind::Removed),
            );
            Ok(PlannedFileChange {
                place,
                before: Some(before),
                after: Some((target, content)),
                added,
                removed,
            })
        }
    }
}

/// Resolves `path`. Fails if it exists.
fn resolve_free_path(root: &FileRoot, path: &str) -> Result<ResolvedPath, ToolError> {
    let place = root.resolve(path)?;
    must_be_free(&place)?;
    Ok(place)
}

/// Fails if the path exists.
fn must_be_free(place: &ResolvedPath) -> Result<(), ToolError> {
    if place.path.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(ToolError::new(format!(
        "`{}` already exists; nothing was changed",
        place.given
    ))
    .code(Code::TOOL_PATCH)
    .suggest("use `*** Update File:` to change an existing file"))
}

/// Refuses several sections for the same file, because each is planned independently.
fn no_path_twice(changes: &[PlannedFileChange]) -> Result<(), ToolError> {
    let mut seen: BTreeSet<&PathBuf> = BTreeSet::new();
    for change in changes {
        let target = change
            .after
            .as_ref()
            .map(|(place, _)| place)
            .filter(|target| target.path != change.place.path);
        for place in [Some(&change.place), target].into_iter().flatten() {
            if !seen.insert(&place.path) {
                let message = format!(
                    "`{}` is in the patch twice; nothing was changed",
                    place.given
                );
                return Err(ToolError::new(message)
                    .code(Code::TOOL_PATCH)
                    .suggest("put all hunks of a file into one section"));
            }
        }
    }
    Ok(())
}

/// Makes all changes. If one fails, the previous ones are undone.
fn apply_changes(root: &FileRoot, changes: &[PlannedFileChange]) -> Result<(), ToolError> {
    for (index, change) in changes.iter().enumerate() {
        if let Err(error) = change.make(root) {
            for done in changes[..=index].iter().rev() {
                done.undo(root);
            }
            return Err(error);
        }
    }
    Ok(())
}

impl PlannedFileChange {
    /// Makes the change.
    fn make(&self, root: &FileRoot) -> Result<(), ToolError> {
        if let Some((target, content)) = &self.after {
            root.create_parents(target)?;
            replace(root, target, content.as_bytes())?;
            if target.path == self.place.path {
                return Ok(());
            }
            copy_mode(root, &self.place, target)?;
        }
        if self.before.is_some() {
            remove(root, &self.place)
        } else {
            Ok(())
        }
    }

    /// Restores the original state as far as possible.
    fn undo(&self, root: &FileRoot) {
        if let Some((target, _)) = self
            .after
            .as_ref()
            .filter(|(target, _)| target.path != self.place.path || self.before.is_none())
        {
            let _ = remove(root, target);
        }
        if let Some(before) = &self.before {
            let _ = replace(root, &self.place, before.as_bytes());
        }
    }

    /// Returns the change as a diff.
    fn preview(&self) -> String {
        let (before, after) = (
            self.before.as_deref().unwrap_or_default(),
            self.after.as_ref(),
        );
        let moved = after.filter(|(target, _)| target.path != self.place.path);
        let moved = moved
            .map(|(target, _)| format!("{} is renamed to {}\n", self.place.given, target.given));
        let text = after.map(|(_, text)| text.as_str()).unwrap_or_default();
        moved.unwrap_or_default() + &diff(&self.place.given, before, text)
    }

    /// Returns the JSON of the change for the model.
    fn report(&self, root: &FileRoot) -> Value {
        let action = match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "deleted",
            (_, Some((target, _))) if target.path == self.place.path => "updated",
            _ => "moved",
        };
        let mut report = json!({
            "path": root.relative(&self.place.path), "action": action, "added": self.added, "removed": self.removed,
        });
        if let (Some((target, _)), "moved") = (&self.after, action) {
            report["to"] = json!(root.relative(&target.path));
        }
        report
    }
}

/// Creates the error for an invalid patch.
fn patch_syntax_error(problem: parse::PatchSyntaxError) -> ToolError {
    ToolError::new(format!(
        "the patch is invalid: line {}: {}",
        problem.line, problem.message
    ))
    .code(Code::TOOL_PATCH)
    .suggest(
        "write `*** Begin Patch`, sections such as `*** Update File: a.txt` with `@@` \
            hunks, `*** End Patch`",
    )
}
