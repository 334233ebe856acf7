//! `gdn validate --fix`.

use std::io::{self, Write};
use std::path::Path;

use goondan::inside::{OsFiles, Repair, shown};
use goondan::spec::Diagnostic;
use serde_json::{Value, json};

use crate::exit::CliError;
use crate::output::{Output, style};
use goondan::spec::reason;

/// How many lines a diff shows around a change.
const CONTEXT: usize = 3;

/// Repairs the project at `root`, and gives what was repaired. A dry run shows it and writes nothing.
pub(super) fn fix(root: &Path, dry_run: bool, output: &Output) -> Result<Vec<Repair>, CliError> {
    let repairs = goondan::inside::repair(root, &OsFiles);
    if !dry_run {
        for repair in &repairs {
            write(&root.join(&repair.file), &repair.after)
                .map_err(|error| unwritten(&repair.file, &error))?;
        }
    }
    if !output.json {
        for repair in &repairs {
            tell(repair, dry_run, output)?;
        }
    }
    Ok(repairs)
}

fn tell(repair: &Repair, dry_run: bool, output: &Output) -> Result<(), CliError> {
    if dry_run {
        let file = &repair.file;
        let hunks = goondan::diff::unified(&repair.before, &repair.after, CONTEXT);
        return output.foreign(&format!("--- a/{file}\n+++ b/{file}\n{hunks}"));
    }
    let green = style::GOOD;
    for one in &repair.done {
        let place = one
            .position
            .map(|at| format!(":{}:{}", at.line, at.column))
            .unwrap_or_default();
        let change = one
            .fix
            .as_ref()
            .map(|fix| fix.title.as_str())
            .unwrap_or_default();
        let line = format!("{}{place}: {} {change}.", repair.file, one.message);
        output.piece(&format!("{green}fixed{green:#} {}\n", shown::line(line)))?;
    }
    Ok(())
}

/// What was repaired, for programs.
pub(super) fn report(repairs: &[Repair]) -> Vec<Value> {
    let one = |repair: &Repair, done: &Diagnostic| {
        let mut object = json!(done);
        object["file"] = json!(repair.file);
        object["change"] = json!(done.fix.as_ref().map(|fix| &fix.title));
        object
    };
    repairs
        .iter()
        .flat_map(|repair| repair.done.iter().map(move |done| one(repair, done)))
        .collect()
}

/// Replaces a file as a whole, so that it is never there in part.
fn write(path: &Path, text: &str) -> io::Result<()> {
    // A link stays a link.
    let path = path.canonicalize()?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.as_file()
        .set_permissions(std::fs::metadata(&path)?.permissions())?;
    new.as_file().sync_all()?;
    new.persist(&path)?;
    Ok(())
}

fn unwritten(file: &str, error: &io::Error) -> CliError {
    CliError::configuration(format!(
        "`{file}` can't be written: {error}.",
        error = reason(error)
    ))
    .suggest("Check that you may write to it.")
}
