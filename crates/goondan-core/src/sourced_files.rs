//! Files that shell scripts and Makefiles run as part of themselves: `. ./lib.txt`, `source lib`,
//! `sh steps.txt` and `include rules.txt`. Such a file is code, whatever its name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use goondan_spec::regular_file;
use serde_json::Value;

use crate::loaded_files::{has_inline_code, is_interpreter};
use crate::program_search::first_line_words;
use crate::shell::{self, LineWord};
use crate::started_files::{is_data, pieces};

mod script_text;

use script_text::{ScriptStatement, ScriptWord, cleaned_recipe, logical_lines, statements};

/// Limit of scripts that are read.
const MAX_SCRIPTS: usize = 200;
/// Limit of bytes of a script. In a larger script, the files are unknown.
const MAX_SCRIPT_BYTES: u64 = 512 * 1024;
/// Limit of directories into which the scripts change.
const MAX_DIRECTORIES: usize = 16;

/// Suffixes of shell scripts.
const SHELL_SUFFIXES: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];
/// Words before a command that do not change which file it runs.
const PREFIXES: [&str; 14] = [
    "!", "{", "builtin", "command", "coproc", "do", "elif", "else", "exec", "if", "then", "time",
    "until", "while",
];
/// Programs that run no shell which their arguments name, such as package managers.
const NON_STARTING_PROGRAMS: [&str; 11] = [
    "-V", "-v", "apk", "apt", "apt-get", "brew", "chsh", "dnf", "hash", "pacman", "type",
];
/// Number of bytes at the start of a file in which a program has a zero byte.
const BINARY_CHECK_BYTES: u64 = 512;
/// Interpreters whose first argument is code, and not a file.
const TEXT_FILTERS: [&str; 6] = ["awk", "gawk", "gsed", "mawk", "nawk", "sed"];
/// Options of `make` that name a Makefile.
const MAKEFILE_OPTIONS: [&str; 3] = ["-f", "--file", "--makefile"];

/// Files that scripts run as part of themselves.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SourcedFiles {
    /// Existing files, without the scripts themselves.
    pub files: BTreeSet<PathBuf>,
    /// Possible paths of files that do not exist yet.
    pub missing: BTreeSet<PathBuf>,
    /// A script runs a file that its text does not determine.
    pub are_unknown: bool,
}

/// Language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ScriptKind {
    Shell,
    Makefile,
    /// A `justfile`, whose recipes are indented with blanks.
    Justfile,
    /// A `package.json`, whose scripts are command lines.
    Manifest,
}

impl ScriptKind {
    /// Returns the kind of a file by its name or first line.
    fn of(path: &Path) -> Option<ScriptKind> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
        match () {
            () if name.contains("makefile") || suffix == "mk" => Some(ScriptKind::Makefile),
            () if name.trim_start_matches('.') == "justfile" => Some(ScriptKind::Justfile),
            () if name == "package.json" => Some(ScriptKind::Manifest),
            () if SHELL_SUFFIXES.contains(&suffix) => Some(ScriptKind::Shell),
            () => first_line_words(path)
                .iter()
                .any(|word| shell::is_shell(word))
                .then_some(ScriptKind::Shell),
        }
    }
}

/// Returns the files that command lines, and the shell scripts and Makefiles among `scripts`, run as
/// part of themselves, directly and through each other. A relative path starts in one of `folders`,
/// in a directory into which a script changes, or in the directory of the script. An unknown file of
/// a line itself does not count, and none of a script outside of `folders`, `project` and the
/// temporary directory, such as a program of a version manager. Accesses the file system.
pub fn sourced_files(
    lines: &[String],
    scripts: &BTreeSet<PathBuf>,
    folders: &[PathBuf],
    project: &Path,
) -> SourcedFiles {
    let mut search = SourceSearch {
        folders: folders.to_vec(),
        is_in_own_script: false,
        known: BTreeSet::new(),
        todo: Vec::new(),
        sourced: SourcedFiles::default(),
    };
    for (line, folder) in lines.iter().zip(folders.iter().cycle()) {
        search.read_shell(line, folder);
    }
    search.sourced.are_unknown = false;
    let temporary = std::env::temp_dir();
    let is_own = |script: &Path| {
        let folders = folders.iter().map(PathBuf::as_path);
        let mut places = folders.chain([project, temporary.as_path()]);
        places.any(|place| script.starts_with(place))
    };
    for script in scripts.iter().filter(|script| script.is_file()) {
        if let Some(kind) = ScriptKind::of(script) {
            search.add(script.clone(), kind);
        }
    }
    let mut count = 0;
    while let Some((script, kind)) = search.todo.pop() {
        count += 1;
        if count > MAX_SCRIPTS {
            search.sourced.are_unknown = true;
            break;
        }
        let are_unknown = search.sourced.are_unknown;
        search.is_in_own_script = is_own(&script);
        search.read(&script, kind);
        search.sourced.are_unknown &= search.is_in_own_script || are_unknown;
    }
    search.sourced.files.retain(|file| !scripts.contains(file));
    search.sourced
}

