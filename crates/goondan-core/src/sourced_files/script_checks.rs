//! Commands of a script for which the text does not determine the files that they run.
//!
//! The rules apply to scripts that an agent could change. A command is clear if its program is known,
//! and no data decides about the program and the files that it runs.

use std::path::{Path, PathBuf};

use super::SourceSearch;
use super::script_text::{ScriptStatement, ScriptText, ScriptWord};
use super::script_variables::PARAMETERS;
use crate::loaded_files::is_interpreter;
use crate::shell::{self, CommandEffect, LineWord};
use crate::started_files::{CodePlace, code_options, pieces};

/// Starts of the names of variables that decide which programs or code a program loads.
const LOADING_VARIABLES: [&str; 22] = [
    "BASH_ENV",
    "CDPATH",
    "CLASSPATH",
    "DYLD_",
    "ENV",
    "GIT_",
    "HOME",
    "JAVA_TOOL",
    "LD_",
    "MAKEF",
    "NODE_",
    "PATH",
    "PERL",
    "PROMPT_COMMAND",
    "PS1",
    "PS4",
    "PYTHON",
    "RUBY",
    "SHELL",
    "TAR_OPTIONS",
    "npm_",
    "UV_",
];

/// Keywords that can be in the place of a program. They start no program.
const CONTROL_WORDS: [&str; 5] = ["case", "done", "esac", "fi", "}"];

/// Programs that write files which their arguments need not name, such as the content of an archive.
const FILE_CREATING_PROGRAMS: [&str; 10] = [
    "7z", "bsdtar", "cpio", "install", "patch", "rsync", "scp", "tar", "unzip", "git",
];

/// Options whose value is the directory in which a program runs or loads code.
const DIRECTORY_OPTIONS: [&str; 5] = ["-C", "--cwd", "--directory", "--dir", "--prefix"];

