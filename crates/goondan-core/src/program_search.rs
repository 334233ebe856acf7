//! Programs that a call starts indirectly: names that are searched in `PATH`, and the interpreters
//! that the first line of a script names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use goondan_spec::regular_file;

use crate::started_files::pieces;

/// Directories of the system. Only an administrator changes the programs in them.
const SYSTEM_DIRECTORIES: [&str; 8] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/System",
];

/// Directory below a system directory in which users install programs.
const LOCAL_DIRECTORY: &str = "/usr/local";

/// Maximum length in bytes of the first line of a script. Linux reads 256 bytes, macOS 512.
const MAX_FIRST_LINE: u64 = 512;

/// Maximum number of interpreters that are scripts themselves. Linux permits four.
const MAX_INTERPRETER_DEPTH: usize = 6;

/// Returns a working directory for programs that gdn starts for itself, such as `node --version`.
/// In the directory of a project, version managers (asdf, mise, pyenv) would run the program that
/// the project's files select, although the user may not trust the project.
pub fn directory_outside_projects() -> PathBuf {
    if cfg!(windows) {
        PathBuf::from(std::env::var_os("SystemRoot").unwrap_or("C:\\Windows".into()))
    } else {
        PathBuf::from("/")
    }
}

/// Returns true if only an administrator can change a file: its path and its real path are in
/// directories of the system.
pub fn is_of_system(path: &Path) -> bool {
    let is_inside = |path: &Path| {
        SYSTEM_DIRECTORIES
            .iter()
            .any(|folder| path.starts_with(folder))
            && !path.starts_with(LOCAL_DIRECTORY)
    };
    is_inside(path) && path.canonicalize().is_ok_and(|real| is_inside(&real))
}

/// Returns the program that a name means. `search_path` is a list of directories, as in `PATH`;
/// `None` means the variable of this process. A relative directory starts from `folder`.
pub fn find_program(name: &str, search_path: Option<&OsStr>, folder: &Path) -> Option<PathBuf> {
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let path =
        search_path.map_or_else(|| std::env::var_os("PATH"), |path| Some(path.to_owned()))?;
    std::env::split_paths(&path)
        .map(|directory| folder.join(directory).join(name))
        .find(|file| is_executable(file))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Returns the interpreters of scripts, their interpreters, and the other files that the first lines
/// name. Files of the system are left out. A relative path starts from each of `folders`. Accesses
/// the file system.
pub fn interpreters(
    scripts: &BTreeSet<PathBuf>,
    folders: &[PathBuf],
    search_path: Option<&OsStr>,
) -> BTreeSet<PathBuf> {
    let mut interpreters = BTreeSet::new();
    let mut scripts = scripts.clone();
    for _ in 0..MAX_INTERPRETER_DEPTH {
        let named_programs: BTreeSet<PathBuf> = scripts
            .iter()
            .filter_map(|script| first_line(script))
            .flat_map(|line| files_of_line(&line, folders, search_path))
            .collect();
        scripts = named_programs.difference(&interpreters).cloned().collect();
        if scripts.is_empty() {
            break;
        }
        interpreters.extend(named_programs);
    }
    interpreters.retain(|file| !is_of_system(file));
    interpreters
}

/// Returns the words in the first line of a script; empty for another file. Accesses the file system.
pub fn first_line_words(path: &Path) -> Vec<String> {
    let line = first_line(path).unwrap_or_default();
    line.split_whitespace().map(str::to_owned).collect()
}

/// Returns the first line of a script without `#!`; `None` for another file.
fn first_line(path: &Path) -> Option<String> {
    let start = regular_file::read_start(path, MAX_FIRST_LINE).ok()?;
    let line = start.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).trim().to_owned())
}

/// Returns the files that the first line of a script names, as paths or as names in the search path.
/// Its words may also name directories of the search path, as in `env -S PATH=bin tool`.
fn files_of_line(line: &str, folders: &[PathBuf], search_path: Option<&OsStr>) -> Vec<PathBuf> {
    let pieces: Vec<String> = line.split_whitespace().flat_map(pieces).collect();
    let mut files = Vec::new();
    for folder in folders {
        let paths = || pieces.iter().map(|piece| folder.join(piece));
        files.extend(paths().filter(|path| path.is_file()));
        let script_path = std::env::join_paths(paths().filter(|path| path.is_dir()));
        let script_path: OsString = script_path.unwrap_or_default();
        for name in &pieces {
            files.extend(find_program(name, search_path, folder));
            files.extend(find_program(name, Some(&script_path), folder));
        }
    }
    files
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_interpreters_of_a_script_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let write = |name: &str, content: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("bin/tool", "#!./second -x\n");
        write("second", "#!/bin/sh\n");
        write("prelude.sh", "true\n");
        std::os::unix::fs::symlink("/bin/sh", folder.join("link")).unwrap();
        let absolute = format!("#!{}/second\n", folder.display());
        let search_path = OsString::from(format!("{}/bin:/bin", folder.display()));
        for (first_line, expected) in [
            ("#!./second\n", &["second"][..]),
            (&absolute, &["second"]),
            ("#! ./second\n", &["second"]),
            ("#!./second", &["second"]),
            ("#!./link\n", &["link"]),
            ("#!bin/tool\n", &["bin/tool", "second"]),
            ("#!/usr/bin/env tool\n", &["bin/tool", "second"]),
            ("#!/usr/bin/env -S tool -u\n", &["bin/tool", "second"]),
            ("#!/usr/bin/env -Stool\n", &["bin/tool", "second"]),
            ("#!/usr/bin/env -S PATH=. second\n", &["second"]),
            ("#!/bin/sh ./prelude.sh\n", &["prelude.sh"]),
            ("#!/bin/sh\n./second\n", &[]),
            ("./second\n", &[]),
        ] {
            write("run", first_line);
            let scripts = BTreeSet::from([folder.join("run")]);
            let found = interpreters(&scripts, &[folder.to_owned()], Some(&search_path));
            let found: BTreeSet<PathBuf> = found
                .iter()
                .filter_map(|path| {
                    path.parent()?
                        .canonicalize()
                        .ok()?
                        .join(path.file_name()?)
                        .into()
                })
                .collect();
            let real = folder.canonicalize().unwrap();
            let expected: BTreeSet<PathBuf> = expected.iter().map(|file| real.join(file)).collect();
            assert_eq!(found, expected, "{first_line}");
        }
    }

    #[test]
    fn a_cycle_of_interpreters_terminates() {
        let dir = tempfile::tempdir().unwrap();
        for (name, line) in [("a", "#!./b\n"), ("b", "#!./a\n")] {
            std::fs::write(dir.path().join(name), line).unwrap();
        }
        let scripts = BTreeSet::from([dir.path().join("a")]);
        let found = interpreters(&scripts, &[dir.path().to_owned()], None);
        assert_eq!(found.len(), 2);
    }
}
