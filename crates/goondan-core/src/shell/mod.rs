//! Static analysis of a shell command line: every command in it and every file that it opens.
//!
//! A line in the small grammar ([`command_line`]) is understood completely and can run without a
//! shell. So gdn runs exactly the commands that the policy checked. Any other line is one part that
//! is [`CommandPartKind::Hidden`], which a user has to approve.
//!
//! Well-known programs that run other programs (`timeout`, `xargs`, …) are unwrapped, so rules
//! apply to the inner command. The effects of a program's arguments are deliberately not analyzed:
//! a sandbox limits them.

mod command_forms;
mod line_commands;
mod opened_files;
mod parts;
mod running_options;
mod unknown_files;
mod unwrap;
mod wrapper_programs;

use goondan_spec::command_line::{self, CommandScript, ShellRequired, parse};
use goondan_spec::pattern::PatternAtom;

pub use command_forms::{CommandForm, form, never_reads_files, only_prints, only_reads_files};
pub(crate) use line_commands::{LineWord, quoted_line};
pub use opened_files::{OpenedFile, opened};
pub use parts::{file, fold, is_protected};
pub use unknown_files::runs_unknown_files;
pub(crate) use unknown_files::{
    CommandEffect, effect, is_assignment, is_listing_program, is_variable_name, runs_listed_files,
    runs_strings,
};
pub use wrapper_programs::is_shell;

/// A part of a command line that a policy decides about.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandPart {
    /// Display form.
    pub shown: String,
    /// Kind of the part.
    pub what: CommandPartKind,
    /// String that an allowing pattern must match: the complete command, with assignments before
    /// it.
    pub whole: Vec<PatternAtom>,
    /// Strings that a restricting pattern can match: additionally without assignments, directories
    /// and wrapping programs.
    pub names: Vec<Vec<PatternAtom>>,
    /// Number of the command in the script ([`command_line::Command::number`]).
    pub command: Option<usize>,
    /// File that a redirection opens, in the form of [`file`].
    pub file: Option<String>,
    /// Names of the programs that it starts, the outermost first.
    pub programs: Vec<String>,
    /// Its first words, up to three, while they are known and unquoted.
    pub start: Vec<String>,
}

/// Kind of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandPartKind {
    /// A command that runs.
    Command,
    /// An environment variable that is set outside the line.
    Variable,
    /// A program that reads the arguments of the call.
    Program,
    /// One of several files of a call.
    Path,
    /// A file that a redirection reads.
    Read {
        /// The path is below the working directory, judged by its string only.
        inside: bool,
    },
    /// A file that a redirection writes.
    Write {
        /// The path is below the working directory and not protected, judged by its string only.
        inside: bool,
    },
    /// A command that can't be determined before it runs.
    Hidden {
        /// Reason.
        why: String,
    },
}

impl CommandPart {
    /// Returns the part of a variable that is set outside a command line.
    pub fn variable(name: &str, value: &str) -> Self {
        CommandPart::text(&format!("{name}={value}"), CommandPartKind::Variable)
    }

    /// Returns the part of a program that a call names.
    pub fn program(given: &str) -> Self {
        CommandPart::text(given, CommandPartKind::Program)
    }

    /// Returns the part for one of several paths of a call. It has no strings for patterns, because
    /// rules compare the path itself.
    pub fn path(given: &str) -> Self {
        CommandPart {
            whole: Vec::new(),
            names: Vec::new(),
            ..CommandPart::text(given, CommandPartKind::Path)
        }
    }

    /// Returns the part of a directory, outside the working directory, that a command line runs in.
    /// A policy treats it like `cd`.
    pub fn folder(given: &str) -> Self {
        CommandPart::text(
            &format!("{} {}", command_line::CD_COMMAND, fold(given)),
            CommandPartKind::Command,
        )
    }

    /// Returns a part whose command is unknown, because of `why`. Requires an approval.
    fn hidden(shown: &str, why: impl Into<String>) -> Self {
        CommandPart::text(shown.trim(), CommandPartKind::Hidden { why: why.into() })
    }

    /// Returns a part that policies match by its complete text.
    fn text(text: &str, what: CommandPartKind) -> Self {
        let line_pattern = goondan_spec::pattern::atoms(text);
        CommandPart {
            shown: excerpt(text),
            what,
            names: vec![line_pattern.clone()],
            whole: line_pattern,
            command: None,
            file: None,
            programs: Vec::new(),
            start: Vec::new(),
        }
    }
}

/// Returns the parts of `line`, at least one.
pub fn parts(line: &str) -> Vec<CommandPart> {
    match parse(line) {
        Ok(script) => parts::from_script(&script),
        Err(ShellRequired(why)) => vec![CommandPart::hidden(line, format!("it {why}"))],
    }
}

/// Returns the names of the programs that each command of a script starts, by command number.
pub fn programs(script: &CommandScript) -> Vec<Vec<String>> {
    let mut programs: Vec<Vec<String>> = Vec::new();
    for part in parts::from_script(script) {
        let Some(number) = part.command else { continue };
        programs.resize(programs.len().max(number + 1), Vec::new());
        programs[number].extend(part.programs);
    }
    programs
}

/// Returns the first 200 characters, with an ellipsis if more follow.
fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.trim().chars().take(200).collect();
    if excerpt.len() < text.trim().len() {
        excerpt.push('…');
    }
    excerpt
}
