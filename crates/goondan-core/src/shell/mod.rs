//! What a shell command line does, as far as it can be told before it runs: every command in it and every file that it
//! opens.
//!
//! A line of the small grammar ([`command_line`]) is known whole, and can be run without a shell, so that what runs is what was
//! judged. Any other line is one part that is [`What::Hidden`]: somebody has to look at it.
//!
//! Well-known programs that run other programs (`timeout`, `xargs`, …) are looked through, so that rules find what they
//! name. This deliberately does not know what a program does with its arguments: a sandbox bounds that.

mod opened;
mod options;
mod parts;
mod patterns;
mod programs;
mod unwrap;

use goondan_spec::command_line::{self, Beyond, Script, parse};
use goondan_spec::pattern::Atom;

pub use opened::{Opened, opened};
pub use parts::{file, fold, is_protected, is_secret};
pub use patterns::{Form, form};

/// A part of a command line that a policy decides about.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// As a person reads it.
    pub shown: String,
    /// What it is.
    pub what: What,
    /// What an allowing pattern must match: the command as it stands, with assignments before it.
    pub whole: Vec<Atom>,
    /// What a restricting pattern may match: also without assignments, folders and the programs around it.
    pub names: Vec<Vec<Atom>>,
    /// Which command of the script it belongs to ([`command_line::Command::number`]).
    pub command: Option<usize>,
    /// The file that a redirection opens, as [`file`] calls it.
    pub file: Option<String>,
    /// The names of the programs that it starts, the outermost first.
    pub programs: Vec<String>,
    /// Its first words, as far as they are known and no quotes stand around them; three at most.
    pub start: Vec<String>,
}

/// What a part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A command that runs.
    Command,
    /// An environment variable that is set beside the line.
    Variable,
    /// A program that reads what the call is about.
    Program,
    /// One of several files that a call is about.
    Path,
    /// A file that a redirection reads.
    Read {
        /// It is a path below the working folder, as far as its text tells.
        inside: bool,
    },
    /// A file that a redirection writes.
    Write {
        /// It is a path below the working folder, as far as its text tells.
        inside: bool,
    },
    /// Nobody can tell what runs.
    Hidden {
        /// Why not.
        why: String,
    },
}

impl Part {
    /// A variable that is set beside a command line.
    pub fn variable(name: &str, value: &str) -> Self {
        Part::text(&format!("{name}={value}"), What::Variable)
    }

    /// A program that a call names.
    pub fn program(given: &str) -> Self {
        Part::text(given, What::Program)
    }

    /// One of several paths.
    pub fn path(given: &str) -> Self {
        Part {
            whole: Vec::new(),
            names: Vec::new(),
            ..Part::text(given, What::Path)
        }
    }

    /// The folder outside of the working folder that a command line runs in. It is judged as `cd` would be.
    pub fn folder(given: &str) -> Self {
        Part::text(
            &format!("{} {}", command_line::CD, fold(given)),
            What::Command,
        )
    }

    fn hidden(shown: &str, why: impl Into<String>) -> Self {
        Part::text(shown.trim(), What::Hidden { why: why.into() })
    }

    fn text(text: &str, what: What) -> Self {
        let whole = goondan_spec::pattern::atoms(text);
        Part {
            shown: excerpt(text),
            what,
            names: vec![whole.clone()],
            whole,
            command: None,
            file: None,
            programs: Vec::new(),
            start: Vec::new(),
        }
    }
}

/// The parts of `line`. There is at least one.
pub fn parts(line: &str) -> Vec<Part> {
    match parse(line) {
        Ok(script) => parts::of(&script),
        Err(Beyond(why)) => vec![Part::hidden(line, format!("it {why}"))],
    }
}

/// The names of the programs that each command of a script starts, by its number.
pub fn programs(script: &Script) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for part in parts::of(script) {
        let Some(number) = part.command else { continue };
        all.resize(all.len().max(number + 1), Vec::new());
        all[number].extend(part.programs);
    }
    all
}

fn excerpt(text: &str) -> String {
    let mut short: String = text.trim().chars().take(200).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short
}
