//! Files that a command line names, such as scripts and their input files. A remembered approval of
//! the line also covers their contents, because an agent could change the script later. It also
//! covers the targets of links in the named paths, because an agent could change the link later.
//!
//! The text is analyzed, and the first lines of the scripts that it names. A program may find other
//! files itself, such as an imported module or its settings. So all code in the directories in which
//! the line runs counts, and in those that it names. A line with an expansion or a pattern in a word
//! that may name a file to run has no remembered approval. The same applies to a line that may run
//! its input, files from a list, or copies ([`shell::runs_unknown_files`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use goondan_core::loaded_files::{NON_LOADING_PROGRAMS, ProgramNames, paths_in_settings};
use goondan_core::program_search::{find_program, interpreters};
use goondan_core::real_path::{depends_on_process, real_path};
use goondan_core::shell::{self, CommandPart, CommandPartKind};
use goondan_core::sourced_files::{path_strings, sourced_files};
use goondan_core::started_files::{CodePlace, code_options, has_expansion, is_below, pieces};
use goondan_spec::command_line::{self, CommandScript, CommandWord, ShellCommand, WordPiece};
use goondan_spec::pattern::PatternAtom;

pub(super) use self::repositories::is_version_control;
use self::repositories::repository_files;
use super::{protected_paths, shell_words};

/// Starts of the names of programs that install Python packages.
const PACKAGE_INSTALLERS: [&str; 3] = ["pip", "tox", "uv"];

/// Limit of words per call.
const MAX_WORDS: usize = 2000;
/// Limit of searched directories per call.
const MAX_SEARCHED_DIRS: usize = 16;
/// Limit of directory changes per call.
const MAX_DIR_CHANGES: usize = 4;
/// Limit of fragments between blanks and quotes that may form one name.
const MAX_JOINED_PIECES: usize = 4;
/// Limit of files that lists of packages name.
const MAX_REQUIREMENT_FILES: usize = 100;
/// Limit of nested strings.
const MAX_STRING_DEPTH: usize = 3;

/// Paths that occur in command lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReferencedPaths {
    /// Files, and directories of code, that the lines may run or read as code. They exist, except those
    /// that a script would run as a part of itself if they existed.
    pub(super) files: BTreeSet<PathBuf>,
    /// Targets of the named paths that contain links, by path.
    pub(super) link_targets: BTreeMap<PathBuf, PathBuf>,
    /// A path of a file to run that leads to different files in different processes.
    pub(super) process_dependent_path: Option<PathBuf>,
    /// A line starts a program of version control, whose effective settings are in many files.
    pub(super) starts_version_control: bool,
}

