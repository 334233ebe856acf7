//! `gdn validate --fix`: applies safe fixes, or shows them as a diff.

use std::io::{self, Write};
use std::path::Path;

use goondan::internal::{OsFiles, RepairedFile, untrusted_text};
use goondan::spec::Diagnostic;
use serde_json::{Value, json};

use crate::exit::CliError;
use crate::output::{CommandOutput, style};
use goondan::spec::reason;

/// Number of context lines in a diff.
const DIFF_CONTEXT_LINES: usize = 3;

/// Applies safe fixes to the project at `root` and returns them. A dry run only shows them.
pub(super) fn fix(
    root: &Path,
    dry_run: bool,
    output: &CommandOutput,
) -> Result<Vec<RepairedFile>, CliError> {
    let repairs = goondan::internal::repair(root, &OsFiles);
    if !dry_run {
        for repair in &repairs {
            write(&root.join(&repair.file), &repair.after)
                .map_err(|error| file_write_error(&repair.file, &error))?;
        }
    }
    if !output.json {
        for repair in &repairs {
            print_fixes(repair, dry_run, output)?;
        }
    }
    Ok(repairs)
}

/// Prints the fixes of a file, or the changes as a diff in a dry run.
fn print_fixes(
    repair: &RepairedFile,
    dry_run: bool,
    output: &CommandOutput,
) -> Result<(), CliError> {
    if dry_run {
        let file = &repair.file;
        let hunks = goondan::diff::unified(&repair.before, &repair.after, DIFF_CONTEXT_LINES);
        return output.foreign(&format!("--- a/{file}\n+++ b/{file}\n{hunks}"));
    }
    let green = style::GOOD;
    for diagnostic in &repair.done {
        let position = diagnostic
            .position
            .map(|at| format!(":{}:{}", at.line, at.column))
            .unwrap_or_default();
        let change = diagnostic
            .fix
            .as_ref()
            .map(|fix| fix.title.as_str())
            .unwrap_or_default();
        let line = format!(
            "{}{position}: {} {change}.",
            repair.file, diagnostic.message
        );
        output.piece(&format!(
            "{green}fixed{green:#} {}\n",
            untrusted_text::line(line)
        ))?;
    }
    Ok(())
}

/// Returns the applied fixes as JSON.
pub(super) fn report(repairs: &[RepairedFile]) -> Vec<Value> {
    let fix_json = |repair: &RepairedFile, done: &Diagnostic| {
        let mut object = json!(done);
        object["file"] = json!(repair.file);
        object["change"] = json!(done.fix.as_ref().map(|fix| &fix.title));
        object
    };
    repairs
        .iter()
        .flat_map(|repair| repair.done.iter().map(move |done| fix_json(repair, done)))
        .collect()
}

/// Replaces a file as a whole, so that no reader sees a part of it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    // A symbolic link stays one: its target is replaced.
    let path = path.canonicalize()?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut new_file = tempfile::NamedTempFile::new_in(folder)?;
    new_file.write_all(text.as_bytes())?;
    new_file
        .as_file()
        .set_permissions(std::fs::metadata(&path)?.permissions())?;
    new_file.as_file().sync_all()?;
    new_file.persist(&path)?;
    Ok(())
}

/// Returns the error of a file that can't be written.
fn file_write_error(file: &str, error: &io::Error) -> CliError {
    CliError::configuration(format!(
        "`{file}` can't be written: {error}.",
        error = reason(error)
    ))
    .suggest("Check the permissions of the file.")
}
