//! Command lines that can run files which their text does not name.
//!
//! A program that prints its input runs nothing. Any other program can run its standard input, the
//! files that its standard input names, or files that an earlier command has copied. So such a line
//! is known only if the data comes from files that the line names.

use super::command_forms::{READ_ONLY_PROGRAMS, SINGLE_PURPOSE_PROGRAMS, SUBCOMMAND_PROGRAMS};
use super::is_shell;
use super::line_commands::{LineCommand, LineWord, inner_commands, line_commands};
use super::unwrap::base_name;
use crate::loaded_files::{has_inline_code, is_interpreter};
use crate::started_files::command_words;

/// More programs and built-ins that run and copy nothing.
const INERT_PROGRAMS: [&str; 51] = [
    ":",
    "[",
    "[[",
    "break",
    "cd",
    "chmod",
    "cksum",
    "column",
    "continue",
    "date",
    "exit",
    "export",
    "expr",
    "fold",
    "for",
    "hexdump",
    "id",
    "kill",
    "local",
    "md5sum",
    "mkdir",
    "od",
    "paste",
    "pgrep",
    "popd",
    "ps",
    "pushd",
    "read",
    "return",
    "rev",
    "rm",
    "rmdir",
    "select",
    "seq",
    "set",
    "sha1sum",
    "sha256sum",
    "shasum",
    "shift",
    "sleep",
    "sync",
    "tac",
    "touch",
    "ulimit",
    "umask",
    "uname",
    "unset",
    "uptime",
    "wait",
    "whoami",
    "yes",
];

/// Programs that run nothing, but can copy their input to a file.
const COPYING_PROGRAMS: [&str; 15] = [
    "base64", "cp", "curl", "dd", "gunzip", "gzip", "ln", "mv", "sort", "split", "tee", "uniq",
    "wget", "xxd", "zcat",
];

/// Programs whose output only depends on their words and on the files that these name.
const PLAIN_SOURCES: [&str; 20] = [
    "basename", "cat", "comm", "cut", "dirname", "echo", "egrep", "fgrep", "grep", "head", "nl",
    "printf", "rev", "seq", "tac", "tail", "tr", "true", "wc", "yes",
];

/// Compilers and test runners, which read the code of the directory.
const BUILD_PROGRAMS: [&str; 17] = [
    "black", "c++", "cc", "clang", "clang++", "cmake", "flake8", "g++", "gcc", "isort", "javac",
    "ld", "meson", "phpunit", "rspec", "rustc", "swiftc",
];

/// Python modules that build or test the code of the directory.
const BUILD_MODULES: [&str; 9] = [
    "black",
    "build",
    "compileall",
    "flake8",
    "mypy",
    "pip",
    "pytest",
    "unittest",
    "venv",
];

/// Programs that run files which a list names, or files that they find in a directory.
const LISTING_PROGRAMS: [&str; 7] = [
    "entr", "forfiles", "gxargs", "parallel", "rush", "sem", "xargs",
];

/// Programs that search directories, with the starts of the arguments that run the found files.
const SEARCHING_PROGRAMS: [(&str, &[&str]); 8] = [
    ("bfs", &["-exec", "-ok"]),
    ("fd", &["-x", "-X", "--exec"]),
    ("fdfind", &["-x", "-X", "--exec"]),
    ("find", &["-exec", "-ok"]),
    ("gfind", &["-exec", "-ok"]),
    ("rg", &["--pre"]),
    ("run-parts", &["--reg"]),
    ("sort", &["--comp"]),
];

/// Functions of interpreters that list a directory.
const LISTING_FUNCTIONS: [&str; 8] = [
    "glob",
    "iterdir",
    "listdir",
    "opendir",
    "readdir",
    "readdirSync",
    "scandir",
    "walk",
];

/// Programs that only start the command in their arguments.
const WRAPPERS: [&str; 12] = [
    "builtin", "command", "env", "eval", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf",
    "time", "timeout",
];

/// Programs that run a string as a command line, except for shells.
const STRING_RUNNERS: [&str; 8] = [
    "env", "flock", "runuser", "script", "ssh", "su", "sudo", "watch",
];