/// Returns the paths that `lines` refer to when they run in any of `folders`. The path of each
/// folder must be free of symbolic links. `project` is the directory of the project.
///
/// `None` if the files of a line are unknown: it cannot be split into words, has too many, has a
/// variable that names the working directory, or has an expansion that can name a file to run. The
/// same applies to a script that runs an unknown file as part of itself.
pub(super) fn find(
    lines: &[String],
    folders: &[PathBuf],
    project: &Path,
) -> Option<ReferencedPaths> {
    let mut referenced = ReferencedWords::default();
    if lines.iter().any(|line| shell::runs_unknown_files(line)) {
        return None;
    }
    for line in lines {
        referenced.add_line(line)?;
    }
    let word_count =
        referenced.words.len() + referenced.read_words.len() + referenced.data_words.len();
    if word_count > MAX_WORDS || referenced.directory_changes > MAX_DIR_CHANGES {
        return None;
    }
    let home = std::env::home_dir();
    let resolve = |folder: &PathBuf, word: &String| match word.strip_prefix("~/").zip(home.as_ref())
    {
        Some((relative, home)) => home.join(relative),
        None => folder.join(word),
    };
    let named_paths_below = |folder: &PathBuf, words: &BTreeSet<String>| {
        let paths = words.iter().map(|word| resolve(folder, word));
        paths.collect::<Vec<_>>()
    };
    let mut all_folders = folders.to_vec();
    let mut visited: BTreeSet<PathBuf> = all_folders
        .iter()
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    // A line may change into a directory before it names a file, and from there into the next one.
    for _ in 0..referenced.directory_changes.max(1) {
        let inside: Vec<PathBuf> = all_folders
            .iter()
            .flat_map(|folder| named_paths_below(folder, &referenced.words))
            .filter(|path| path.is_dir())
            .collect();
        all_folders.extend(
            inside
                .into_iter()
                .filter(|path| path.canonicalize().is_ok_and(|real| visited.insert(real))),
        );
        if all_folders.len() > MAX_SEARCHED_DIRS {
            return None;
        }
    }
    let in_each_folder = |words| {
        all_folders
            .iter()
            .flat_map(move |folder| named_paths_below(folder, words))
    };
    let own_folders: Vec<&Path> = folders
        .iter()
        .map(PathBuf::as_path)
        .chain([project])
        .collect();
    let mut files: BTreeSet<PathBuf> = in_each_folder(&referenced.words).collect();
    files.extend(referenced.implied_files(&all_folders, &own_folders));
    files.extend(referenced.changeable_programs(&all_folders, &own_folders));
    files.retain(|path| path.is_file());
    let read_files =
        || in_each_folder(&referenced.words).chain(in_each_folder(&referenced.read_words));
    if referenced.installs_packages() {
        files.extend(requirement_files(read_files()));
    }
    if referenced.runs_version_control || referenced.loads_code {
        files.extend(
            all_folders
                .iter()
                .flat_map(|folder| repository_files(folder)),
        );
    }
    if referenced.loads_code {
        let around_scripts = files.iter().filter_map(|file| file.parent());
        let around_scripts: Vec<PathBuf> = around_scripts.map(Path::to_owned).collect();
        let directories = all_folders
            .iter()
            .cloned()
            .chain(in_each_folder(&referenced.words));
        let mut known_files = BTreeSet::new();
        for path in directories.chain(around_scripts) {
            let is_own = || {
                let mut places = folders
                    .iter()
                    .map(|folder| CodePlace::of(&path, folder, &own_folders));
                folders.contains(&path) || places.any(|place| place != CodePlace::Other)
            };
            let real = path.canonicalize().ok().filter(|real| real.is_dir());
            if real.is_some_and(|real| known_files.insert(real) && is_own()) {
                files.insert(path);
            }
        }
    }
    files.extend(interpreters(&files, &all_folders, None));
    let sourced = sourced_files(lines, &files, &all_folders, project);
    if sourced.are_unknown {
        return None;
    }
    files.extend(sourced.files.into_iter().chain(sourced.missing));
    files.extend(in_each_folder(&referenced.read_words).filter(|path| path.is_file()));
    let variables = in_each_folder(&referenced.variables).map(|path| (path, true));
    let options = in_each_folder(&referenced.options).map(|path| (path, false));
    for (path, is_variable) in variables.chain(options) {
        let place = folders
            .iter()
            .map(|folder| CodePlace::of(&path, folder, &own_folders));
        match place.max() {
            Some(CodePlace::ContainsWorkdir) if is_variable => return None,
            Some(CodePlace::Directory) => drop(files.insert(path)),
            _ => {}
        }
    }
    let named_files = read_files().chain(in_each_folder(&referenced.data_words));
    let links = named_files.filter_map(|path| {
        let target = real_path(&path).unwrap_or_default();
        (target != protected_paths::normalize_path(&path)).then_some((path, target))
    });
    let mut run = in_each_folder(&referenced.words).chain(in_each_folder(&referenced.piped_words));
    Some(ReferencedPaths {
        files,
        link_targets: links.collect(),
        process_dependent_path: run.find(|path| depends_on_process(path)),
        starts_version_control: referenced.runs_version_control
            || referenced.words.iter().any(|word| is_version_control(word)),
    })
}

