//! Files of a backup that grant something. A backup can come from another person, or from another
//! time, so a restored workspace grants nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use goondan::Workspace;
use goondan::approvals::{APPROVALS_FILE, APPROVALS_RECORD_FILE};

use crate::commands::backup::remove_if_there;
use crate::commands::serve::TOKEN_FILE;

/// Place of granting files in a workspace. `*` is any directory.
struct GrantFile {
    folders: &'static [&'static str],
    name: &'static str,
}

/// All kinds of files that grant something:
///
/// * permanent approvals of calls, and the approvals of a conversation, which run calls unseen;
/// * approved senders of a connection, who may start turns;
/// * the server token, and the address and token of a running swarm, which another person knows.
const GRANT_FILES: [GrantFile; 5] = [
    GrantFile {
        folders: &[],
        name: APPROVALS_FILE,
    },
    GrantFile {
        folders: &["instances", "*", "extensions"],
        name: APPROVALS_RECORD_FILE,
    },
    GrantFile {
        folders: &["connections", "*"],
        name: "approved.jsonl",
    },
    GrantFile {
        folders: &[],
        name: TOKEN_FILE,
    },
    GrantFile {
        folders: &[],
        name: "control.json",
    },
];

/// Removes everything that grants something from a workspace.
///
/// # Errors
/// Fails if a directory or a journal cannot be read, or a file cannot be changed.
pub(crate) fn remove(workspace: &Workspace) -> io::Result<()> {
    for file in &GRANT_FILES {
        for folder in folders(&workspace.dir, file.folders)? {
            remove_in(&folder, file.name)?;
        }
    }
    // The journal of an unfinished turn can contain the answer to an approval request.
    workspace.forget_recorded_approvals()
}

/// Returns the existing directories at a place.
fn folders(workspace: &Path, place: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![workspace.to_owned()];
    for name in place {
        let mut below = Vec::new();
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            match *name {
                "*" => below.extend(entries(folder)?),
                name => below.push(folder.join(name)),
            }
        }
        folders = below;
    }
    folders.retain(|folder| folder.is_dir());
    Ok(folders)
}

/// Removes a file in any case, because some file systems ignore case.
fn remove_in(folder: &Path, name: &str) -> io::Result<()> {
    for path in entries(folder)? {
        let is_it = path
            .file_name()
            .is_some_and(|found| found.eq_ignore_ascii_case(name));
        if is_it && path.is_dir() {
            fs::remove_dir_all(&path)?;
        } else if is_it {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect()
}