/// Returns true if a file is a program or has a first line `#!`, so no shell interprets it by
/// default.
fn has_first_line(path: &Path) -> bool {
    let start = regular_file::read_start(path, BINARY_CHECK_BYTES);
    start.is_ok_and(|start| start.starts_with(b"#!") || start.contains(&0))
}

struct SourceSearch {
    /// Directories in which a relative path may start.
    folders: Vec<PathBuf>,
    /// A script is read that an agent could change. The caller covers the files that a line itself
    /// names.
    is_in_own_script: bool,
    known: BTreeSet<(PathBuf, ScriptKind)>,
    todo: Vec<(PathBuf, ScriptKind)>,
    sourced: SourcedFiles,
}

impl SourceSearch {
    fn add(&mut self, script: PathBuf, kind: ScriptKind) {
        if self.known.insert((script.clone(), kind)) {
            self.todo.push((script, kind));
        }
    }

    /// Adds the files that the text of a script names.
    fn read(&mut self, script: &Path, kind: ScriptKind) {
        let Ok(text) = regular_file::read_start(script, MAX_SCRIPT_BYTES) else {
            return;
        };
        self.sourced.are_unknown |= text.len() as u64 == MAX_SCRIPT_BYTES;
        let text = String::from_utf8_lossy(&text);
        let script_folder = script.parent().unwrap_or(script);
        match kind {
            ScriptKind::Shell => self.read_shell(&text, script_folder),
            ScriptKind::Makefile => self.read_makefile(&text, &['\t'], script_folder),
            ScriptKind::Justfile => self.read_makefile(&text, &['\t', ' '], script_folder),
            ScriptKind::Manifest => self.read_manifest(&text, script_folder),
        }
    }

    fn read_shell(&mut self, text: &str, around: &Path) {
        for statement in statements(text, around) {
            self.read_statement(&statement, around);
        }
    }

    /// Adds the files of a command line in the arguments of a command. Data that a script reads can
    /// end the command in which it is inserted, and begin another one.
    fn read_string(&mut self, words: &[&ScriptWord], around: &Path) {
        self.sourced.are_unknown |= words.iter().any(|word| word.is_computed);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        self.read_shell(&texts.join(" "), around);
    }

    /// Adds the files of the command lines in a `package.json`.
    fn read_manifest(&mut self, text: &str, around: &Path) {
        let manifest: Value = serde_json::from_str(text).unwrap_or_default();
        let scripts = manifest.get("scripts").and_then(Value::as_object);
        for line in scripts
            .into_iter()
            .flatten()
            .filter_map(|(_, line)| line.as_str())
        {
            self.read_shell(line, around);
        }
    }

    /// Adds the files of the lines `include` and of the recipes, which begin with a character of
    /// `indents`.
    fn read_makefile(&mut self, text: &str, indents: &[char], around: &Path) {
        for line in logical_lines(text) {
            if let Some(recipe) = line.strip_prefix(indents) {
                self.read_shell(&cleaned_recipe(recipe), around);
                continue;
            }
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            if matches!(words.next(), Some("include" | "-include" | "sinclude")) {
                for word in words {
                    let is_known = !word.contains(['$', '*', '?', '[']);
                    let word = ScriptWord {
                        text: word.to_owned(),
                        is_known,
                        is_computed: !is_known,
                    };
                    self.add_word(&word, ScriptKind::Makefile, around);
                }
            }
        }
    }