/// Words of command lines that may name files to run.
#[derive(Default)]
struct ReferencedWords {
    words: BTreeSet<String>,
    /// Words of commands that only read the files that they name.
    read_words: BTreeSet<String>,
    /// The part of `read_words` whose data another command of the line can run.
    piped_words: BTreeSet<String>,
    /// Words that name files whose contents do not matter.
    data_words: BTreeSet<String>,
    /// Values of variables, which may name a directory of code.
    variables: BTreeSet<String>,
    /// Values of options for directories of code.
    options: BTreeSet<String>,
    /// Number of directory changes.
    directory_changes: usize,
    /// A program may load code that no word names, such as a module.
    loads_code: bool,
    /// A command of version control may run programs that its repository names.
    runs_version_control: bool,
}

impl ReferencedWords {
    /// Adds the words of a command line; `None` if it cannot be split into words.
    fn add_line(&mut self, line: &str) -> Option<()> {
        match command_line::parse(line) {
            Ok(script) => self.add_script(line, &script)?,
            Err(_) if has_expansion(line) => return None,
            Err(_) => {
                let words = shell_words::words(line)?;
                self.loads_code = true;
                self.directory_changes += words
                    .iter()
                    .filter(|word| ["cd", "pushd"].contains(&word.as_str()))
                    .count();
                self.add_words(&words);
                self.add_text(line, 0);
            }
        }
        Some(())
    }

    /// Adds the words of commands that may run or read files as code. Words of other commands, and
    /// redirection targets, are data words. `None` if an expansion can name a file to run.
    fn add_script(&mut self, line: &str, script: &CommandScript) -> Option<()> {
        let parts = shell::parts(line);
        let commands = script.commands();
        let never_reads_files = |part: &CommandPart| has_first_word(part, shell::never_reads_files);
        let never_loads_code =
            |name: &str| shell::never_reads_files(name) || NON_LOADING_PROGRAMS.contains(&name);
        let may_read_files = |part: &&CommandPart| match part.what {
            CommandPartKind::Hidden { .. } => true,
            CommandPartKind::Command => shell::form(part).is_none() && !never_reads_files(part),
            _ => false,
        };
        let reading_parts: Vec<&CommandPart> = parts.iter().filter(may_read_files).collect();
        let is_repository_command =
            |part: &CommandPart| part.programs.iter().any(|name| is_version_control(name));
        let loads_code = |part: &CommandPart| match &part.what {
            CommandPartKind::Hidden { .. } => true,
            CommandPartKind::Command => match shell::form(part) {
                // Hooks and settings of a repository can run a file of the working directory.
                Some(form) => {
                    form.needs_sandbox && !(is_repository_command(part) && shell::only_prints(part))
                }
                None => !has_first_word(part, never_loads_code),
            },
            _ => false,
        };
        self.loads_code |= parts.iter().any(loads_code);
        self.runs_version_control |= parts.iter().any(is_repository_command);
        let has_hidden_command = reading_parts.iter().any(|part| part.command.is_none());
        for command in commands {
            // After a directory change, file names are relative to the new directory.
            let is_change = command.cd_target().is_some();
            self.directory_changes += usize::from(is_change);
            let words: Vec<String> = command.words.iter().map(word_pattern).collect();
            let programs = ProgramNames::of(words.iter().map(String::as_str));
            let mut own_parts = parts
                .iter()
                .filter(|part| part.command == Some(command.number));
            let has_form = own_parts.all(|part| shell::form(part).is_some());
            if has_hidden_command
                || is_change
                || programs.run_command_files()
                || reading_parts
                    .iter()
                    .any(|part| part.command == Some(command.number))
            {
                if names_unknown_file(command, &words, has_form) {
                    return None;
                }
                self.add_words(&words);
                for (_, value) in &command.assignments {
                    self.add_word(value);
                    self.variables.extend(pieces(value));
                }
            } else {
                let mut own_parts = parts
                    .iter()
                    .filter(|part| part.command == Some(command.number));
                let named_pieces = words.iter().flat_map(|word| pieces(word));
                if own_parts.all(never_reads_files) {
                    self.data_words.extend(named_pieces);
                } else {
                    let mut named_pieces: Vec<String> = named_pieces.collect();
                    if !reading_parts.is_empty() {
                        // Another command can run the printed text, in any language.
                        named_pieces.extend(words.iter().flat_map(|word| path_strings(word)));
                        self.piped_words.extend(named_pieces.iter().cloned());
                    }
                    self.read_words.extend(named_pieces);
                }
            }
        }
        for file in parts.iter().filter_map(|part| part.file.as_ref()) {
            match file.split_once(' ') {
                Some(("<", path)) if !reading_parts.is_empty() => self.add_word(path),
                Some(("<", path)) => drop(self.read_words.insert(path.to_owned())),
                Some((_, path)) => drop(self.data_words.insert(path.to_owned())),
                None => {}
            }
        }
        Some(())
    }

