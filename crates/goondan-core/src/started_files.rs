//! Files of a program that gdn starts from the configuration, such as the script of an MCP server.
//!
//! An approval of the program's tools covers the content of these files, and file tools ask before
//! they write one. Only the command line is analyzed: files that the program finds itself, such as
//! imported modules, are unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::content_hash::content_identity;
use crate::real_path::depends_on_process;

/// Programs that run a script, or the start file of a directory.
const INTERPRETERS: [&str; 19] = [
    "ash", "bash", "bun", "dash", "deno", "fish", "ksh", "lua", "node", "nodejs", "perl", "php",
    "pypy", "python", "ruby", "sh", "ts-node", "tsx", "zsh",
];

/// Programs that run the local installation of a package, if there is one.
const PACKAGE_RUNNERS: [&str; 4] = ["bunx", "npx", "pnpx", "yarn"];

/// Files that define the commands that a program runs, such as the scripts in `package.json`. The
/// paths are relative to its working directory.
const COMMAND_FILES: [(&str, &[&str]); 8] = [
    ("bun", &["package.json"]),
    ("deno", &["deno.json", "deno.jsonc"]),
    ("just", &["justfile", "Justfile"]),
    ("make", &["Makefile", "makefile", "GNUmakefile"]),
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("uv", &["pyproject.toml"]),
    ("yarn", &["package.json"]),
];

/// Suffixes that an interpreter adds to the name of a script.
const SCRIPT_SUFFIXES: [&str; 5] = ["js", "mjs", "cjs", "ts", "py"];

/// Files that an interpreter runs if its argument is a directory.
const START_FILES: [&str; 5] = [
    "package.json",
    "index.js",
    "index.mjs",
    "index.cjs",
    "__main__.py",
];

/// Suffixes of files that a server writes itself, such as its database.
const DATA_SUFFIXES: [&str; 4] = ["db", "log", "sqlite", "sqlite3"];

/// Maximum number of letters in a cluster of short options.
const MAX_OPTION_LETTERS: usize = 16;

/// Maximum number of directories into which the command line of a program can change.
const MAX_DIRECTORIES: usize = 16;

/// Maximum number of paths that are searched for one program.
const MAX_SEARCHED_PATHS: usize = 4000;

/// A program of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct StartedProgram<'a> {
    /// Path of the program, or a name to search in `PATH`.
    pub command: &'a str,
    /// Arguments. A relative path starts from `folder`.
    pub args: &'a [String],
    /// `PATH` of the program; `None` for that of gdn.
    pub search_path: Option<&'a str>,
    /// Working directory.
    pub folder: &'a Path,
    /// Directory of the project.
    pub project: &'a Path,
}