/// Maximum number of commands in a line. The files of a longer line are unknown.
const MAX_COMMANDS: usize = 500;

/// Maximum nesting of strings that are command lines.
const MAX_STRING_DEPTH: usize = 4;

/// Effect of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandEffect {
    /// Runs and copies nothing.
    Prints,
    /// Runs nothing.
    Copies,
    /// Runs the code of a directory.
    Builds,
    /// Runs a script that its words name.
    RunsScript,
    /// Can have any effect.
    Unknown,
}

impl CommandEffect {
    fn runs(self) -> bool {
        !matches!(self, CommandEffect::Prints | CommandEffect::Copies)
    }
}

/// Returns true if a command line can run a file that its text does not name: from its standard
/// input, from a list of names, from a searched directory, or as a copy.
pub fn runs_unknown_files(line: &str) -> bool {
    let Some(read) = line_commands(line) else {
        return true;
    };
    let Some(commands) = with_inner_commands(read.commands, 0) else {
        return true;
    };
    let effects: Vec<CommandEffect> = commands
        .iter()
        .map(|command| effect(&command.words))
        .collect();
    let runs_after = |at: usize| {
        let mut other_effects = effects.iter().enumerate();
        other_effects
            .any(|(other, effect)| effect.runs() && (other > at || read.has_loop && other != at))
    };
    commands.iter().enumerate().any(|(at, command)| {
        let has_known_input = || !command.is_fed || is_known_before(&commands, at);
        effects[at].runs() && (lists_files(&command.words, effects[at]) || !has_known_input())
            || copies_unknown_data(command, effects[at], has_known_input()) && runs_after(at)
    })
}

/// Returns true if a command of a script runs files that a list names, or that it finds in a
/// directory. Only its own script may get such files as arguments.
pub(crate) fn runs_listed_files(words: &[LineWord]) -> bool {
    let Some(at) = words.iter().position(|word| is_listing_program(&word.text)) else {
        return effect(words) == CommandEffect::Unknown && has_listing_code(words);
    };
    let (name, arguments) = (base_name(&words[at].text), &words[at + 1..]);
    if name == "run-parts" {
        return true;
    }
    let starts = listed_command_starts(name, arguments);
    starts
        .into_iter()
        .any(|start| runs_its_arguments(&arguments[start.min(arguments.len())..]))
}

/// Returns true if a program can run commands with files from a list or a directory. `program` is its
/// name or path.
pub(crate) fn is_listing_program(program: &str) -> bool {
    let name = base_name(program);
    LISTING_PROGRAMS.contains(&name) || searching_options(name).is_some() || name == "run-parts"
}

/// Returns true if a command can run the files in its arguments. A script with a path only gets
/// them.
fn runs_its_arguments(command: &[LineWord]) -> bool {
    let is_own_script = |word: &LineWord| {
        let is_program = is_shell(&word.text) || is_interpreter(&word.text);
        !word.is_expanded && word.text.contains('/') && !is_program
    };
    match effect(command) {
        CommandEffect::Prints | CommandEffect::Copies => false,
        CommandEffect::RunsScript => !command.first().is_some_and(is_own_script),
        CommandEffect::Builds | CommandEffect::Unknown => true,
    }
}

/// Returns true if a program runs strings in its arguments as command lines.
pub(crate) fn runs_strings(words: &[LineWord]) -> bool {
    words.iter().any(|word| {
        let is_builtin = ["eval", "trap"].contains(&word.text.as_str());
        is_builtin || is_shell(&word.text) || STRING_RUNNERS.contains(&base_name(&word.text))
    })
}

/// Returns true if a string that a command runs contains the output of other commands. Such output
/// can end the command in which it is inserted, and begin another one.
fn runs_output_as_text(words: &[LineWord]) -> bool {
    let starts_string = |word: &LineWord| {
        let text = word.text.as_str();
        let is_option = text.starts_with('-') && !text.starts_with("--") && text.contains('c');
        is_option || ["eval", "trap"].contains(&text) || STRING_RUNNERS.contains(&base_name(text))
    };
    let mut strings = words.iter().skip_while(|word| !starts_string(word)).skip(1);
    runs_strings(words) && strings.any(|word| word.is_substituted && !is_assignment(&word.text))
}

