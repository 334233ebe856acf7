//! Files of a program that gdn starts from the configuration, such as the script of an MCP server.
//!
//! An approval of the program's tools covers the content of these files, and file tools ask before
//! they write one. The command line, the values of its variables, and the first lines of its scripts
//! are analyzed. Files that the program finds itself, such as imported modules, are unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::code_directory::{CodeDirectory, direct_code_files};
use crate::content_hash::content_identity;
use crate::program_search::{find_program, interpreters};
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

/// Options whose value is a directory from which a program loads code, in the next word or in the
/// same one.
const CODE_OPTIONS: [&str; 10] = [
    "-I",
    "-L",
    "-cp",
    "-classpath",
    "--class-path",
    "--classpath",
    "--module-path",
    "--include",
    "--load",
    "--plugin",
];

/// Suffixes of files that a server writes itself, such as its database.
const DATA_SUFFIXES: [&str; 5] = ["db", "jsonl", "log", "sqlite", "sqlite3"];

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
    /// Variables of the program by name. A program may load a file that a value names, such as that
    /// of `PYTHONSTARTUP`. Without `PATH`, that of gdn is searched.
    pub variables: &'a BTreeMap<String, String>,
    /// Working directory.
    pub folder: &'a Path,
    /// Directory of the project.
    pub project: &'a Path,
}

impl StartedProgram<'_> {
    /// Returns the existing files that the command line and the variables name, or that the programs
    /// load because of their names, such as `package.json`. Directories of code, the interpreters of
    /// scripts, and paths that lead to another file in the program's own process
    /// (`depends_on_process`) are included. Accesses the file system.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let words: Vec<&str> = std::iter::once(self.command)
            .chain(self.args.iter().flat_map(|arg| command_words(arg)))
            .collect();
        let programs = ProgramNames::of(words.iter().copied());
        // An argument may also be a whole path with blanks.
        let arguments = self.args.iter().map(String::as_str);
        let values = self.variables.values().map(String::as_str);
        let values = values.flat_map(|value| std::iter::once(value).chain(command_words(value)));
        let named = arguments.chain(words.into_iter().skip(1)).chain(values);
        let pieces: Vec<String> = named.flat_map(pieces).take(MAX_SEARCHED_PATHS).collect();
        let folders = self.directories(&pieces);
        let mut paths: Vec<PathBuf> = programs.command_files(&folders).collect();
        for folder in &folders {
            for piece in &pieces {
                paths.extend(programs.implied_files(folder, piece));
                paths.push(folder.join(piece));
            }
        }
        let counts =
            |path: &PathBuf| (path.is_file() && !is_data(path)) || depends_on_process(path);
        let mut files: BTreeSet<PathBuf> = paths.into_iter().filter(counts).collect();
        files.extend(self.program_file());
        files.extend(self.code_directories());
        files.extend(interpreters(&files, &folders, self.search_path()));
        files
    }

    /// Returns the content of the program's files by path. Accesses the file system.
    pub fn contents(&self) -> BTreeMap<String, String> {
        let files = self.files().into_iter();
        files
            .map(|path| (path.display().to_string(), content_identity(&path)))
            .collect()
    }

    fn search_path(&self) -> Option<&OsStr> {
        self.variables.get("PATH").map(OsStr::new)
    }

    /// Returns the file of the command. A command without a slash is a program of the machine,
    /// unless the search path leads into the project.
    fn program_file(&self) -> Option<PathBuf> {
        if self.command.contains('/') {
            return Some(self.folder.join(self.command)).filter(|file| file.is_file());
        }
        let found = find_program(self.command, self.search_path(), self.folder)?;
        is_below(&found, &[self.project, self.folder]).then_some(found)
    }

    /// Returns the directories of code that the variables and options name. Of a directory of the
    /// project that contains the working directory, returns the files directly in it.
    fn code_directories(&self) -> BTreeSet<PathBuf> {
        let words = self.args.iter().flat_map(|arg| command_words(arg));
        let mut named: Vec<String> = code_options(words);
        for value in self.variables.values() {
            named.push(value.clone());
            named.extend(command_words(value).map(str::to_owned));
        }
        let paths = named.iter().flat_map(|text| pieces(text));
        let mut found = BTreeSet::new();
        for path in paths.take(MAX_SEARCHED_PATHS) {
            let path = self.folder.join(path);
            match CodePlace::of(&path, self.folder, &[self.project, self.folder]) {
                CodePlace::Directory => drop(found.insert(path)),
                // A program writes data in directories above the project.
                CodePlace::AroundFolder if is_below(&path, &[self.project]) => {
                    found.extend(direct_code_files(&path));
                }
                CodePlace::AroundFolder | CodePlace::Other => {}
            }
        }
        found
    }

    /// Returns the working directory, and the directories that the command line names: a program may
    /// change into one of them, as `make -C` does.
    fn directories(&self, pieces: &[String]) -> Vec<PathBuf> {
        let named = pieces.iter().map(|piece| self.folder.join(piece));
        let mut folders = vec![self.folder.to_owned()];
        for path in named.filter(|path| path.is_dir()) {
            if folders.len() < MAX_DIRECTORIES && !folders.contains(&path) {
                folders.push(path);
            }
        }
        folders
    }
}