    /// Adds the words of a command, and the directories of code that they name.
    fn add_words(&mut self, words: &[String]) {
        for word in words {
            self.add_word(word);
        }
        self.add_code_directories(words);
    }

    /// Adds the directories of code that options and variables name.
    fn add_code_directories(&mut self, words: &[String]) {
        let options = code_options(words.iter().map(String::as_str));
        self.options
            .extend(options.iter().flat_map(|word| pieces(word)));
        let variables = words.iter().filter_map(|word| assigned_value(word));
        self.variables.extend(variables.flat_map(pieces));
    }

    /// Returns the files that programs of the lines load because of their names, or for a word that
    /// is no path of a file. They may not exist.
    fn implied_files(&self, folders: &[PathBuf], own: &[&Path]) -> Vec<PathBuf> {
        let programs = ProgramNames::of(self.words.iter().map(String::as_str));
        let mut files = programs.command_files(&with_parents(folders, own));
        for folder in folders {
            let words = self.words.iter();
            files.extend(words.flat_map(|word| programs.implied_files(folder, word)));
        }
        files
    }

    /// Returns true if a line installs Python packages, whose installation runs their code.
    fn installs_packages(&self) -> bool {
        let mut words = self.words.iter().chain(&self.read_words);
        words.any(|word| {
            let name = word.rsplit('/').next().unwrap_or_default();
            PACKAGE_INSTALLERS
                .iter()
                .any(|program| name.starts_with(program))
        })
    }

    /// Returns the programs in the search path that an agent may be able to change.
    fn changeable_programs(&self, folders: &[PathBuf], own: &[&Path]) -> Vec<PathBuf> {
        let temporary = std::env::temp_dir();
        let words = self.words.iter();
        let candidates = words.flat_map(|word| {
            let folders = folders.iter();
            folders.filter_map(move |folder| find_program(word, None, folder))
        });
        candidates
            .filter(|path| is_below(path, own) || is_below(path, &[&temporary]))
            .collect()
    }

    /// Adds the file names that a word may contain: the word, its parts (split at `=`, `,` and
    /// `:`), and the words of a script in it.
    fn add_word(&mut self, word: &str) {
        self.words.extend(pieces(word));
        self.add_text(word, 0);
    }

    /// Adds the words of a string that may be a script in any language.
    fn add_text(&mut self, text: &str, depth: usize) {
        let is_end = |c: char| c.is_whitespace() || ";&|<>()[]{}'\"`\\".contains(c);
        if depth > MAX_STRING_DEPTH || !text.contains(is_end) {
            return;
        }
        let words = shell_words::words(text).unwrap_or_default();
        self.add_code_directories(&words);
        for word in words {
            self.words.extend(pieces(&word));
            self.add_text(&word, depth + 1);
        }
        self.words.extend(path_strings(text));
        // Quotes may have another meaning in that language, so the string is also split without
        // them.
        let mut starts = Vec::new();
        let mut at = 0;
        for piece in text.split_inclusive(is_end) {
            let name = piece.trim_end_matches(is_end);
            if !name.is_empty() {
                starts.push(at);
                for start in starts.iter().rev().take(MAX_JOINED_PIECES) {
                    let joined = text.get(*start..at + name.len()).unwrap_or_default();
                    self.words
                        .extend(pieces(&joined.replace(['\'', '"', '\\'], "")));
                }
            }
            at += piece.len();
        }
    }
}