impl StartedProgram<'_> {
    /// Returns the existing files that the command line names, or that its programs load because of
    /// their names, such as `package.json`. Paths that lead to another file in the program's own
    /// process are included (`depends_on_process`). Accesses the file system.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let mut files: BTreeSet<PathBuf> = self.program_file().into_iter().collect();
        let words: Vec<&str> = std::iter::once(self.command)
            .chain(self.args.iter().flat_map(|arg| command_words(arg)))
            .collect();
        let names: Vec<String> = words.iter().map(|word| program_name(word)).collect();
        let has = |programs: &[&str]| names.iter().any(|name| programs.contains(&name.as_str()));
        let (is_interpreted, is_package) = (has(&INTERPRETERS), has(&PACKAGE_RUNNERS));
        // An argument may also be a whole path with blanks.
        let arguments = self.args.iter().map(String::as_str);
        let pieces = arguments.chain(words.into_iter().skip(1)).flat_map(pieces);
        let pieces: Vec<String> = pieces.take(MAX_SEARCHED_PATHS).collect();
        let folders = self.directories(&pieces, has(&["cd", "pushd"]));
        let mut paths: Vec<PathBuf> = COMMAND_FILES
            .iter()
            .filter(|(program, _)| has(&[program]))
            .flat_map(|(_, files)| files.iter())
            .flat_map(|file| folders.iter().map(move |folder| folder.join(file)))
            .collect();
        for folder in &folders {
            for piece in &pieces {
                if is_package {
                    paths.extend(package_files(folder, piece));
                }
                if is_interpreted {
                    paths.extend(script_files(folder, piece));
                }
                paths.push(folder.join(piece));
            }
        }
        files.extend(
            paths
                .into_iter()
                .filter(|path| (path.is_file() && !is_data(path)) || depends_on_process(path)),
        );
        files
    }

    /// Returns the content of the program's files by path. Accesses the file system.
    pub fn contents(&self) -> BTreeMap<String, String> {
        let files = self.files().into_iter();
        files
            .map(|path| (path.display().to_string(), content_identity(&path)))
            .collect()
    }

    /// Returns the file of the command. A command without a slash is a program of the machine,
    /// unless the search path leads into the project.
    fn program_file(&self) -> Option<PathBuf> {
        if self.command.contains('/') {
            return Some(self.folder.join(self.command)).filter(|file| file.is_file());
        }
        let path = match self.search_path {
            Some(path) => OsString::from(path),
            None => std::env::var_os("PATH")?,
        };
        let found = std::env::split_paths(&path)
            .map(|folder| self.folder.join(folder).join(self.command))
            .find(|file| file.is_file())?;
        let real = found.canonicalize().unwrap_or_else(|_| found.clone());
        let is_own = |folder: &Path| {
            let real_folder = folder.canonicalize();
            found.starts_with(folder) || real_folder.is_ok_and(|folder| real.starts_with(folder))
        };
        [self.project, self.folder]
            .into_iter()
            .any(is_own)
            .then_some(found)
    }

    /// Returns the working directory, and the directories into which the command line can change
    /// before it starts a program.
    fn directories(&self, pieces: &[String], changes_directory: bool) -> Vec<PathBuf> {
        let mut folders = vec![self.folder.to_owned()];
        if changes_directory {
            let named = pieces.iter().map(|piece| self.folder.join(piece));
            folders.extend(named.filter(|path| path.is_dir()).take(MAX_DIRECTORIES));
        }
        folders
    }
}

/// Returns the words of an argument, which can be a command line.
fn command_words(argument: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| c.is_whitespace() || ";&|()<>'\"".contains(c);
    argument.split(is_separator).filter(|word| !word.is_empty())
}

/// Returns the files that an interpreter can run for a name: with a suffix, or in a directory or
/// module of this name.
fn script_files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let path = folder.join(name);
    let with_suffix = SCRIPT_SUFFIXES.map(|suffix| {
        let mut file = path.clone().into_os_string();
        file.push(".");
        file.push(suffix);
        PathBuf::from(file)
    });
    // `python -m package.module`
    let module = folder.join(name.replace('.', "/"));
    let mut files = with_suffix.to_vec();
    files.extend(START_FILES.map(|file| path.join(file)));
    files.push(module.with_extension("py"));
    files.extend(["__init__.py", "__main__.py"].map(|file| module.join(file)));
    files
}

/// Returns the files of the local installation of a package, such as `@scope/name@1.0`.
fn package_files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let version = name.char_indices().skip(1).find(|(_, c)| *c == '@');
    let name = version.map_or(name, |(at, _)| &name[..at]);
    let modules = folder.join("node_modules");
    let program = name.rsplit('/').next().unwrap_or(name);
    vec![
        modules.join(name).join("package.json"),
        modules.join(".bin").join(program),
    ]
}

/// Returns the name of a program without its directory and version.
fn program_name(word: &str) -> String {
    let name = Path::new(word).file_name().unwrap_or_default();
    let name = name.to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'))
        .to_owned()
}

fn is_data(path: &Path) -> bool {
    let suffix = path.extension().map(|suffix| suffix.to_ascii_lowercase());
    suffix.is_some_and(|suffix| DATA_SUFFIXES.iter().any(|data| suffix == *data))
}

