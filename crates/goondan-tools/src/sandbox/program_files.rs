//! Finds the files of a program: the file of its name, and the files that it starts itself.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Programs that start other programs: compilers, interpreters, build tools and command runners. A
/// pattern for one of them permits all programs it may start; the sandbox limits those.
const LAUNCHER_PROGRAMS: [&str; 72] = [
    "ash",
    "bash",
    "bazel",
    "bun",
    "bundle",
    "c++",
    "cabal",
    "cargo",
    "cc",
    "clang",
    "clang++",
    "cmake",
    "composer",
    "ctest",
    "dash",
    "deno",
    "docker",
    "dotnet",
    "elixir",
    "fish",
    "g++",
    "gcc",
    "gem",
    "go",
    "gradle",
    "java",
    "javac",
    "julia",
    "just",
    "ksh",
    "ld",
    "lua",
    "make",
    "meson",
    "mix",
    "mvn",
    "ninja",
    "node",
    "npm",
    "npx",
    "perl",
    "php",
    "pip",
    "pip3",
    "pipx",
    "pnpm",
    "podman",
    "poetry",
    "pre-commit",
    "pytest",
    "python",
    "python2",
    "python3",
    "R",
    "rake",
    "Rscript",
    "ruby",
    "rustc",
    "rustup",
    "sbt",
    "sh",
    "stack",
    "swift",
    "task",
    "tox",
    "tsc",
    "uv",
    "uvx",
    "yarn",
    "zig",
    "zsh",
    "nix",
];

/// Maximum length in bytes of an interpreter's path.
const MAX_INTERPRETER_PATH_BYTES: u64 = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundProgram {
    pub(crate) path: PathBuf,
    /// True for scripts and programs that start others.
    pub(crate) is_launcher: bool,
}

impl FoundProgram {
    /// Returns the program in the file at `path`.
    pub(crate) fn from_path(path: PathBuf) -> FoundProgram {
        let is_named_launcher = path
            .file_name()
            .and_then(OsStr::to_str)
            .is_some_and(is_launcher);
        let is_launcher = is_named_launcher || starts_with(&path, b"#!");
        FoundProgram { path, is_launcher }
    }

    /// Returns the files and directories that the program needs to start, and its own helper
    /// programs.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let real = self
            .path
            .canonicalize()
            .unwrap_or_else(|_| self.path.clone());
        let mut files = vec![self.path.clone()];
        files.extend(dynamic_loader(&real));
        for path in [&self.path, &real] {
            files.extend(own_folders(path));
        }
        files.push(real);
        files
    }
}

/// Ignores version suffixes: `python3.12` counts as `python3`.
fn is_launcher(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    LAUNCHER_PROGRAMS.contains(&name) || LAUNCHER_PROGRAMS.contains(&plain)
}

/// Returns the directories of a program's own helpers, such as `../libexec/git-core` of `git`.
fn own_folders(program: &Path) -> Vec<PathBuf> {
    let names = program
        .file_name()
        .and_then(OsStr::to_str)
        .zip(program.parent().and_then(Path::parent));
    let Some((name, prefix)) = names else {
        return Vec::new();
    };
    let folders = ["lib", "libexec"].into_iter().flat_map(|folder| {
        [name.to_owned(), format!("{name}-core")].map(|name| prefix.join(folder).join(name))
    });
    folders.filter(|folder| folder.is_dir()).collect()
}

/// Finds the program `name` in the directories of `path`. Ignores relative directories and those
/// below `places`, because only the machine's owner may provide programs.
pub(crate) fn on_path(name: &str, path: &OsStr, places: &[&Path]) -> Option<PathBuf> {
    search_directories(path, places)
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

/// Returns the directories of a `PATH` that are absolute and not below `places`.
pub(crate) fn search_directories<'a>(
    path: &'a OsStr,
    places: &'a [&Path],
) -> impl Iterator<Item = PathBuf> + 'a {
    std::env::split_paths(path).filter(|folder| {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        folder.is_absolute()
            && !places
                .iter()
                .any(|place| folder.starts_with(place) || real.starts_with(place))
    })
}

/// Returns the files of a program named in a sandbox: a name in the `PATH`, or a path relative to
/// the project.
pub(super) fn find_named_files(name: &str, project: &Path) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let file = if name.contains('/') {
        Some(project.join(name))
    } else {
        on_path(name, &path, &[project])
    };
    file.map(|file| FoundProgram::from_path(file).files())
        .unwrap_or_default()
}

#[cfg(unix)]
pub(crate) fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
pub(crate) fn is_program(file: &Path) -> bool {
    file.is_file()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program of `PATH`, which runs by its name"
)]
fn starts_with(file: &Path, expected: &[u8]) -> bool {
    let mut start = vec![0; expected.len()];
    File::open(file)
        .and_then(|mut file| file.read_exact(&mut start))
        .is_ok()
        && start == expected
}

/// Returns the loader that an ELF file names.
#[expect(
    clippy::disallowed_methods,
    reason = "a program of `PATH`, which runs by its name"
)]
fn dynamic_loader(program: &Path) -> Option<PathBuf> {
    let mut file = File::open(program).ok()?;
    let mut head = [0; 64];
    file.read_exact(&mut head).ok()?;
    // Only 64-bit little-endian files; others use the system's loader.
    if &head[..6] != b"\x7fELF\x02\x01" {
        return None;
    }
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
    };
    let (table, size, count) = (
        number(&head[32..40]),
        number(&head[54..56]),
        number(&head[56..58]),
    );
    if size < 56 {
        return None;
    }
    for index in 0..count {
        let mut entry = [0; 56];
        file.seek(SeekFrom::Start(
            table.checked_add(index.checked_mul(size)?)?,
        ))
        .ok()?;
        file.read_exact(&mut entry).ok()?;
        const ELF_INTERPRETER_TYPE: u64 = 3;
        if number(&entry[..4]) == ELF_INTERPRETER_TYPE {
            let (at, length) = (
                number(&entry[8..16]),
                number(&entry[32..40]).min(MAX_INTERPRETER_PATH_BYTES),
            );
            file.seek(SeekFrom::Start(at)).ok()?;
            let mut name = Vec::new();
            file.take(length).read_to_end(&mut name).ok()?;
            let name = String::from_utf8(name).ok()?;
            return Some(PathBuf::from(name.trim_end_matches('\0')));
        }
    }
    None
}