/// Returns the value of a word such as `NAME=value`, which may set a variable.
fn assigned_value(word: &str) -> Option<&str> {
    let (name, value) = word.split_once('=')?;
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name =
        name.starts_with(is_first) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(value)
}

/// Returns true if the first word of a command is a program for which `is_match` returns true. A
/// variable before it, such as `LD_PRELOAD`, can make the program load a file.
fn has_first_word(part: &CommandPart, is_match: impl Fn(&str) -> bool) -> bool {
    let whole_text = text(&part.whole);
    whole_text.split_whitespace().next().is_some_and(is_match)
}

/// Returns the directories, and those around them up to the directories in `own`.
fn with_parents(folders: &[PathBuf], own: &[&Path]) -> Vec<PathBuf> {
    let is_own = |path: &&Path| own.iter().any(|own| path.starts_with(own));
    let folder_and_parents = |folder: &'_ PathBuf| -> Vec<PathBuf> {
        let above = folder.ancestors().skip(1).take_while(is_own);
        let above = above.map(Path::to_owned);
        std::iter::once(folder.clone()).chain(above).collect()
    };
    folders.iter().flat_map(folder_and_parents).collect()
}

/// Returns the lists of Python packages in `paths`, and the lists that they name, such as
/// `-r base.txt`. Accesses the file system.
fn requirement_files(paths: impl Iterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let is_list = |path: &PathBuf| {
        let suffix = path.extension().unwrap_or_default();
        (suffix == "txt" || suffix == "in") && path.is_file()
    };
    let mut lists: BTreeSet<PathBuf> = paths.filter(is_list).collect();
    let mut todo: Vec<PathBuf> = lists.iter().cloned().collect();
    while let Some(list) = todo.pop().filter(|_| lists.len() < MAX_REQUIREMENT_FILES) {
        let folder = list.parent().unwrap_or(&list);
        let named_lists = paths_in_settings(&list, folder).into_iter();
        todo.extend(named_lists.filter(|path| is_list(path) && lists.insert(path.clone())));
    }
    lists
}

/// Returns true if the command may run a file that its words do not name: a word contains the output
/// of another command or a pattern, a string for a shell contains an expansion, or a shell reads its
/// commands from its input. For a command of a known form, the files of a pattern are data, or code
/// in the directory in which it runs.
fn names_unknown_file(command: &ShellCommand, words: &[String], has_form: bool) -> bool {
    let has_output = |word: &CommandWord| {
        let mut pieces = word.pieces.iter();
        pieces.any(|piece| matches!(piece, WordPiece::Output(_)))
    };
    let shell_at = words.iter().position(|word| shell::is_shell(word));
    let has_no_script = |at: usize| words.iter().skip(at + 1).all(|word| word.starts_with('-'));
    let is_fed = command.redirects.is_empty() && shell_at.is_some_and(has_no_script);
    let is_expanded = shell_at.is_some() && words.iter().any(|word| has_expansion(word));
    let mut values = command.assignments.iter().map(|(_, value)| value);
    command.words.iter().any(has_output)
        || !has_form && command.words.iter().any(CommandWord::is_glob)
        || is_fed
        || is_expanded
        || values.any(|value| has_expansion(value))
}

/// Returns the word with unknown parts replaced by `*`.
fn word_pattern(word: &CommandWord) -> String {
    let piece_pattern = |piece: &WordPiece| {
        if let WordPiece::Text(text) = piece {
            text.clone()
        } else {
            "*".to_owned()
        }
    };
    word.pieces.iter().map(piece_pattern).collect()
}

/// Returns a pattern as text, with `*` for each unknown part.
fn text(atoms: &[PatternAtom]) -> String {
    atoms
        .iter()
        .map(|atom| {
            if let PatternAtom::Char(c) = atom {
                *c
            } else {
                '*'
            }
        })
        .collect()
}

mod repositories;

#[cfg(test)]
mod tests;