/// Meaning of a path that a variable or an option names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodePlace {
    /// Anything else, such as a directory of the machine.
    Other,
    /// A directory with code, in which a sandboxed program or a file tool may write.
    Directory,
    /// The working directory, or a directory above it.
    AroundFolder,
}

impl CodePlace {
    /// Classifies a path. `folder` is the working directory, and `own` are the directories of the
    /// project. Accesses the file system.
    pub fn of(path: &Path, folder: &Path, own: &[&Path]) -> CodePlace {
        let temporary = std::env::temp_dir();
        let is_own = is_below(path, own)
            || path.is_dir() && path != temporary && is_below(path, &[&temporary]);
        let Some(real) = path
            .canonicalize()
            .ok()
            .filter(|real| is_own && real.is_dir())
        else {
            return CodePlace::Other;
        };
        if folder
            .canonicalize()
            .is_ok_and(|folder| folder.starts_with(&real))
        {
            return CodePlace::AroundFolder;
        }
        // A directory with too many entries may contain code.
        match CodeDirectory::read(&real).is_none_or(|code| !code.files.is_empty()) {
            true => CodePlace::Directory,
            false => CodePlace::Other,
        }
    }
}

/// Returns true if `path` is in one of `folders`, by its name or through links.
pub fn is_below(path: &Path, folders: &[&Path]) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    folders.iter().any(|folder| {
        let real_folder = folder.canonicalize();
        path.starts_with(folder) || real_folder.is_ok_and(|folder| real.starts_with(folder))
    })
}

/// Names of the programs in a command line.
pub struct ProgramNames(BTreeSet<String>);

impl ProgramNames {
    /// Takes the words of a command line.
    pub fn of<'w>(words: impl Iterator<Item = &'w str>) -> ProgramNames {
        ProgramNames(words.map(program_name).collect())
    }

    fn has(&self, programs: &[&str]) -> bool {
        programs.iter().any(|name| self.0.contains(*name))
    }

    /// Returns true if one of the programs runs the commands of a file, such as a `Makefile`.
    pub fn run_command_files(&self) -> bool {
        COMMAND_FILES
            .iter()
            .any(|(program, _)| self.has(&[program]))
    }

    /// Returns the files that define the commands of the programs, in each of `folders`. They may
    /// not exist.
    pub fn command_files(&self, folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
        let files = COMMAND_FILES
            .iter()
            .filter(|(program, _)| self.has(&[program]))
            .flat_map(|(_, files)| files.iter());
        files.flat_map(|file| folders.iter().map(move |folder| folder.join(file)))
    }

    /// Returns the files that the programs load for a name that is no path of a file, such as a
    /// module. They may not exist.
    pub fn implied_files(&self, folder: &Path, name: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        if self.has(&PACKAGE_RUNNERS) {
            files.extend(package_files(folder, name));
        }
        if self.has(&INTERPRETERS) {
            files.extend(script_files(folder, name));
        }
        files
    }
}