/// Adds the commands in strings that a shell or a similar program runs. `None` if they are unclear.
fn with_inner_commands(commands: Vec<LineCommand>, depth: usize) -> Option<Vec<LineCommand>> {
    if depth > MAX_STRING_DEPTH || commands.len() > MAX_COMMANDS {
        return None;
    }
    let mut all_commands = Vec::new();
    for command in commands {
        if runs_output_as_text(&command.words) {
            return None;
        }
        let words = without_wrappers(&command.words);
        let effect = effect(&command.words);
        let name = words
            .first()
            .map(|word| base_name(&word.text))
            .unwrap_or_default();
        let is_code = is_interpreter(name) && !is_shell(name) || is_build_program(name);
        let runs_strings = runs_strings(&command.words);
        let is_line = |word: &&LineWord| {
            let has_blank = word.text.contains(char::is_whitespace);
            let has_operator = word.text.contains(['|', ';', '&', '\n']);
            let starts_script = || command_words(&word.text).any(is_interpreter);
            effect.runs()
                && !is_code
                && (has_blank && runs_strings || has_operator && (runs_strings || starts_script()))
        };
        let mut inner = Vec::new();
        for word in words.iter().filter(is_line) {
            inner.extend(inner_commands(&word.text, &command)?);
        }
        for inner in &mut inner {
            inner.writes_file |= command.writes_file;
        }
        // A shell only runs the string, unless it also reads its input.
        let is_command = |word: &LineWord| word.text.starts_with('-') && word.text.contains('c');
        let is_shell_line =
            effect == CommandEffect::RunsScript && !command.is_fed && words.iter().any(is_command);
        let is_only_string = words.first().as_ref().is_some_and(is_line);
        let is_replaced = !inner.is_empty()
            && (is_only_string || is_shell_line && !lists_files(&command.words, effect));
        all_commands.extend(Some(command).filter(|_| !is_replaced));
        if !inner.is_empty() {
            all_commands.extend(with_inner_commands(inner, depth + 1)?);
        }
    }
    Some(all_commands)
}

/// Returns true if the output of all commands before one in its pipeline is known.
fn is_known_before(commands: &[LineCommand], at: usize) -> bool {
    let mut before = commands.iter().take(at);
    before.all(|command| command.pipeline != commands[at].pipeline || is_plain_source(command))
}

/// Returns true if the output of a command only depends on its words, its input and the files that
/// the words name.
fn is_plain_source(command: &LineCommand) -> bool {
    let mut words_and_inputs = command.words.iter().chain(&command.inputs);
    let Some((name, arguments)) = command.words.split_first() else {
        return false;
    };
    let reads_other_files = |word: &LineWord| {
        let is_search = name.text.ends_with("grep");
        let text = word.text.as_str();
        let is_cluster = text.starts_with('-') && !text.starts_with("--");
        is_search && (is_cluster && text.contains(['d', 'r', 'R']) || text.starts_with("--"))
            || name.text == "wc" && text.starts_with("--")
    };
    PLAIN_SOURCES.contains(&name.text.as_str())
        && words_and_inputs.all(|word| !word.is_expanded)
        && !arguments.iter().any(reads_other_files)
}

/// Returns true if a command can write files with data that no word of the line names.
fn copies_unknown_data(
    command: &LineCommand,
    effect: CommandEffect,
    has_known_input: bool,
) -> bool {
    let words = without_wrappers(&command.words);
    let name = words.first().map_or("", |word| word.text.as_str());
    let is_plain_copy = || {
        let mut words = words.iter().skip(1);
        name == "cp"
            && words.all(|word| {
                let is_option = word.text.starts_with('-');
                !word.is_expanded
                    && (!is_option || ["-f", "-n", "-p", "-v"].contains(&word.text.as_str()))
            })
    };
    let copies = match effect {
        CommandEffect::Copies if name == "tee" => !has_known_input,
        CommandEffect::Copies => !is_plain_copy(),
        CommandEffect::Unknown => true,
        CommandEffect::Prints | CommandEffect::Builds | CommandEffect::RunsScript => false,
    };
    copies || command.writes_file && !(is_plain_source(command) && has_known_input)
}

