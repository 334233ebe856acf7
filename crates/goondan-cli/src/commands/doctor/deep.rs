//! `gdn doctor --deep`: checks every file of the workspaces.

use std::path::Path;

use goondan::spec::reason;
use goondan::{StateRoot, Workspace, WorkspaceInspection};

use super::{CheckStatus, HealthCheck, check, count_phrase};
use crate::commands::quoted;

/// Checks all workspaces. With `repair`, writes a readable copy of each damaged workspace into that
/// directory.
pub(super) fn checks(state_root: &StateRoot, repair: Option<&Path>) -> Vec<HealthCheck> {
    let workspaces = match state_root.workspaces() {
        Ok(workspaces) => workspaces,
        Err(error) => {
            let detail = format!("the workspaces can't be listed: {}", reason(&error));
            return vec![check("files", CheckStatus::Fail, detail)];
        }
    };
    if workspaces.is_empty() {
        return vec![check(
            "files",
            CheckStatus::Ok,
            "there are no workspaces yet",
        )];
    }
    let mut checks = Vec::new();
    for workspace in &workspaces {
        let (found, is_damaged) = workspace_check(workspace, repair.is_some());
        checks.push(found);
        if let Some(directory) = repair.filter(|_| is_damaged) {
            checks.push(write_repaired_copy(workspace, directory));
        }
    }
    checks
}

/// Checks one workspace. Returns the result, and true if a repair can save something. With
/// `will_repair`, the check does not suggest `--repair`, because the option is set.
fn workspace_check(workspace: &Workspace, will_repair: bool) -> (HealthCheck, bool) {
    let inspection = match workspace.inspect() {
        Ok(inspection) => inspection,
        Err(error) => {
            let detail = format!("`{}` can't be checked: {error}", workspace.id);
            return (check("files", CheckStatus::Fail, detail), false);
        }
    };
    let WorkspaceInspection {
        conversations,
        records,
        problems,
        notes,
    } = inspection;
    let size = format!(
        "{}, {}",
        count_phrase(conversations, "conversation"),
        count_phrase(records, "record")
    );
    if problems.is_empty() {
        let detail = format!("`{}` is intact ({size})", workspace.id);
        let mut finding = check("files", CheckStatus::Ok, detail);
        finding.problems = notes;
        return (finding, false);
    }
    let damage = count_phrase(problems.len(), "problem");
    let detail = format!("`{}` has {damage} ({size})", workspace.id);
    let mut finding = check("files", CheckStatus::Fail, detail);
    finding.problems = problems;
    if !will_repair {
        finding = finding.suggest(
            "Restore a backup with `gdn restore`, or save what can be read with `gdn doctor \
                --deep --repair DIR`.",
        );
    }
    (finding, true)
}

/// Writes a readable copy of a workspace.
fn write_repaired_copy(workspace: &Workspace, directory: &Path) -> HealthCheck {
    let copy = directory.join(&workspace.id);
    let path = copy.display();
    match workspace.repair_to(&copy) {
        Err(error) => {
            let detail = format!(
                "`{}` can't be copied to {path}: {}",
                workspace.id,
                reason(&error)
            );
            check("repair", CheckStatus::Fail, detail)
        }
        Ok(report) => {
            let records = count_phrase(report.records, "record");
            let lost = if report.lost.is_empty() {
                "nothing is lost"
            } else {
                "not saved:"
            };
            let detail = format!("{path} contains {records}; {lost}");
            let mut finding = check("repair", CheckStatus::Warn, detail).suggest(format!(
                "Check the copy. To use it, move {} away, then run `gdn restore {}`.",
                workspace.dir.display(),
                quoted(&copy.to_string_lossy())
            ));
            finding.problems = report.lost;
            finding
        }
    }
}
