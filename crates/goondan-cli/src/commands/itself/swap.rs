//! The new program takes the place of the old one, after it has shown that it runs here.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use goondan::inside::shown;

use super::failed;
use super::place::Place;
use super::release::Release;
use crate::exit::CliError;
use goondan::spec::reason;

/// Unpacks the archive beside the program, lets the new program say its version, and swaps it in. Whatever fails, the old one
/// stays.
pub(super) fn swap(place: &Place, release: &Release, archive: &[u8]) -> Result<(), CliError> {
    let beside = place.binary.parent().unwrap_or(&place.prefix);
    // In the same folder, so that the swap is one rename.
    let work = tempfile::Builder::new()
        .prefix(".gdn-update-")
        .tempdir_in(beside)
        .map_err(|error| unwritten(place, &error))?;
    let file = work.path().join(&release.file);
    fs::write(&file, archive).map_err(|error| unwritten(place, &error))?;
    unpack(&file, work.path())?;
    let folder = work.path().join(&release.folder);
    let new = folder
        .join("bin")
        .join(if cfg!(windows) { "gdn.exe" } else { "gdn" });
    let (said, wanted) = (says(&new)?, format!("gdn {}", release.version));
    if said != wanted {
        let message = format!(
            "The new program says it is `{}`, not `{wanted}`.",
            shown::line(said)
        );
        return Err(failed(message).suggest("Nothing was changed. Report it."));
    }
    let put = || {
        copy(&folder.join("share"), &place.prefix.join("share"))?;
        File::open(&new)?.sync_all()?;
        replace(&new, &place.binary)?;
        place.note(release.version.to_string())
    };
    put().map_err(|error| unwritten(place, &error))
}

fn unwritten(place: &Place, error: &io::Error) -> CliError {
    failed(format!(
        "The files below {} can't be replaced: {error}.",
        place.prefix.display(),
        error = reason(error)
    ))
    .suggest("Run the command as the user who installed it.")
}

/// Every system that gdn runs on has a `tar`; that of Windows unpacks zip files, too.
fn unpack(file: &Path, into: &Path) -> Result<(), CliError> {
    let tar = match cfg!(windows) {
        // Not one that may come first in PATH and knows no zip.
        true => PathBuf::from(std::env::var_os("SystemRoot").unwrap_or("C:\\Windows".into()))
            .join("System32\\tar.exe"),
        false => PathBuf::from("tar"),
    };
    let told = Command::new(&tar)
        .arg("-xf")
        .arg(file)
        .arg("-C")
        .arg(into)
        .stdin(Stdio::null())
        .output();
    let problem = match told {
        Ok(told) if told.status.success() => return Ok(()),
        Ok(told) => String::from_utf8_lossy(&told.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(failed(format!(
        "The archive can't be unpacked by `{}`: {}.",
        tar.display(),
        shown::line(problem)
    ))
    .suggest("Nothing was changed. Install `tar`, or run the installer again."))
}

/// What a program answers to `--version`.
fn says(program: &Path) -> Result<String, CliError> {
    let told = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let told = told.map_err(|error| {
        failed(format!(
            "The new program can't be started here: {error}.",
            error = reason(&error)
        ))
        .suggest("Nothing was changed. Report it.")
    })?;
    Ok(String::from_utf8_lossy(&told.stdout).trim().to_owned())
}

/// Copies the files below `from` to the same places below `to`.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target).map(drop)?,
        }
    }
    Ok(())
}

/// One rename: whoever starts the program meanwhile gets the old one or the new one.
#[cfg(unix)]
fn replace(new: &Path, old: &Path) -> io::Result<()> {
    fs::rename(new, old)
}

/// A program that runs can be renamed, but not replaced. The old one goes with the next update.
#[cfg(not(unix))]
fn replace(new: &Path, old: &Path) -> io::Result<()> {
    let aside = old.with_extension("exe.old");
    let _ = fs::remove_file(&aside);
    fs::rename(old, &aside)?;
    fs::rename(new, old).inspect_err(|_| drop(fs::rename(&aside, old)))
}