/// Returns true if a command runs files that a list names, or that it finds in a directory.
fn lists_files(words: &[LineWord], effect: CommandEffect) -> bool {
    let is_unknown = effect == CommandEffect::Unknown;
    let is_read = |word: &&LineWord| is_unknown || word.text.contains(char::is_whitespace);
    let texts = words.iter().filter(is_read).map(|word| word.text.as_str());
    let mut names = texts.flat_map(command_words).map(base_name);
    effect != CommandEffect::Builds
        && (names.any(|name| LISTING_PROGRAMS.contains(&name))
            || runs_found_files(words)
            || is_unknown && has_listing_code(words))
}

/// Returns true if a command searches a directory and runs the found files.
fn runs_found_files(words: &[LineWord]) -> bool {
    let texts: Vec<&str> = words
        .iter()
        .flat_map(|word| command_words(&word.text))
        .collect();
    let starts_with_any =
        |text: &str, starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    SEARCHING_PROGRAMS.iter().any(|(program, starts)| {
        texts.iter().any(|text| base_name(text) == *program)
            && (texts.iter().any(|text| starts_with_any(text, starts))
                || words
                    .iter()
                    .any(|word| word.is_expanded && word.text.starts_with(['-', '$', '`'])))
    })
}

/// Options of [`LISTING_PROGRAMS`] that take the next word.
const LISTING_VALUES: [&str; 14] = [
    "-E",
    "-I",
    "-J",
    "-L",
    "-P",
    "-R",
    "-S",
    "-a",
    "-d",
    "-j",
    "-n",
    "-s",
    "--jobs",
    "--arg-file",
];

/// Returns the positions among the arguments of the commands that a program starts with files of a
/// list or of a searched directory.
fn listed_command_starts(name: &str, arguments: &[LineWord]) -> Vec<usize> {
    let texts = arguments.iter().map(|word| word.text.as_str());
    let mut arguments = texts.enumerate();
    if let Some(starts) = searching_options(name) {
        let is_start = |text: &str| starts.iter().any(|start| text.starts_with(start));
        let options = arguments.filter(|(_, text)| is_start(text));
        return options.map(|(at, _)| at + 1).collect();
    }
    while let Some((at, text)) = arguments.next() {
        if LISTING_VALUES.contains(&text) {
            arguments.next();
        } else if !text.starts_with('-') {
            return vec![at];
        }
    }
    Vec::new()
}

/// Returns the starts of the options with which a program that searches directories runs files.
fn searching_options(name: &str) -> Option<&'static [&'static str]> {
    let mut programs = SEARCHING_PROGRAMS.iter();
    let searching = programs.find(|(program, _)| *program == name && name != "run-parts");
    searching.map(|(_, starts)| *starts)
}

/// Returns true if code in a word lists a directory.
fn has_listing_code(words: &[LineWord]) -> bool {
    let is_part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let mut parts = words.iter().flat_map(|word| word.text.split(is_part));
    parts.any(|part| LISTING_FUNCTIONS.contains(&part))
}

/// Returns the effect of a command with these words.
pub(crate) fn effect(words: &[LineWord]) -> CommandEffect {
    let all_words = words;
    let words = without_wrappers(all_words);
    let outer = all_words
        .get(..all_words.len() - words.len())
        .unwrap_or_default();
    let is_plain = !outer.iter().any(|word| is_assignment(&word.text));
    let Some((first, arguments)) = words.split_first() else {
        return CommandEffect::Prints;
    };
    let name = base_name(&first.text);
    let has_folder = name != first.text;
    let texts = || arguments.iter().map(|word| word.text.as_str());
    let is_module = texts().next() == Some("-m")
        && texts()
            .nth(1)
            .is_some_and(|module| BUILD_MODULES.contains(&module));
    let may_print = is_plain && !has_folder;
    match name {
        _ if first.is_expanded => CommandEffect::Unknown,
        _ if runs_found_files(words) => CommandEffect::Unknown,
        _ if may_print
            && (READ_ONLY_PROGRAMS.contains(&name) || INERT_PROGRAMS.contains(&name)) =>
        {
            CommandEffect::Prints
        }
        "find" if may_print && !texts().any(|text| text.starts_with("-f")) => CommandEffect::Prints,
        "rg" if may_print => CommandEffect::Prints,
        "sed" if may_print && is_plain_editor(arguments) => CommandEffect::Copies,
        "awk" if may_print && is_plain_filter(arguments) => CommandEffect::Copies,
        _ if may_print && COPYING_PROGRAMS.contains(&name) => CommandEffect::Copies,
        _ if is_build_program(name) && !has_folder => build_effect(name, arguments),
        "bunx" | "npx" | "pnpx" if arguments.first().is_some_and(is_build_word) => {
            CommandEffect::Builds
        }
        "." | "source" => CommandEffect::RunsScript,
        _ if is_shell(name) => CommandEffect::RunsScript,
        _ if is_interpreter(name) && is_module => CommandEffect::Builds,
        _ if is_interpreter(name) && !has_inline_code(texts()) => CommandEffect::RunsScript,
        _ if has_folder && !first.text.starts_with('/') => CommandEffect::RunsScript,
        _ => CommandEffect::Unknown,
    }
}