impl SourceSearch<'_> {
    /// Sets `are_unknown` for a text that shells can read in another way, or that gives known names to
    /// other commands.
    pub(super) fn check_text(&mut self, script: &ScriptText) {
        let is_known_command = |name: &String| {
            let word = LineWord::of_script(name, false);
            shell::is_shell(name)
                || is_interpreter(name)
                || shell::effect(std::slice::from_ref(&word)) != CommandEffect::Unknown
        };
        let is_alias = |statement: &ScriptStatement| {
            let first = statement.command_words().first();
            first.is_some_and(|word| ["alias", "enable", "hash"].contains(&word.text.as_str()))
                && statement
                    .words
                    .iter()
                    .any(|word| word.text.contains(['=', '/']))
        };
        self.sourced.are_unknown |= script.is_unclear
            || script.functions.iter().any(is_known_command)
            || script.statements.iter().any(is_alias);
        self.data_variables
            .extend(script.data_variables.iter().cloned());
        self.functions.extend(script.functions.iter().cloned());
    }

    /// Sets `are_unknown` for a command that can run files which its text does not determine. Other
    /// commands that matter for the whole search are only recorded.
    pub(super) fn check_command(&mut self, statement: &ScriptStatement, words: &[ScriptWord]) {
        let Some((program, arguments)) = words.split_first() else {
            return;
        };
        // The commands in a function are checked, and `ScriptVariables` contains its arguments.
        let is_function = self.functions.contains(&program.text);
        if is_function || CONTROL_WORDS.contains(&program.text.as_str()) {
            return;
        }
        // Arguments of the script, and variables of its environment, do not change.
        let command: Vec<LineWord> = words
            .iter()
            .enumerate()
            .map(|(at, word)| {
                let is_unknown = if at == 0 {
                    !word.is_known
                } else {
                    word.comes_from_data
                };
                LineWord::of_script(&word.text, is_unknown)
            })
            .collect();
        let effect = shell::effect(&command);
        let comes_from_data = arguments.iter().any(|word| word.comes_from_data);
        let begins_with_output = arguments.iter().any(ScriptWord::begins_with_output);
        let has_pattern = || {
            let is_pattern = |word: &ScriptWord| word.is_computed && !word.comes_from_data;
            arguments.iter().any(is_pattern)
        };
        match effect {
            CommandEffect::Prints => {
                self.copies_unknown_data |=
                    statement.writes_file && (comes_from_data || has_pattern() || statement.is_fed);
            }
            CommandEffect::Copies => {
                self.copies_unknown_data |=
                    comes_from_data || has_pattern() || can_copy_directory(words);
            }
            CommandEffect::Builds => self.sourced.are_unknown |= begins_with_output,
            CommandEffect::RunsScript => {
                self.runs_scripts = true;
                if comes_from_data {
                    self.data_variables.insert(PARAMETERS.to_owned());
                }
            }
            // [`shell::runs_listed_files`] decides about the files that they run.
            CommandEffect::Unknown if words.iter().any(runs_listed_files) => {
                self.sourced.are_unknown |= begins_with_output;
                self.copies_unknown_data |= words.iter().any(is_copying);
            }
            CommandEffect::Unknown => {
                self.sourced.are_unknown |= begins_with_output || has_pattern() || statement.is_fed;
                self.copies_unknown_data |= is_unpacking(words);
            }
        }
        let can_run = !matches!(effect, CommandEffect::Prints | CommandEffect::Copies);
        if can_run {
            let variables = words.iter().flat_map(|word| &word.outer_variables);
            self.run_variables.extend(variables.cloned());
        }
    }

    /// Sets `are_unknown` if data decides about a variable such as `PATH`, and covers the directories
    /// that such variables name.
    pub(super) fn check_assignments(&mut self, statement: &ScriptStatement, around: &Path) {
        for word in &statement.words {
            let Some((name, value)) = word.text.split_once('=') else {
                continue;
            };
            let name = name.trim_end_matches('+');
            let is_loading = LOADING_VARIABLES
                .iter()
                .any(|start| name.starts_with(start))
                || name.ends_with("PATH");
            if !is_loading || !shell::is_variable_name(name) {
                continue;
            }
            self.sourced.are_unknown |= word.comes_from_data || name == "HOME";
            for piece in pieces(value) {
                self.add_code_directory(&piece, around);
            }
        }
    }

    /// Covers the code directories in the options of a command, such as `-C DIR`.
    pub(super) fn add_option_directories(&mut self, words: &[ScriptWord], around: &Path) {
        let texts = || words.iter().map(|word| word.text.as_str());
        let values = texts()
            .zip(texts().skip(1))
            .filter_map(|(option, value)| DIRECTORY_OPTIONS.contains(&option).then_some(value));
        let joined = texts().filter_map(|word| {
            let options = DIRECTORY_OPTIONS.iter();
            options
                .filter_map(|option| word.strip_prefix(option))
                .map(|value| value.trim_start_matches('='))
                .next()
        });
        let mut stated: Vec<String> = values.chain(joined).map(str::to_owned).collect();
        stated.extend(code_options(texts()).iter().flat_map(|word| pieces(word)));
        for path in stated {
            self.add_code_directory(&path, around);
        }
    }

    /// Covers all code in a directory. Sets `are_unknown` for a directory around the working
    /// directory, because its files are too many.
    pub(super) fn add_code_directory(&mut self, path: &str, around: &Path) {
        if path.is_empty() || path == "." {
            return;
        }
        let own: Vec<&Path> = self.own_directories.iter().map(PathBuf::as_path).collect();
        let folders = self.start_folders;
        for path in self.possible_paths(path, around) {
            if folders.contains(&path) {
                continue;
            }
            let places = folders
                .iter()
                .map(|folder| CodePlace::of(&path, folder, &own));
            match places.max() {
                Some(CodePlace::ContainsWorkdir) => {
                    let is_working_directory = folders
                        .iter()
                        .any(|folder| folder.canonicalize().ok() == path.canonicalize().ok());
                    self.sourced.are_unknown |= !is_working_directory;
                }
                Some(CodePlace::Directory) => drop(self.sourced.files.insert(path)),
                _ => {}
            }
        }
    }
}

/// Returns true for a program such as `xargs` or `find`, which runs commands with files from a list
/// or a directory.
fn runs_listed_files(word: &ScriptWord) -> bool {
    shell::is_listing_program(&word.text)
}

/// Returns true if a word is the name of a program that copies files.
fn is_copying(word: &ScriptWord) -> bool {
    let word = LineWord::of_script(&word.text, false);
    shell::effect(std::slice::from_ref(&word)) == CommandEffect::Copies
}

/// Returns true if a command can copy, move or link a whole directory. `mv` and `ln` always can, and
/// `cp` needs an option such as `-r` or `-a`.
fn can_copy_directory(words: &[ScriptWord]) -> bool {
    let mut options = words.iter().filter(|word| word.text.starts_with('-'));
    let program = words.first().map_or("", |word| word.text.as_str());
    ["mv", "ln", "cp"].contains(&program)
        && (program != "cp" || options.any(|word| word.text.contains(['a', 'r', 'R'])))
}

/// Returns true if a command writes files that it unpacks or receives.
fn is_unpacking(words: &[ScriptWord]) -> bool {
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    let creates_archive = arguments.first().is_some_and(|word| {
        let text = word.text.trim_start_matches('-');
        text.starts_with('c') || text.starts_with('t')
    });
    let name = program.text.rsplit('/').next().unwrap_or_default();
    FILE_CREATING_PROGRAMS.contains(&name) && !(name.ends_with("tar") && creates_archive)
}