    /// Adds the files that one command can run or copy.
    fn read_statement(&mut self, statement: &ScriptStatement, around: &Path) {
        let is_prefix = |word: &&ScriptWord| {
            PREFIXES.contains(&word.text.as_str()) || shell::is_assignment(&word.text)
        };
        let words = statement.words.iter().skip_while(is_prefix);
        let words: Vec<&ScriptWord> = words.collect();
        let Some((program, arguments)) = words.split_first() else {
            return;
        };
        let first = arguments.iter().find(|word| !word.text.starts_with('-'));
        match program.text.as_str() {
            "cd" | "pushd" => return self.add_directory(first.copied()),
            "eval" => return self.read_string(arguments, around),
            "." | "source" => {
                if let Some(word) = first {
                    self.add_word(word, ScriptKind::Shell, around);
                }
                return;
            }
            "chmod" => return,
            name if shell::never_reads_files(name) => return,
            _ => {}
        }
        let command: Vec<LineWord> = words
            .iter()
            .map(|word| LineWord::of_script(&word.text, !word.is_known))
            .collect();
        if shell::is_printing(&command) && !statement.writes_file {
            return;
        }
        self.sourced.are_unknown |= shell::runs_listed_files(&command);
        self.add_program(program, around);
        if self.is_in_own_script || !program.is_known {
            self.add_arguments(program, arguments, around);
        }
        if NON_STARTING_PROGRAMS.contains(&program.text.as_str()) {
            return;
        }
        // Other programs start a shell or `make` in their arguments, such as `timeout 5 sh x`.
        for (at, word) in words.iter().enumerate() {
            match word.text.rsplit('/').next().unwrap_or_default() {
                _ if shell::is_shell(&word.text) => self.read_shell_call(&words[at + 1..], around),
                name if TEXT_FILTERS.contains(&name) => self.read_filter_call(&words[at + 1..]),
                name if is_interpreter(name) => self.read_interpreter_call(&words[at + 1..]),
                "make" | "gmake" => self.read_make_call(&words[at + 1..], around),
                _ if word.text.contains(char::is_whitespace) && shell::runs_strings(&command) => {
                    self.read_string(&[word], around);
                }
                _ => {}
            }
        }
    }

    /// Adds the file that a command runs directly. A text without a first line `#!` is a shell
    /// script.
    fn add_program(&mut self, program: &ScriptWord, around: &Path) {
        if !program.is_known {
            self.sourced.are_unknown |= program.is_computed || program.text.contains('/');
            return;
        }
        if !program.text.contains('/') {
            return;
        }
        for path in self.existing_paths(&program.text, around) {
            self.sourced.files.insert(path.clone());
            let default = Some(ScriptKind::Shell).filter(|_| !has_first_line(&path));
            if let Some(kind) = ScriptKind::of(&path).or(default) {
                self.add(path, kind);
            }
        }
    }

    /// Adds the files that the arguments of a command name, except for databases and other files
    /// that programs write. An unknown program can be a shell.
    fn add_arguments(&mut self, program: &ScriptWord, arguments: &[&ScriptWord], around: &Path) {
        let default = Some(ScriptKind::Shell).filter(|_| !program.is_known);
        for word in arguments.iter().filter(|word| word.is_known) {
            let names = pieces(&word.text);
            let paths = names
                .iter()
                .flat_map(|name| self.existing_paths(name, around));
            let paths: BTreeSet<PathBuf> = paths.collect();
            for path in paths.into_iter().filter(|path| !is_data(path)) {
                self.sourced.files.insert(path.clone());
                let default = default.filter(|_| !has_first_line(&path));
                if let Some(kind) = ScriptKind::of(&path).or(default) {
                    self.add(path, kind);
                }
            }
        }
    }