/// Returns the effect of a build program. Some run a program that an argument names.
fn build_effect(name: &str, arguments: &[LineWord]) -> CommandEffect {
    let Some((first, rest)) = arguments.split_first() else {
        return CommandEffect::Builds;
    };
    match (name, first.text.as_str()) {
        (_, "exec" | "x" | "dlx") | ("poetry" | "uv", "run" | "tool") => match effect(rest) {
            CommandEffect::Prints => CommandEffect::Unknown,
            effect => effect,
        },
        _ => CommandEffect::Builds,
    }
}

fn is_build_word(word: &LineWord) -> bool {
    is_build_program(&word.text)
}

fn is_build_program(name: &str) -> bool {
    SUBCOMMAND_PROGRAMS.contains(&name)
        || SINGLE_PURPOSE_PROGRAMS.contains(&name)
        || BUILD_PROGRAMS.contains(&name)
}

/// Returns true if a script of `sed` cannot contain its command `e`, which runs a program.
fn is_plain_editor(arguments: &[LineWord]) -> bool {
    let is_plain = |word: &LineWord| {
        let text = word.text.as_str();
        let is_option = ["-E", "-e", "-i", "-n", "-r", "-s", "-u", "-z"].contains(&text);
        is_option || !word.is_expanded && !text.starts_with('-') && !text.contains('e')
    };
    // Only the words before the names of files matter, but they have the same shape.
    arguments.iter().all(is_plain)
}

/// Returns true if a program of `awk` runs no other program.
fn is_plain_filter(arguments: &[LineWord]) -> bool {
    arguments.iter().all(|word| {
        let text = word.text.as_str();
        let is_option = text.starts_with("-F");
        is_option
            || !word.is_expanded
                && !text.starts_with('-')
                && !text.contains(['|', '@'])
                && !text.contains("system")
                && !text.contains("getline")
    })
}

/// Returns true for a word `NAME=value`.
pub(crate) fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| is_variable_name(name))
}

/// Returns true if a text can be the name of a variable.
pub(crate) fn is_variable_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the words without assignments and without programs that only start another one. A program
/// with options is kept, because the value of an option can look like a command.
fn without_wrappers(words: &[LineWord]) -> &[LineWord] {
    let mut words = words;
    while let Some((first, rest)) = words.split_first() {
        let text = first.text.as_str();
        let count = match text {
            _ if is_assignment(text) => 0,
            "nice" if rest.first().is_some_and(|word| word.text == "-n") => 2,
            "timeout" => 1,
            _ if WRAPPERS.contains(&text) => 0,
            _ => break,
        };
        let is_duration = |word: &LineWord| word.text.starts_with(|c: char| c.is_ascii_digit());
        let is_known = |word: &LineWord| !word.text.starts_with('-') && !word.is_expanded;
        let has_command = rest.get(count).is_some_and(is_known);
        let has_duration = text != "timeout" || rest.first().is_some_and(is_duration);
        if !is_assignment(text) && (!has_command || !has_duration) {
            break;
        }
        words = rest.get(count..).unwrap_or_default();
    }
    words
}

#[cfg(test)]
mod tests;
