//! What a shell command line does, as far as it can be told before it runs: every simple command in it, every file that
//! it writes, and every place where what will run is hidden.
//!
//! The commands are those of lists, pipelines, loops, functions, subshells and substitutions, wherever they stand.
//! Well-known programs that run other programs (`timeout`, `xargs`, `sh -c`, …) are looked through. Whatever is not
//! understood for certain, or is read differently by different shells, is [`What::Hidden`]: somebody has to look at it.
//!
//! This deliberately does not know what a program does with its arguments: a pattern says what runs, not what comes of it.

mod programs;
mod shells;
mod unwrap;
mod walk;
mod word;

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast::Program;
use brush_parser::{Parser, ParserOptions};
use goondan_spec::pattern::Atom;

/// The longest command line that is looked at, in bytes.
const LONGEST: usize = 32 * 1024;

/// The most things that can nest. The parser is recursive, and so is this.
const MOST_NESTING: usize = 200;

/// More than that is looked at on a stack of its own.
const SHALLOW: usize = 12;

/// The size of that stack: about ten times what [`MOST_NESTING`] levels take in a debug build.
const STACK: usize = 64 << 20;

/// A part of a command line that a policy decides about.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// As a person reads it.
    pub shown: String,
    /// What it is.
    pub what: What,
    /// What an allowing pattern must match: the command as it stands, with assignments before it.
    pub(crate) whole: Vec<Atom>,
    /// What a restricting pattern may match: also without assignments, folders and the programs around it.
    pub(crate) names: Vec<Vec<Atom>>,
}

/// What a part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A command that runs.
    Command,
    /// An environment variable that is set beside the line.
    Variable,
    /// One of several files that a call is about.
    Path,
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
    pub(crate) fn variable(name: &str, value: &str) -> Self {
        let text = format!("{name}={value}");
        let whole = goondan_spec::pattern::atoms(&text);
        Part { shown: excerpt(&text), what: What::Variable, names: vec![whole.clone()], whole }
    }

    /// One of several paths.
    pub(crate) fn path(given: &str) -> Self {
        Part { shown: excerpt(given), what: What::Path, whole: Vec::new(), names: Vec::new() }
    }

    fn hidden(shown: impl Into<String>, why: impl Into<String>) -> Self {
        let shown: String = shown.into();
        let whole = goondan_spec::pattern::atoms(shown.trim());
        Part { what: What::Hidden { why: why.into() }, names: vec![whole.clone()], whole, shown: excerpt(&shown) }
    }
}

/// The parts of `line`. There is at least one, unless the line holds nothing but blanks and comments.
pub fn parts(line: &str) -> Vec<Part> {
    if let Some(why) = refused(line) {
        return vec![Part::hidden(line, why)];
    }
    if nesting(line) <= SHALLOW {
        return parsed(line);
    }
    let owned = line.to_owned();
    let looking = std::thread::Builder::new().stack_size(STACK).spawn(move || parsed(&owned));
    let seen = looking.ok().and_then(|thread| thread.join().ok());
    seen.unwrap_or_else(|| vec![Part::hidden(line, "it can't be read here")])
}

/// Why a line is not even read.
fn refused(line: &str) -> Option<&'static str> {
    let odd = |c: char| (c.is_control() && c != '\n' && c != '\t') || (!c.is_ascii() && c.is_whitespace());
    if line.len() > LONGEST {
        Some("it is too long")
    } else if line.contains(odd) {
        Some("it holds characters that shells read differently")
    } else if nesting(line) > MOST_NESTING {
        Some("it is nested too deep")
    } else {
        None
    }
}

/// An upper bound of how deep things nest.
fn nesting(line: &str) -> usize {
    let openers = line.bytes().filter(|byte| matches!(byte, b'(' | b'{' | b'`' | b'[')).count();
    let word = |word: &&str| matches!(*word, "if" | "while" | "until" | "for" | "case" | "elif" | "sh");
    openers + line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(word).count()
}

fn parsed(line: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    walk::line(line, &mut parts);
    parts
}

/// The options of the parser: what all of sh, dash and bash read alike.
fn options() -> ParserOptions {
    ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() }
}

/// The program that `line` is; `None` where it can't be parsed. The parser is somebody else's: a panic is no more than
/// a line that it can't read.
fn parse(line: &str) -> Option<Program> {
    let read = || Parser::new(Cursor::new(line.as_bytes()), &options(), &Default::default()).parse_program();
    catch_unwind(AssertUnwindSafe(read)).ok()?.ok()
}

fn excerpt(text: &str) -> String {
    let mut short: String = text.trim().chars().take(200).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short
}
