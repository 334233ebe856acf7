//! Files that shell scripts and Makefiles run as part of themselves: `. ./lib.txt`, `source lib`,
//! `sh steps.txt` and `include rules.txt`. Such a file is code, whatever its name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use goondan_spec::regular_file;
use serde_json::Value;

use crate::loaded_files::{has_inline_code, is_interpreter};
use crate::program_search::first_line_words;
use crate::shell::{self, CommandEffect, LineWord};
use crate::started_files::{is_data, pieces};

mod named_files;
mod script_checks;
mod script_text;
mod script_variables;
mod statement_reader;

use named_files::names_in_script;
pub use named_files::path_strings;
use script_text::{ScriptStatement, ScriptText, ScriptWord, cleaned_recipe, logical_lines};

/// Limit of scripts that are read.
const MAX_SCRIPTS: usize = 200;
/// Limit of bytes of a script. In a larger script, the files are unknown.
const MAX_SCRIPT_BYTES: u64 = 512 * 1024;
/// Maximum number of directories in which relative paths can start, including the targets of `cd`.
const MAX_DIRECTORIES: usize = 16;

/// Suffixes of shell scripts.
const SHELL_SUFFIXES: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];
/// Programs that run no shell which their arguments name, such as package managers.
const NON_STARTING_PROGRAMS: [&str; 11] = [
    "-V", "-v", "apk", "apt", "apt-get", "brew", "chsh", "dnf", "hash", "pacman", "type",
];
/// Number of bytes at the start of a file in which a program has a zero byte.
const BINARY_CHECK_BYTES: u64 = 512;
/// Interpreters whose first argument is code, and not a file.
const TEXT_FILTERS: [&str; 6] = ["awk", "gawk", "gsed", "mawk", "nawk", "sed"];
/// Options with which an interpreter runs no code.
const QUERY_OPTIONS: [&str; 5] = ["--help", "--version", "-V", "-h", "-v"];
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
    let temporary = std::env::temp_dir();
    let own_directories: Vec<PathBuf> = folders
        .iter()
        .cloned()
        .chain([project.to_owned(), temporary])
        .collect();
    let mut search = SourceSearch {
        folders: folders.to_vec(),
        start_folders: folders,
        own_directories: &own_directories,
        functions: BTreeSet::new(),
        data_variables: BTreeSet::new(),
        run_variables: BTreeSet::new(),
        copies_unknown_data: false,
        runs_scripts: false,
        is_in_own_script: false,
        known: BTreeSet::new(),
        todo: Vec::new(),
        sourced: SourcedFiles::default(),
    };
    for (line, folder) in lines.iter().zip(folders.iter().cycle()) {
        search.read_shell(line, folder);
    }
    search.sourced.are_unknown = false;
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
        search.is_in_own_script = search.is_own(&script);
        search.read(&script, kind);
        search.sourced.are_unknown &= search.is_in_own_script || are_unknown;
    }
    search.sourced.are_unknown |= search.copies_unknown_data && search.runs_scripts
        || !search.data_variables.is_disjoint(&search.run_variables);
    search.sourced.files.retain(|file| !scripts.contains(file));
    search.sourced
}

/// Returns true if a program neither runs nor reads the content of the files that its arguments name.
fn never_loads_files(program: &str) -> bool {
    program == "chmod" || shell::never_reads_files(program)
}

/// Returns true if a file is a program or has a first line `#!`, so no shell interprets it by
/// default.
fn has_first_line(path: &Path) -> bool {
    let start = regular_file::read_start(path, BINARY_CHECK_BYTES);
    start.is_ok_and(|start| start.starts_with(b"#!") || start.contains(&0))
}

struct SourceSearch<'a> {
    /// Directories in which a relative path may start.
    folders: Vec<PathBuf>,
    /// Directories in which the lines run.
    start_folders: &'a [PathBuf],
    /// Directories in which an agent may be able to write.
    own_directories: &'a [PathBuf],
    /// Functions of the scripts.
    functions: BTreeSet<String>,
    /// Variables whose values come from data. A script gives them to the programs that it starts.
    data_variables: BTreeSet<String>,
    /// Variables that commands use although their script does not set them. If another script sets
    /// one from data, the files that run are unknown.
    run_variables: BTreeSet<String>,
    /// A command can write files with data that the scripts do not name.
    copies_unknown_data: bool,
    /// A command runs a script, which can be such a copy.
    runs_scripts: bool,
    /// A script is read that an agent could change. The caller covers the files that a line itself
    /// names.
    is_in_own_script: bool,
    known: BTreeSet<(PathBuf, ScriptKind)>,
    todo: Vec<(PathBuf, ScriptKind)>,
    sourced: SourcedFiles,
}