/// Returns a word, and the parts of the word that can be a path: after separators and option
/// prefixes.
pub fn pieces(word: &str) -> Vec<String> {
    const SEPARATORS: [&[char]; 7] = [
        &['='],
        &[','],
        &[':'],
        &['=', ','],
        &['=', ':'],
        &[',', ':'],
        &['=', ',', ':'],
    ];
    let texts = [Some(word), word.split_once('=').map(|(_, rest)| rest)];
    let cut = |text: &'_ str| -> Vec<String> {
        let cut = SEPARATORS.iter().flat_map(|ends| text.split(*ends));
        std::iter::once(text)
            .chain(cut)
            .map(str::to_owned)
            .collect()
    };
    let mut all = Vec::new();
    for piece in texts.into_iter().flatten().flat_map(cut) {
        let behind_signs = piece.trim_start_matches(['-', '=', '+', '?', '@']);
        let ways = [piece.as_str(), behind_signs].into_iter();
        let named = ways
            .chain(option_values(&piece))
            .filter(|way| !way.is_empty());
        all.extend(named.map(str::to_owned));
    }
    all
}

/// Returns the possible values in a cluster of short options, because any letter can be the option
/// that takes a value: `fx.mk`, `x.mk` and `.mk` for `-sfx.mk`.
fn option_values(word: &str) -> impl Iterator<Item = &str> {
    let cluster = word.strip_prefix('-').unwrap_or_default();
    let letters = cluster.bytes().take_while(u8::is_ascii_alphanumeric);
    let ends = 1..=letters.count().min(MAX_OPTION_LETTERS);
    ends.map(|end| &cluster[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_letter_of_an_option_cluster_can_take_a_value() {
        for (word, value) in [
            ("-fx.mk", "x.mk"),
            ("-sfx.mk", "x.mk"),
            ("-nfs2.sed", "s2.sed"),
            ("-C/etc/x", "/etc/x"),
            ("-I../é", "../é"),
        ] {
            assert!(pieces(word).contains(&value.to_owned()), "{word}");
        }
    }

    #[test]
    fn the_files_of_a_command_line_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path();
        for file in [
            "server.js",
            "pkg/__main__.py",
            "lib/hook.mjs",
            "app/index.js",
            "app/package.json",
            "my tools/run.sh",
            "node_modules/server-x/package.json",
            "bin/serve",
            "notes.db",
            "data/package.json",
        ] {
            let path = project.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let bin = project.join("bin").display().to_string();
        for (line, expected) in [
            (&["node", "server.js"][..], &["server.js"][..]),
            (&["node", "server"], &["server.js"]),
            (&["/usr/bin/env", "node", "./server.js"], &["server.js"]),
            (
                &["node", "--import=./lib/hook.mjs", "server.js"],
                &["lib/hook.mjs", "server.js"],
            ),
            (&["node", "app"], &["app/index.js", "app/package.json"]),
            (&["python3.12", "-m", "pkg"], &["pkg/__main__.py"]),
            (&["sh", "-c", "exec node server.js"], &["server.js"]),
            (&["sh", "-c", "cd lib && node hook"], &["lib/hook.mjs"]),
            (&["sh", "-c", "cd lib; node hook.mjs"], &["lib/hook.mjs"]),
            (&["make", "-sfserver.js"], &["server.js"]),
            (&["sh", "my tools/run.sh"], &["my tools/run.sh"]),
            (&["bin/serve", "--db", "notes.db"], &["bin/serve"]),
            (&["serve"], &["bin/serve"]),
            (
                &["npx", "-y", "server-x@1.0", "data"],
                &["node_modules/server-x/package.json"],
            ),
            (&["no-such-program", "data"], &[]),
        ] {
            let args: Vec<String> = line[1..].iter().map(|arg| (*arg).to_owned()).collect();
            let program = StartedProgram {
                command: line[0],
                args: &args,
                search_path: Some(&bin),
                folder: project,
                project,
            };
            let found: Vec<String> = program
                .files()
                .iter()
                .filter_map(|path| path.canonicalize().ok())
                .filter_map(|path| {
                    let below = path.strip_prefix(project.canonicalize().unwrap()).ok()?;
                    Some(below.display().to_string())
                })
                .collect();
            assert_eq!(found, expected, "{line:?}");
        }
    }
}
