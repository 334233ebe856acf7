//! Syntax tree of a command line.

use crate::pattern::{PatternAtom, atoms};

/// Sequence of commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandScript {
    /// Steps, in order.
    pub steps: Vec<ScriptStep>,
}

impl CommandScript {
    /// Returns true if every `cd` stays below the initial directory.
    pub fn stays_below_start(&self) -> bool {
        self.commands().iter().all(|command| {
            command
                .cd_target()
                .is_none_or(|folder| is_path_inside(&folder))
        })
    }

    /// Returns true if a word expands to file names.
    pub fn has_glob(&self) -> bool {
        self.commands()
            .iter()
            .any(|command| command.words.iter().any(CommandWord::is_glob))
    }

    /// Returns all commands, including those in groups and substitutions.
    pub fn commands(&self) -> Vec<&ShellCommand> {
        let mut commands = Vec::new();
        for stage in self.steps.iter().flat_map(|step| &step.stages) {
            match stage {
                PipelineStage::Group(group) => commands.extend(group.script.commands()),
                PipelineStage::Command(command) => {
                    commands.push(command);
                    for piece in command.words.iter().flat_map(|word| &word.pieces) {
                        if let WordPiece::Output(inner) = piece {
                            commands.extend(inner.commands());
                        }
                    }
                }
            }
        }
        commands
    }
}

/// Pipeline, with the condition for running it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptStep {
    /// Required outcome of the previous step.
    pub when: StepCondition,
    /// One or more stages. Each reads the output of the previous one.
    pub stages: Vec<PipelineStage>,
}

/// Condition for running a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepCondition {
    /// Any outcome of the previous step.
    Always,
    /// The previous step succeeded: `&&`.
    IfOk,
    /// The previous step failed: `||`.
    IfFailed,
}

/// Part of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipelineStage {
    /// Single command.
    Command(ShellCommand),
    /// `(…)`, or the line that a shell is given with `-c`.
    Group(CommandGroup),
}

/// Commands with a separate current directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandGroup {
    /// Commands of the group.
    pub script: CommandScript,
    /// Redirections of the whole group.
    pub redirects: Vec<StreamRedirect>,
    /// Shell and option, such as `sh -c`. The shell is not started.
    pub shell: Option<String>,
}

/// Program with its arguments, or `cd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    /// Index in the line, counted from 0 in text order.
    pub number: usize,
    /// Assignments `NAME=value` before the command.
    pub assignments: Vec<(String, String)>,
    /// The command's name and its arguments. The name is always literal text; arguments may contain
    /// patterns and expansions.
    pub words: Vec<CommandWord>,
    /// Redirections, in order.
    pub redirects: Vec<StreamRedirect>,
}

impl ShellCommand {
    /// Returns the program name as written.
    pub fn name(&self) -> String {
        self.words
            .first()
            .and_then(CommandWord::text)
            .unwrap_or_default()
    }

    /// Returns the target of `cd`. `None` for other commands.
    pub fn cd_target(&self) -> Option<String> {
        (self.name() == CD_COMMAND)
            .then(|| self.words.get(1).and_then(CommandWord::text))
            .flatten()
    }
}

/// The only command that is not a program.
pub const CD_COMMAND: &str = "cd";

/// Word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandWord {
    /// Pieces, without anything between them.
    pub pieces: Vec<WordPiece>,
}

/// Piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordPiece {
    /// Literal text.
    Text(String),
    /// `"$(…)"`: output of the commands without trailing line breaks. Never more than one word.
    Output(CommandScript),
    /// `*`: any text in a file name.
    Star,
    /// `?`: any character in a file name.
    Question,
}

impl CommandWord {
    /// Returns the text if all of it is known.
    pub fn text(&self) -> Option<String> {
        let texts = self.pieces.iter().map(|piece| {
            if let WordPiece::Text(text) = piece {
                Some(text.as_str())
            } else {
                None
            }
        });
        texts.collect()
    }

    /// Returns true if the word expands to the names of matching files.
    pub fn is_glob(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, WordPiece::Star | WordPiece::Question))
    }

    /// Converts the word to atoms. Globs and command output become [`PatternAtom::Any`].
    pub fn atoms(&self) -> Vec<PatternAtom> {
        let piece_atoms = |piece: &WordPiece| match piece {
            WordPiece::Text(text) => atoms(text),
            WordPiece::Output(_) | WordPiece::Star | WordPiece::Question => vec![PatternAtom::Any],
        };
        self.pieces.iter().flat_map(piece_atoms).collect()
    }
}

/// Redirection of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRedirect {
    /// Stream number: 0, 1 or 2.
    pub stream: usize,
    /// Target of the stream.
    pub target: RedirectTarget,
}

/// Target of a redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectTarget {
    /// Another stream, 1 or 2.
    Stream(usize),
    /// Null device.
    Null,
    /// File to read.
    Read(String),
    /// File to write.
    Write {
        /// Path of the file.
        path: String,
        /// `true` to append to the file.
        append: bool,
    },
}

/// Returns true if a path stays below its base directory. Only the text is checked, not symbolic
/// links.
pub fn is_path_inside(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/') && !path.split('/').any(|part| part == "..")
}
