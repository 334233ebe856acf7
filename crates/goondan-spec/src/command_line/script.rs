//! What a command line of the small grammar is.

use crate::pattern::{Atom, atoms};

/// Commands, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// In their order.
    pub steps: Vec<Step>,
}

impl Script {
    /// Whether all that it does is done below the folder that it begins in, as far as `cd` goes.
    pub fn stays(&self) -> bool {
        self.commands()
            .iter()
            .all(|command| command.folder().is_none_or(|folder| stays_inside(&folder)))
    }

    /// Whether a word of it becomes the names of files.
    pub fn has_glob(&self) -> bool {
        self.commands()
            .iter()
            .any(|command| command.words.iter().any(Word::is_glob))
    }

    /// All commands, those in groups and substitutions, too.
    pub fn commands(&self) -> Vec<&Command> {
        let mut all = Vec::new();
        for stage in self.steps.iter().flat_map(|step| &step.stages) {
            match stage {
                Stage::Group(group) => all.extend(group.script.commands()),
                Stage::Command(command) => {
                    all.push(command);
                    for piece in command.words.iter().flat_map(|word| &word.pieces) {
                        if let Piece::Output(inner) = piece {
                            all.extend(inner.commands());
                        }
                    }
                }
            }
        }
        all
    }
}

/// A pipeline, and when it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What the step before it has to come to.
    pub when: When,
    /// One or more, each reading what the one before it writes.
    pub stages: Vec<Stage>,
}

/// When a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Whatever came of the one before it.
    Always,
    /// Where the one before it succeeded: `&&`.
    IfOk,
    /// Where it failed: `||`.
    IfFailed,
}

/// A part of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// One command.
    Command(Command),
    /// `(…)`, or the line that a shell is given with `-c`.
    Group(Group),
}

/// Commands that change the folder for themselves alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What it runs.
    pub script: Script,
    /// Hold for all of it.
    pub redirects: Vec<Redirect>,
    /// The shell that is named, as `sh -c`. It is not started.
    pub shell: Option<String>,
}

/// A program and its arguments, or `cd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Which one of the line, counted from 0 in the order of the text.
    pub number: usize,
    /// `NAME=value` before it.
    pub assignments: Vec<(String, String)>,
    /// The name, which is known, and the arguments.
    pub words: Vec<Word>,
    /// In their order.
    pub redirects: Vec<Redirect>,
}

impl Command {
    /// The name of the program, without a folder where none was written.
    pub fn name(&self) -> String {
        self.words.first().and_then(Word::text).unwrap_or_default()
    }

    /// Where `cd` goes; nothing where the command is another one.
    pub fn folder(&self) -> Option<String> {
        (self.name() == CD)
            .then(|| self.words.get(1).and_then(Word::text))
            .flatten()
    }
}

/// The one command that is no program.
pub const CD: &str = "cd";

/// One word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// One after the other, without anything between them.
    pub pieces: Vec<Piece>,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// It stands for itself.
    Text(String),
    /// `"$(…)"`: what the commands print, without line breaks at its end. Never more than one word.
    Output(Script),
    /// `*`: any text in the name of a file.
    Star,
    /// `?`: any character in the name of a file.
    Question,
}

impl Word {
    /// The text, where all of it is known.
    pub fn text(&self) -> Option<String> {
        let texts = self.pieces.iter().map(|piece| {
            if let Piece::Text(text) = piece {
                Some(text.as_str())
            } else {
                None
            }
        });
        texts.collect()
    }

    /// Whether it becomes the names of the files that it matches.
    pub fn is_glob(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Star | Piece::Question))
    }

    /// What is known of its text. Files have any names.
    pub fn atoms(&self) -> Vec<Atom> {
        let of = |piece: &Piece| match piece {
            Piece::Text(text) => atoms(text),
            Piece::Output(_) | Piece::Star | Piece::Question => vec![Atom::Any],
        };
        self.pieces.iter().flat_map(of).collect()
    }
}

/// A stream that goes elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// 0, 1 or 2.
    pub stream: usize,
    /// Where it goes.
    pub target: Target,
}

/// Where a stream goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Another stream, 1 or 2.
    Stream(usize),
    /// Nowhere.
    Null,
    /// It reads a file.
    Read(String),
    /// It writes a file.
    Write {
        /// Its path.
        path: String,
        /// Behind what is there already.
        append: bool,
    },
}

/// Whether a path stays below the folder that it is seen from, as far as its text tells.
pub fn stays_inside(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/') && !path.split('/').any(|part| part == "..")
}
