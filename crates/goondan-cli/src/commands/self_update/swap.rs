//! Replacement of the program by a new version, after a trial run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use goondan::internal::{directory_outside_projects, untrusted_text};

use super::installation::InstalledProgram;
use super::release::ProgramRelease;
use super::update_error;
use crate::exit::CliError;
use goondan::spec::reason;

/// Unpacks the archive next to the program, checks that the new program runs, and swaps it in.
/// On failure the old program stays.
pub(super) fn swap(
    program: &InstalledProgram,
    release: &ProgramRelease,
    archive: &[u8],
) -> Result<(), CliError> {
    let program_dir = program.binary.parent().unwrap_or(&program.prefix);
    // In the same directory, so that the swap is one rename.
    let work = tempfile::Builder::new()
        .prefix(".gdn-update-")
        .tempdir_in(program_dir)
        .map_err(|error| not_replaced_error(program, &error))?;
    let file = work.path().join(&release.file);
    fs::write(&file, archive).map_err(|error| not_replaced_error(program, &error))?;
    unpack(&file, work.path())?;
    let folder = work.path().join(&release.folder);
    let new_program = folder
        .join("bin")
        .join(if cfg!(windows) { "gdn.exe" } else { "gdn" });
    let (reported, expected) = (
        reported_version(&new_program)?,
        format!("gdn {}", release.version),
    );
    if reported != expected {
        let message = format!(
            "The new program reports the version `{}`, not `{expected}`.",
            untrusted_text::line(reported)
        );
        return Err(update_error(message).suggest("Nothing was changed. Report this bug."));
    }
    let replace_files = || {
        copy(&folder.join("share"), &program.prefix.join("share"))?;
        File::open(&new_program)?.sync_all()?;
        replace(&new_program, &program.binary)?;
        program.record_version(release.version.to_string())
    };
    replace_files().map_err(|error| not_replaced_error(program, &error))
}

/// Returns the error of program files that can't be written.
fn not_replaced_error(program: &InstalledProgram, error: &io::Error) -> CliError {
    update_error(format!(
        "The files below {} can't be replaced: {error}.",
        program.prefix.display(),
        error = reason(error)
    ))
    .suggest("Run the command as the user who installed it.")
}

/// Unpacks with `tar`, which every supported system has. On Windows it also unpacks zip files.
fn unpack(file: &Path, into: &Path) -> Result<(), CliError> {
    let tar = if cfg!(windows) {
        // Full path, because another `tar` in PATH may not support zip.
        directory_outside_projects().join("System32\\tar.exe")
    } else {
        PathBuf::from("tar")
    };
    let outcome = Command::new(&tar)
        .arg("-xf")
        .arg(file)
        .arg("-C")
        .arg(into)
        .current_dir(directory_outside_projects())
        .stdin(Stdio::null())
        .output();
    let problem = match outcome {
        Ok(outcome) if outcome.status.success() => return Ok(()),
        Ok(outcome) => String::from_utf8_lossy(&outcome.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(update_error(format!(
        "The archive can't be unpacked by `{}`: {}.",
        tar.display(),
        untrusted_text::line(problem)
    ))
    .suggest("Nothing was changed. Install `tar`, or run the installer again."))
}

/// Returns the output of `program --version`.
fn reported_version(program: &Path) -> Result<String, CliError> {
    let outcome = Command::new(program)
        .arg("--version")
        .current_dir(directory_outside_projects())
        .stdin(Stdio::null())
        .output();
    let outcome = outcome.map_err(|error| {
        update_error(format!(
            "The new program can't be started: {error}.",
            error = reason(&error)
        ))
        .suggest("Nothing was changed. Report this bug.")
    })?;
    Ok(String::from_utf8_lossy(&outcome.stdout).trim().to_owned())
}

/// Copies the files below `from` to `to`, recursively.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?
        } else {
            fs::copy(entry.path(), target).map(drop)?
        }
    }
    Ok(())
}

/// Replaces the program with one rename, so that a program started during the update is the old or
/// the new version.
#[cfg(unix)]
fn replace(new: &Path, old: &Path) -> io::Result<()> {
    fs::rename(new, old)
}

/// Renames the old program and puts the new one in its place, because Windows can rename a running
/// program but not replace it. The next update deletes the renamed program.
#[cfg(not(unix))]
fn replace(new: &Path, old: &Path) -> io::Result<()> {
    let aside = old.with_extension("exe.old");
    let _ = fs::remove_file(&aside);
    fs::rename(old, &aside)?;
    fs::rename(new, old).inspect_err(|_| drop(fs::rename(&aside, old)))
}
