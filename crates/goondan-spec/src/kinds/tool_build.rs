//! Build of an entry: its command and sources.

use std::fmt;
use std::time::Duration;

use super::SourceLocation;
use crate::meta::ResourceId;

/// Build command of an entry, and its source files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildSettings {
    /// Command to run.
    pub command: BuildCommand,
    /// Working directory of the command, relative to the bundle. `None` for the bundle directory.
    pub cwd: Option<String>,
    /// Globs of the source files, relative to the command's working directory. Empty if none are
    /// stated.
    pub sources: Vec<String>,
    /// Time limit. Default: ten minutes.
    pub timeout: Duration,
}

/// Build command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildCommand {
    /// Command line for the shell.
    Shell(String),
    /// Program with literal arguments.
    Program {
        /// Program, looked up in `PATH_FORMAT`.
        program: String,
        /// Arguments without the program name.
        arguments: Vec<String>,
    },
}

impl fmt::Display for BuildCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildCommand::Shell(line) => f.write_str(line),
            BuildCommand::Program { program, arguments } => {
                f.write_str(program)?;
                arguments
                    .iter()
                    .try_for_each(|argument| write!(f, " {argument}"))
            }
        }
    }
}

/// Build settings of a tool, extension or connector. Available even if the entry is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolBuild {
    /// Resource that owns the entry.
    pub tool: ResourceId,
    /// Entry as stated, relative to the bundle.
    pub entry: String,
    /// Build settings.
    pub build: BuildSettings,
    /// Position of the `build` field.
    pub written: SourceLocation,
}