impl SourceSearch<'_> {
    /// Returns true if an agent may be able to change a file.
    fn is_own(&self, path: &Path) -> bool {
        let mut directories = self.own_directories.iter();
        directories.any(|directory| path.starts_with(directory))
    }

    /// Adds the files whose names occur in the text of a script, except for databases and other
    /// files that programs write.
    fn add_named_files(&mut self, text: &str, around: &Path) {
        if !self.is_in_own_script {
            return;
        }
        let Some(names) = names_in_script(text) else {
            self.sourced.are_unknown = true;
            return;
        };
        for name in names {
            for path in self.existing_paths(&name, around) {
                if is_data(&path) || !self.is_own(&path) {
                    continue;
                }
                if let Some(kind) = ScriptKind::of(&path) {
                    self.add(path.clone(), kind);
                }
                self.sourced.files.insert(path);
            }
        }
    }

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
        self.add_named_files(&text, script_folder);
        match kind {
            ScriptKind::Shell => self.read_shell(&text, script_folder),
            ScriptKind::Makefile => self.read_makefile(&text, &['\t'], script_folder),
            ScriptKind::Justfile => self.read_makefile(&text, &['\t', ' '], script_folder),
            ScriptKind::Manifest => self.read_manifest(&text, script_folder),
        }
    }

    fn read_shell(&mut self, text: &str, around: &Path) {
        let script = ScriptText::read(text, around);
        if self.is_in_own_script {
            self.check_text(&script);
        }
        for statement in &script.statements {
            self.read_statement(statement, around);
        }
    }

    /// Adds the files of a command line in the arguments of a command. Data that a script reads can
    /// end the command in which it is inserted, and begin another one.
    fn read_string(&mut self, words: &[ScriptWord], around: &Path) {
        self.sourced.are_unknown |= words.iter().any(|word| word.is_computed);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        self.read_shell(&texts.join(" "), around);
    }

    /// Adds the files that the entries of `scripts` in a `package.json` run.
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
            self.read_make_variable(&line);
            let line = line.split('#').next().unwrap_or_default();
            // The first command of a rule can be in the same line.
            if let Some((_, recipe)) = line.split_once(';').filter(|(rule, _)| rule.contains(':')) {
                self.read_shell(&cleaned_recipe(recipe), around);
            }
            let mut words = line.split_whitespace();
            if matches!(words.next(), Some("include" | "-include" | "sinclude")) {
                for text in words {
                    let is_known = !text.contains(['$', '*', '?', '[']);
                    let word = ScriptWord {
                        is_known,
                        is_computed: !is_known,
                        ..ScriptWord::new(text)
                    };
                    self.add_word(&word, ScriptKind::Makefile, around);
                }
            }
        }
    }

    /// Notices a line of a Makefile that sets a variable to data, or that changes how `make` reads
    /// the file.
    fn read_make_variable(&mut self, line: &str) {
        if !self.is_in_own_script {
            return;
        }
        let generates_rules = line.contains("(eval") || line.contains("{eval");
        let line = line.trim_start_matches("override ");
        let line = line.trim_start_matches("export ");
        let name_end = line
            .find([':', '=', '+', '?', '!', ' '])
            .unwrap_or(line.len());
        let (name, value) = line.split_at(name_end);
        let changes_reading = [".RECIPEPREFIX", ".SHELLFLAGS", "SHELL", "define"].contains(&name);
        self.sourced.are_unknown |= generates_rules || changes_reading && !value.is_empty();
        if shell::is_variable_name(name) && (value.contains("$(") || value.contains("${")) {
            self.data_variables.insert(name.to_owned());
        }
    }

    /// Adds the files that one command can run or copy.
    fn read_statement(&mut self, statement: &ScriptStatement, around: &Path) {
        if self.is_in_own_script {
            self.check_assignments(statement, around);
        }
        let words = statement.command_words();
        let Some((program, arguments)) = words.split_first() else {
            return;
        };
        let first = arguments.iter().find(|word| !word.text.starts_with('-'));
        match program.text.as_str() {
            "cd" | "pushd" => return self.add_cd_target(first, around),
            "eval" => return self.read_string(arguments, around),
            "." | "source" => {
                if let Some(word) = first {
                    self.add_word(word, ScriptKind::Shell, around);
                }
                return;
            }
            name if never_loads_files(name) => return,
            _ => {}
        }
        let command: Vec<LineWord> = words
            .iter()
            .map(|word| LineWord::of_script(&word.text, !word.is_known))
            .collect();
        if self.is_in_own_script {
            self.check_command(statement, words);
        }
        if shell::effect(&command) == CommandEffect::Prints && !statement.writes_file {
            return;
        }
        self.sourced.are_unknown |= shell::runs_listed_files(&command);
        self.add_program(program, around);
        if self.is_in_own_script || !program.is_known {
            self.add_arguments(program, arguments, around);
        }
        if self.is_in_own_script {
            self.add_option_directories(words, around);
        }
        if NON_STARTING_PROGRAMS.contains(&program.text.as_str()) {
            return;
        }
        // Other programs start a shell or `make` in their arguments, such as `timeout 5 sh x`.
        for (at, word) in words.iter().enumerate() {
            let rest = &words[at + 1..];
            match word.text.rsplit('/').next().unwrap_or_default() {
                _ if shell::is_shell(&word.text) => self.read_shell_call(rest, around),
                name if TEXT_FILTERS.contains(&name) => self.read_filter_call(rest),
                name if is_interpreter(name) => {
                    self.read_interpreter_call(rest, statement.has_document);
                }
                "make" | "gmake" => self.read_make_call(rest, around),
                _ if word.text.contains(char::is_whitespace) && shell::runs_strings(&command) => {
                    self.read_string(std::slice::from_ref(word), around);
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
    fn add_arguments(&mut self, program: &ScriptWord, arguments: &[ScriptWord], around: &Path) {
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
    fn read_shell_call(&mut self, words: &[ScriptWord], around: &Path) {
        let has_line = |word: &&ScriptWord| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('c')
        };
        let is_option = |word: &&ScriptWord| word.text.starts_with(['-', '+']);
        let options = words.iter().take_while(is_option);
        let is_line = options.clone().any(|word| has_line(&word));
        let reads_input = |word: &&ScriptWord| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('s')
        };
        self.sourced.are_unknown |= !is_line && options.clone().any(|word| reads_input(&word));
        let Some(first) = words.get(options.count()) else {
            // Without a script, a shell reads commands from its input.
            self.sourced.are_unknown |= !words.iter().any(|word| word.text.starts_with("--"));
            return;
        };
        if is_line {
            self.read_string(std::slice::from_ref(first), around);
        } else {
            self.add_word(first, ScriptKind::Shell, around);
        }
    }

    /// Notices a script of an interpreter that the text does not determine. [`Self::add_arguments`]
    /// adds known ones. Without a script, an interpreter reads its input, which is known if it is a
    /// here-document (`has_document`).
    fn read_interpreter_call(&mut self, words: &[ScriptWord], has_document: bool) {
        if has_inline_code(words.iter().map(|word| word.text.as_str())) {
            return;
        }
        let is_query = |word: &ScriptWord| QUERY_OPTIONS.contains(&word.text.as_str());
        let script = words.iter().find(|word| !word.text.starts_with('-'));
        self.sourced.are_unknown |= match script {
            Some(script) => !script.is_known,
            None => self.is_in_own_script && !has_document && !words.iter().any(is_query),
        };
    }

    /// Notices an unknown script of `awk -f FILE` or `sed -f FILE`.
    fn read_filter_call(&mut self, words: &[ScriptWord]) {
        let names_file = |word: &ScriptWord| word.text.starts_with("-f") || word.text == "--file";
        let files = words.windows(2).filter(|pair| names_file(&pair[0]));
        self.sourced.are_unknown |= files.flatten().any(|word| !word.is_known);
    }

    /// Adds the Makefiles of `make -f FILE`.
    fn read_make_call(&mut self, words: &[ScriptWord], around: &Path) {
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

    /// Handles `cd DIR`: later relative paths can also start in that directory. In a script that an
    /// agent could change, all code in it is covered.
    fn add_cd_target(&mut self, word: Option<&ScriptWord>, around: &Path) {
        let Some(word) = word.filter(|word| word.is_known) else {
            return;
        };
        if self.is_in_own_script {
            self.add_code_directory(&word.text, around);
        }
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
        if word.text.starts_with("/dev/") {
            // Another command may write into a device, such as the input of the script.
            self.sourced.are_unknown |= self.is_in_own_script;
        } else if existing_paths.is_empty() {
            self.sourced
                .missing
                .extend(self.possible_paths(&word.text, around));
        }
        for path in existing_paths {
            self.sourced.files.insert(path.clone());
            self.add(path, kind);
        }
    }

    /// Returns the existing files to which a path in a script can refer, depending on the working
    /// directory.
    fn existing_paths(&self, path: &str, around: &Path) -> Vec<PathBuf> {
        let paths = self.possible_paths(path, around).into_iter();
        paths.filter(|path| path.is_file()).collect()
    }

    /// Returns the places to which a path in a script can refer, depending on the working directory.
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