/// Returns the words that are options for a directory of code, and the words that follow one.
pub fn code_options<'w>(words: impl Iterator<Item = &'w str>) -> Vec<String> {
    let mut is_after_option = false;
    let is_named = |word: &&str| {
        let is_option = CODE_OPTIONS.iter().any(|option| word.starts_with(option));
        let is_value = std::mem::replace(&mut is_after_option, is_option);
        is_option || is_value
    };
    words.filter(is_named).map(str::to_owned).collect()
}

/// Returns the words of an argument, which can be a command line.
pub fn command_words(argument: &str) -> impl Iterator<Item = &str> {
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

/// Returns true if the name is that of a file which a program writes, such as its database.
pub(crate) fn is_data(path: &Path) -> bool {
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
            "sub/Makefile",
        ] {
            let path = project.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        std::fs::write(project.join("script"), "#!bin/serve\n").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(project.join("bin/serve"), executable).unwrap();
        }
        let bin = project.join("bin").display().to_string();
        let variables = BTreeMap::from([("PATH".to_owned(), bin)]);
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
            (&["make", "-s", "-C", "sub"], &["sub/Makefile"]),
            (&["make", "-sCsub"], &["sub/Makefile"]),
            (&["make", "--directory=sub"], &["sub/Makefile"]),
            (&["make", "--makefile=sub/Makefile"], &["sub/Makefile"]),
            (&["npm", "--prefix", "app", "start"], &["app/package.json"]),
            (&["perl", "-Ilib"], &["lib"]),
            (&["perl", "-I", "lib"], &["lib"]),
            (&["./script"], &["bin/serve", "script"]),
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
            let mut expected = expected.to_vec();
            // The directory of the search path contains code.
            expected.extend(["bin"]);
            expected.sort_unstable();
            assert_eq!(
                found_files(project, line[0], &args, &variables),
                expected,
                "{line:?}"
            );
        }
    }

    #[test]
    fn the_files_and_directories_that_variables_name_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path();
        for file in [
            "start.py",
            "hook.js",
            "lib/sitecustomize.py",
            "data/notes.txt",
        ] {
            let path = project.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let lib = project.join("lib").display().to_string();
        for (value, expected) in [
            ("start.py", &["start.py"][..]),
            ("--require ./hook.js", &["hook.js"]),
            ("--import=./hook.js", &["hook.js"]),
            ("-Ilib", &["lib"]),
            ("lib", &["lib"]),
            (&format!("/usr/lib:{lib}:data"), &["lib"]),
            (".", &["hook.js", "start.py"]),
            ("ssh -i start.py", &["start.py"]),
            ("data", &[]),
            ("/usr/lib", &[]),
            ("text", &[]),
        ] {
            let variables = BTreeMap::from([("ANY".to_owned(), value.to_owned())]);
            let found = found_files(project, "/usr/bin/env", &[], &variables);
            assert_eq!(found, expected, "{value}");
        }
    }

    /// Returns the found files of a program in the project, relative to it.
    fn found_files(
        project: &Path,
        command: &str,
        args: &[String],
        variables: &BTreeMap<String, String>,
    ) -> Vec<String> {
        let program = StartedProgram {
            command,
            args,
            variables,
            folder: project,
            project,
        };
        let real_project = project.canonicalize().unwrap();
        let found: BTreeSet<String> = program
            .files()
            .iter()
            .filter_map(|path| path.canonicalize().ok())
            .filter_map(|path| {
                let below = path.strip_prefix(&real_project).ok()?;
                Some(below.display().to_string())
            })
            .collect();
        found.into_iter().collect()
    }
}