    /// Adds the script of `sh SCRIPT`, or the files that `sh -c LINE` runs.
    fn read_shell_call(&mut self, words: &[&ScriptWord], around: &Path) {
        let has_line = |word: &&&ScriptWord| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('c')
        };
        let is_option = |word: &&&ScriptWord| word.text.starts_with(['-', '+']);
        let options = words.iter().take_while(is_option);
        let is_line = options.clone().any(|word| has_line(&word));
        let Some(first) = words.get(options.count()) else {
            // Without a script, a shell reads commands from its input.
            self.sourced.are_unknown |= !words.iter().any(|word| word.text.starts_with("--"));
            return;
        };
        if is_line {
            self.read_string(&[first], around)
        } else {
            self.add_word(first, ScriptKind::Shell, around)
        }
    }

    /// Notices a script of an interpreter that the text does not determine. [`Self::add_arguments`]
    /// adds known ones.
    fn read_interpreter_call(&mut self, words: &[&ScriptWord]) {
        if has_inline_code(words.iter().map(|word| word.text.as_str())) {
            return;
        }
        let script = words.iter().find(|word| !word.text.starts_with('-'));
        self.sourced.are_unknown |= script.is_some_and(|word| !word.is_known);
    }

    /// Notices an unknown script of `awk -f FILE` or `sed -f FILE`.
    fn read_filter_call(&mut self, words: &[&ScriptWord]) {
        let names_file = |word: &ScriptWord| word.text.starts_with("-f") || word.text == "--file";
        let files = words.windows(2).filter(|pair| names_file(pair[0]));
        self.sourced.are_unknown |= files.flatten().any(|word| !word.is_known);
    }

    /// Adds the Makefiles of `make -f FILE`.
    fn read_make_call(&mut self, words: &[&ScriptWord], around: &Path) {
        for (at, word) in words.iter().enumerate() {
            let option = MAKEFILE_OPTIONS
                .iter()
                .find_map(|option| word.text.strip_prefix(option));
            match option {
                Some("") => {
                    if let Some(word) = words.get(at + 1) {
                        self.add_word(word, ScriptKind::Makefile, around);
                    }
                }
                Some(value) => {
                    let word = ScriptWord {
                        text: value.trim_start_matches('=').to_owned(),
                        ..(*word).clone()
                    };
                    self.add_word(&word, ScriptKind::Makefile, around);
                }
                None => {}
            }
        }
    }

    /// Adds a directory into which a script changes.
    fn add_directory(&mut self, word: Option<&ScriptWord>) {
        let Some(word) = word.filter(|word| word.is_known) else {
            return;
        };
        let directories = self.folders.iter().map(|folder| folder.join(&word.text));
        let directories: Vec<PathBuf> = directories.filter(|path| path.is_dir()).collect();
        for path in directories {
            if self.folders.len() < MAX_DIRECTORIES && !self.folders.contains(&path) {
                self.folders.push(path);
            }
        }
    }

    /// Adds a file that a script runs as part of itself.
    fn add_word(&mut self, word: &ScriptWord, kind: ScriptKind, around: &Path) {
        if !word.is_known {
            self.sourced.are_unknown = true;
            return;
        }
        let existing_paths = self.existing_paths(&word.text, around);
        // A device, such as the input of the script, is no file that can change.
        if existing_paths.is_empty() && !word.text.starts_with("/dev/") {
            self.sourced
                .missing
                .extend(self.possible_paths(&word.text, around));
        }
        for path in existing_paths {
            self.sourced.files.insert(path.clone());
            self.add(path, kind);
        }
    }

    /// Returns the existing files that a path can mean.
    fn existing_paths(&self, path: &str, around: &Path) -> Vec<PathBuf> {
        let paths = self.possible_paths(path, around).into_iter();
        paths.filter(|path| path.is_file()).collect()
    }

    /// Returns the places that a path can mean.
    fn possible_paths(&self, path: &str, around: &Path) -> BTreeSet<PathBuf> {
        let path = match path.strip_prefix("~/").zip(std::env::home_dir()) {
            Some((below, home)) => home.join(below),
            None => PathBuf::from(path),
        };
        let folders = self.folders.iter().map(PathBuf::as_path).chain([around]);
        // Without `.` in the middle.
        let places = folders.map(|folder| folder.join(&path).components().collect());
        places.collect()
    }
}

#[cfg(test)]
mod tests;
