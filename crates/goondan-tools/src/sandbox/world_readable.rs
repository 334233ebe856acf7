//! Files of `/etc` that every user may read. Other files there are secrets: password hashes, host
//! keys, the token of a server. Their owner can be the user of a sandboxed program, such as root.

use std::fs::{DirEntry, Metadata};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Directory of the system settings.
pub(super) const SETTINGS_DIR: &str = "/etc";

const WORLD_READ: u32 = 0o4;
const WORLD_SEARCH: u32 = 0o1;

/// Returns the files and directories of `/etc` that every user may read. Determined once, because
/// that takes longer than starting a program. Files that are created later in a directory with
/// secrets are not among them.
pub(super) fn settings() -> &'static [PathBuf] {
    static SETTINGS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    SETTINGS.get_or_init(|| match readable_below(Path::new(SETTINGS_DIR)) {
        ReadableEntries::All => vec![PathBuf::from(SETTINGS_DIR)],
        ReadableEntries::Only(paths) => paths,
    })
}

/// Part of a directory that every user may read.
enum ReadableEntries {
    All,
    Only(Vec<PathBuf>),
}

/// Returns what every user may read in a directory. Links are left out: rules apply to their
/// targets, and a target in `/etc` has a rule of its own.
#[expect(clippy::disallowed_methods, reason = "agents can't change `/etc`")]
fn readable_below(directory: &Path) -> ReadableEntries {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return ReadableEntries::Only(Vec::new());
    };
    let mut is_all = true;
    let mut paths = Vec::new();
    for entry in entries.flatten() {
        match readable(&entry) {
            Some(ReadableEntries::All) => paths.push(entry.path()),
            Some(ReadableEntries::Only(inner)) => {
                is_all = false;
                paths.extend(inner);
            }
            None => {}
        }
    }
    if is_all {
        ReadableEntries::All
    } else {
        ReadableEntries::Only(paths)
    }
}

/// Returns what every user may read of an entry; `None` for links and vanished entries.
fn readable(entry: &DirEntry) -> Option<ReadableEntries> {
    let metadata = entry.metadata().ok()?;
    let may = |metadata: &Metadata, wanted| metadata.permissions().mode() & wanted == wanted;
    if metadata.is_symlink() {
        None
    } else if metadata.is_dir() && may(&metadata, WORLD_READ | WORLD_SEARCH) {
        Some(readable_below(&entry.path()))
    } else if !metadata.is_dir() && may(&metadata, WORLD_READ) {
        Some(ReadableEntries::All)
    } else {
        Some(ReadableEntries::Only(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, set_permissions, write};

    use super::*;

    #[test]
    fn only_files_for_every_user_are_readable() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["open", "mixed", "closed"] {
            create_dir(at(name)).unwrap();
            write(at(name).join("a"), "x").unwrap();
            write(at(name).join("b"), "x").unwrap();
        }
        let mode = |name: &str, mode| set_permissions(at(name), Permissions::from_mode(mode));
        for name in ["open", "mixed"] {
            mode(name, 0o755).unwrap();
            mode(&format!("{name}/a"), 0o644).unwrap();
            mode(&format!("{name}/b"), 0o644).unwrap();
        }
        mode("mixed/b", 0o640).unwrap();
        mode("closed", 0o700).unwrap();
        std::os::unix::fs::symlink(at("closed/a"), at("open/link")).unwrap();
        let ReadableEntries::Only(mut paths) = readable_below(directory.path()) else {
            panic!("it has secrets");
        };
        paths.sort();
        assert_eq!(paths, [at("mixed/a"), at("open")]);
        assert!(matches!(readable_below(&at("open")), ReadableEntries::All));
    }
}
