//! `fs__apply_patch`: changes several files atomically.

mod apply;
mod parse;

use std::collections::BTreeSet;
use std::path::PathBuf;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::PATCH_FORMAT;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::parse::{FilePatch, PatchAction, PatchHunk};
use super::with_warning;
use crate::diff::DiffStat;
use crate::errors::run_blocking;
use crate::file_changes::{
    FileChangeLock, StaleWriteGuard, copy_mode, create, create_symlink, diff, read_text, remove,
    remove_if_current, remove_symlink, replace, replace_if_current, retry_while_stale,
};
use crate::paths::{FileRoot, FileToolSettings, ResolvedPath};
use crate::tool_operation::{ToolOperation, titled_output};

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
    type Shared = FileToolSettings;

    async fn preview(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<Option<String>, HandlerError> {
        let root = roots.for_preview(ctx)?;
        run_blocking(move || {
            let changes = plan_all(&root, &self.parse_sections()?)?;
            Ok(Some(
                changes.iter().map(PlannedFileChange::to_diff).collect(),
            ))
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
            let sections = self.parse_sections()?;
            let paths = changed_paths(&root, &sections)?;
            let _lock = FileChangeLock::acquire_to_write(&paths)?;
            let mut warnings = Vec::new();
            let changes = retry_while_stale(&paths, || {
                let changes = plan_all(&root, &sections)?;
                warnings.extend(check_all(&guard, &changes)?);
                Ok(apply_all(&root, &changes)?.then_some(changes))
            })?;
            note_all(&guard, &changes);
            let files: Vec<Value> = changes.iter().map(|change| change.to_json(&root)).collect();
            let sum = |count: fn(&PlannedFileChange) -> usize| changes.iter().map(count).sum();
            let stat = DiffStat {
                added: sum(|change| change.added),
                removed: sum(|change| change.removed),
            };
            let warning = (!warnings.is_empty()).then(|| warnings.join("\n"));
            let output = titled_output(
                format!("Patched {} files", files.len()),
                with_warning(json!({"files": files}), warning),
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
    fn parse_sections(&self) -> Result<Vec<FilePatch>, HandlerError> {
        parse::parse(&self.patch).map_err(patch_syntax_error)
    }
}

/// Returns all paths that a patch changes. A link counts both by its name and by its target.
fn changed_paths(
    root: &FileRoot,
    sections: &[FilePatch],
) -> Result<Vec<ResolvedPath>, HandlerError> {
    let mut paths = Vec::new();
    for section in sections {
        paths.push(root.resolve_name(&section.path)?);
        match &section.action {
            PatchAction::Update { move_to, .. } => {
                paths.push(root.resolve(&section.path)?);
                if let Some(target) = move_to {
                    paths.push(root.resolve_name(target)?);
                }
            }
            PatchAction::Add { .. } | PatchAction::Delete => {}
        }
    }
    Ok(paths)
}

/// Plans all changes of a patch. Fails if any change is impossible.
fn plan_all(
    root: &FileRoot,
    sections: &[FilePatch],
) -> Result<Vec<PlannedFileChange>, HandlerError> {
    let changes = sections.iter().map(|section| plan_section(root, section));
    let changes: Vec<PlannedFileChange> = changes.collect::<Result<_, _>>()?;
    refuse_duplicate_paths(&changes)?;
    Ok(changes)
}

/// Checks all changed files for changes by other conversations. Returns the warnings.
fn check_all(
    guard: &StaleWriteGuard,
    changes: &[PlannedFileChange],
) -> Result<Vec<String>, HandlerError> {
    let mut warnings = Vec::new();
    for change in changes {
        if let OriginalEntry::Text(before) = &change.before {
            warnings.extend(guard.check(&change.place, before)?);
        }
    }
    Ok(warnings)
}

/// Records the new contents of all changed files.
fn note_all(guard: &StaleWriteGuard, changes: &[PlannedFileChange]) {
    for (target, content) in changes.iter().filter_map(|change| change.after.as_ref()) {
        guard.note_written(&target.path, content);
    }
}

/// A planned change of one file. All changes are planned before any file is touched.
struct PlannedFileChange {
    /// The changed file, or the name of a deleted link.
    place: ResolvedPath,
    before: OriginalEntry,
    /// The new path and contents; `None` if the entry is deleted.
    after: Option<(ResolvedPath, String)>,
    added: usize,
    removed: usize,
}

/// The entry at a path before a change.
enum OriginalEntry {
    Missing,
    Text(String),
    /// A symbolic link that is deleted, with its target.
    Symlink(PathBuf),
}

fn plan_section(root: &FileRoot, section: &FilePatch) -> Result<PlannedFileChange, HandlerError> {
    match &section.action {
        PatchAction::Add { lines } => {
            let place = resolve_free_path(root, &section.path)?;
            let content: String = lines
                .iter()
                .flat_map(|line| [line.as_str(), "\n"])
                .collect();
            Ok(PlannedFileChange {
                after: Some((place.clone(), content)),
                place,
                before: OriginalEntry::Missing,
                added: lines.len(),
                removed: 0,
            })
        }
        PatchAction::Delete => plan_deletion(root, &section.path),
        PatchAction::Update { move_to, hunks } => {
            plan_update(root, &section.path, move_to.as_deref(), hunks)
        }
    }
}

/// Plans the deletion of a file, or of a link itself.
fn plan_deletion(root: &FileRoot, path: &str) -> Result<PlannedFileChange, HandlerError> {
    let place = root.resolve_name(path)?;
    let before = match place.path.read_link() {
        Ok(target) => OriginalEntry::Symlink(target),
        Err(_) => OriginalEntry::Text(read_text(root, &place)?),
    };
    let removed = match &before {
        OriginalEntry::Text(before) => before.lines().count(),
        OriginalEntry::Symlink(_) | OriginalEntry::Missing => 0,
    };
    Ok(PlannedFileChange {
        place,
        before,
        after: None,
        added: 0,
        removed,
    })
}

/// Plans the change of a file's contents, its path, or both.
fn plan_update(
    root: &FileRoot,
    path: &str,
    move_to: Option<&str>,
    hunks: &[PatchHunk],
) -> Result<PlannedFileChange, HandlerError> {
    let place = root.resolve(path)?;
    if move_to.is_some() && root.resolve_name(path)?.path.is_symlink() {
        return Err(moved_link(path));
    }
    let before = read_text(root, &place)?;
    let content = apply::apply(&before, hunks).map_err(|problem| {
        HandlerError::new(format!(
            "the patch does not match `{path}`: {problem}; nothing was changed"
        ))
        .code(Code::TOOL_PATCH)
        .suggest("read the file again, and copy the unchanged and removed lines exactly")
    })?;
    let target = match move_to {
        Some(to) => resolve_free_path(root, to)?,
        None => place.clone(),
    };
    let count = |kind| {
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.filter(|line| line.sign == kind).count()
    };
    Ok(PlannedFileChange {
        place,
        before: OriginalEntry::Text(before),
        after: Some((target, content)),
        added: count(parse::HunkLineKind::Added),
        removed: count(parse::HunkLineKind::Removed),
    })
}

/// Creates the error for a `Move to` line below a symbolic link.
fn moved_link(path: &str) -> HandlerError {
    HandlerError::new(format!(
        "`{path}` is a symbolic link, which a patch cannot move; nothing was changed"
    ))
    .code(Code::TOOL_PATCH)
    .suggest("write the path of the link target in the patch, or move the link with `mv`")
}

/// Resolves `path`. Fails if it exists.
fn resolve_free_path(root: &FileRoot, path: &str) -> Result<ResolvedPath, HandlerError> {
    let place = root.resolve_name(path)?;
    must_be_free(&place)?;
    Ok(place)
}

/// Fails if the path exists.
fn must_be_free(place: &ResolvedPath) -> Result<(), HandlerError> {
    if place.path.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(HandlerError::new(format!(
        "`{}` already exists; nothing was changed",
        place.given
    ))
    .code(Code::TOOL_PATCH)
    .suggest("use `*** Update File:` to change an existing file"))
}

/// Refuses several sections for the same file, because each is planned independently.
fn refuse_duplicate_paths(changes: &[PlannedFileChange]) -> Result<(), HandlerError> {
    let mut seen_paths: BTreeSet<&PathBuf> = BTreeSet::new();
    for change in changes {
        let target = change
            .after
            .as_ref()
            .map(|(place, _)| place)
            .filter(|target| target.path != change.place.path);
        for place in [Some(&change.place), target].into_iter().flatten() {
            if !seen_paths.insert(&place.path) {
                let message = format!(
                    "`{}` is in the patch twice; nothing was changed",
                    place.given
                );
                return Err(HandlerError::new(message)
                    .code(Code::TOOL_PATCH)
                    .suggest("put all hunks of a file into one section"));
            }
        }
    }
    Ok(())
}

/// Makes all changes. If one fails, the previous ones are undone. Returns false, with all changes
/// undone, if another program changed a file after the changes were planned.
fn apply_all(root: &FileRoot, changes: &[PlannedFileChange]) -> Result<bool, HandlerError> {
    for (index, change) in changes.iter().enumerate() {
        let applied = change.apply(root);
        if !matches!(applied, Ok(true)) {
            for done in changes[..index].iter().rev() {
                done.undo(root);
            }
            return applied;
        }
    }
    Ok(true)
}

impl PlannedFileChange {
    /// Makes the change, or nothing. Returns false if the file is no longer as planned.
    fn apply(&self, root: &FileRoot) -> Result<bool, HandlerError> {
        match (&self.before, &self.after) {
            (OriginalEntry::Symlink(target), _) => remove_symlink(root, &self.place, target),
            (OriginalEntry::Text(before), None) => remove_if_current(root, &self.place, before),
            (OriginalEntry::Missing, Some((target, content))) => {
                root.create_parents(target)?;
                create(root, target, content.as_bytes())
            }
            (OriginalEntry::Text(before), Some((target, content)))
                if target.path == self.place.path =>
            {
                replace_if_current(root, target, before, content.as_bytes())
            }
            (OriginalEntry::Text(before), Some((target, content))) => {
                root.create_parents(target)?;
                if !create(root, target, content.as_bytes())? {
                    return Ok(false);
                }
                let moved = copy_mode(root, &self.place, target)
                    .and_then(|()| remove_if_current(root, &self.place, before));
                if !matches!(moved, Ok(true)) {
                    let _ = remove(root, target);
                }
                moved
            }
            (OriginalEntry::Missing, None) => Ok(true),
        }
    }

    /// Restores the original state as far as possible.
    fn undo(&self, root: &FileRoot) {
        let target = self.after.as_ref().map(|(target, _)| target);
        let is_new = |target: &&ResolvedPath| {
            target.path != self.place.path || matches!(self.before, OriginalEntry::Missing)
        };
        if let Some(target) = target.filter(is_new) {
            let _ = remove(root, target);
        }
        let _ = match &self.before {
            OriginalEntry::Text(before) => replace(root, &self.place, before.as_bytes()),
            OriginalEntry::Symlink(target) => create_symlink(root, &self.place, target),
            OriginalEntry::Missing => Ok(()),
        };
    }

    /// Returns the change as a diff.
    fn to_diff(&self) -> String {
        let before = match &self.before {
            OriginalEntry::Text(before) => before.as_str(),
            OriginalEntry::Symlink(target) => {
                let (name, target) = (&self.place.given, target.display());
                return format!("the symbolic link {name} to {target} is deleted\n");
            }
            OriginalEntry::Missing => "",
        };
        let after = self.after.as_ref();
        let moved = after.filter(|(target, _)| target.path != self.place.path);
        let moved = moved
            .map(|(target, _)| format!("{} is renamed to {}\n", self.place.given, target.given));
        let text = after.map(|(_, text)| text.as_str()).unwrap_or_default();
        moved.unwrap_or_default() + &diff(&self.place.given, before, text)
    }

    /// Returns the JSON of the change for the model.
    fn to_json(&self, root: &FileRoot) -> Value {
        let action = match (&self.before, &self.after) {
            (OriginalEntry::Missing, _) => "added",
            (_, None) => "deleted",
            (_, Some((target, _))) if target.path == self.place.path => "updated",
            _ => "moved",
        };
        let mut report = json!({
            "path": root.display_path(&self.place.path), "action": action, "added": self.added, "removed": self.removed,
        });
        if let (Some((target, _)), "moved") = (&self.after, action) {
            report["to"] = json!(root.display_path(&target.path));
        }
        report
    }
}

/// Creates the error for an invalid patch.
fn patch_syntax_error(problem: parse::PatchSyntaxError) -> HandlerError {
    HandlerError::new(format!(
        "the patch is invalid: line {}: {}",
        problem.line, problem.message
    ))
    .code(Code::TOOL_PATCH)
    .suggest(
        "write `*** Begin Patch`, sections such as `*** Update File: a.txt` with `@@` \
            hunks, `*** End Patch`",
    )
}
